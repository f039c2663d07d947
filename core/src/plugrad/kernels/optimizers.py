"""Kernels that take a step of an optimizer: they move all variables of one dtype against their gradients.

The inputs are a vector of coefficients and then lists of one length: the variables, their gradients, and one list
for each tensor that the optimizer keeps for a variable. The outputs are the lists of what replaces the variables and
what is kept. The coefficients are an input, and no attributes, because they change from step to step.

In the formulas, v is a variable and g its gradient; they are applied element by element.

Args:
    inputs: the coefficients, a vector in the order that the kernel says, then the lists, all of one dtype. What is kept
        for a variable has its shape.

Returns:
    *lists: the updated variables, then what is kept, in the order that the kernel says.
"""

from typing import Any, Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare_contract
from plugrad.errors import ShapeError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType, float32, float64
from plugrad.types.specs import Shaped, Spec

OPTIMIZER_DTYPES: Final[frozenset[DType]] = frozenset(
    (float32, float64)
)  # squares of float16 overflow early

LIST_COUNT_OF_KERNEL: Final[dict[Kernel[..., Any], int]] = {}
"""The number of lists of tensors that each kernel takes: variables, gradients, and those of its state."""
COEFFICIENT_COUNT_OF_KERNEL: Final[dict[Kernel[..., Any], int]] = {}
"""The number of coefficients that each kernel takes."""


def declare_optimizer_step(
    name: str, coefficient_count: int, state_count: int, contract: str
) -> Kernel[..., list[Tensor]]:
    """Return a new kernel for an optimizer's step; for each variable it has `state_count` tensors of state.

    The first input has `coefficient_count` numbers. `contract` says what the step returns.
    """

    def rule(*inputs: Spec) -> tuple[Spec, ...]:
        numbers, *tensors = inputs
        if numbers.shape != (coefficient_count,):
            raise ShapeError(
                f"the first input must be {coefficient_count} coefficients, not of shape {numbers.shape}"
            )
        count, rest = divmod(len(tensors), 2 + state_count)
        if rest:
            raise ShapeError(
                f"{len(tensors)} tensors follow the coefficients, which must be {2 + state_count} lists of one length"
            )
        for i, x in enumerate(tensors):
            if x.shape != tensors[i % count].shape:
                raise ShapeError(
                    f"a variable has shape {tensors[i % count].shape}; its gradient and what is kept for it "
                    f"must have this shape, not {x.shape}"
                )
        dtype = check_same_dtype(name, *inputs)
        replaced = (*tensors[:count], *tensors[2 * count :])
        return tuple(Shaped(x.shape, dtype) for x in replaced)

    rule.__doc__ = contract
    kernel = declare_contract(
        Kernel[..., list[Tensor]](name, rule, "optimizers", accepts=OPTIMIZER_DTYPES)
    )
    LIST_COUNT_OF_KERNEL[kernel], COEFFICIENT_COUNT_OF_KERNEL[kernel] = (
        2 + state_count,
        coefficient_count,
    )
    return kernel


gradient_descent: Final = declare_optimizer_step(
    "ApplyGradientDescent",
    1,
    0,
    """Return ``v - rate * g``, a step of stochastic gradient descent.

    Coefficients: rate. Nothing is kept.
    """,
)
momentum: Final = declare_optimizer_step(
    "ApplyMomentum",
    3,
    1,
    """Return ``v - rate * a``, a step of gradient descent with momentum (Polyak, 1964).

    The velocity ``a`` becomes ``momentum * a + g`` first. If `is_nesterov` is 1 instead of 0, the step is
    ``rate * (g + momentum * a)`` (Sutskever and others, 2013).

    Coefficients: rate, momentum, is_nesterov. Kept: a.
    """,
)
adagrad: Final = declare_optimizer_step(
    "ApplyAdagrad",
    2,
    1,
    """Return ``v - rate * g / (sqrt(a) + epsilon)``, a step of Adagrad (Duchi and others, 2011).

    The sum ``a`` of the squares of the gradients becomes ``a + g**2`` first.

    Coefficients: rate, epsilon. Kept: a.
    """,
)
adadelta: Final = declare_optimizer_step(
    "ApplyAdadelta",
    4,
    2,
    """Return ``v - rate * d``, a step of Adadelta (Zeiler, 2012), with ``d = g * sqrt((u + epsilon) / (s + epsilon))``.

    The average ``s`` of the squares of the gradients becomes ``rho * s + others * g**2`` first. The average ``u`` of
    the squares of the steps becomes ``rho * u + others * d**2`` afterwards.

    Coefficients: rate, rho, others = 1 - rho, epsilon. Kept: s, u.
    """,
)
rmsprop: Final = declare_optimizer_step(
    "ApplyRMSProp",
    5,
    2,
    """Return ``v - rate * a``, a step of RMSProp (Tieleman and Hinton, 2012).

    The average ``s`` of the squares of the gradients becomes ``decay * s + others * g**2`` first, then the velocity
    ``a`` becomes ``momentum * a + g / (sqrt(s) + epsilon)``.

    Coefficients: rate, decay, others = 1 - decay, momentum, epsilon. Kept: s, a.
    """,
)
centered_rmsprop: Final = declare_optimizer_step(
    "ApplyCenteredRMSProp",
    5,
    3,
    """Return ``v - rate * a``, a step of RMSProp that divides by the deviation from the mean gradient (Graves, 2013).

    The average ``s`` of the squares of the gradients becomes ``decay * s + others * g**2`` first, and their ``mean``
    becomes ``decay * mean + others * g``. Then the velocity ``a`` becomes
    ``momentum * a + g / (sqrt(max(s - mean**2, 0)) + epsilon)``.

    Coefficients: rate, decay, others = 1 - decay, momentum, epsilon. Kept: s, a, mean.
    """,
)
adam: Final = declare_optimizer_step(
    "ApplyAdam",
    7,
    2,
    """Return ``keep * v - rate * m / (sqrt(s) + epsilon)``, a step of Adam (Kingma and Ba, 2015).

    The average ``m`` of the gradients becomes ``beta1 * m + others1 * g`` first, and the average ``s`` of their
    squares becomes ``beta2 * s + others2 * g**2``. The coefficients contain the corrections for the first steps; a
    ``keep`` below 1 is the weight decay of AdamW (Loshchilov and Hutter, 2019).

    Coefficients: rate, keep, beta1, others1 = 1 - beta1, beta2, others2 = 1 - beta2, epsilon. Kept: m, s.
    """,
)
adamax: Final = declare_optimizer_step(
    "ApplyAdamax",
    5,
    2,
    """Return ``v - rate * m / u``, a step of Adamax (Kingma and Ba, 2015).

    The average ``m`` of the gradients becomes ``beta1 * m + others * g`` first, and their greatest size ``u`` becomes
    ``max(beta2 * u, abs(g) + epsilon)``.

    Coefficients: rate, beta1, others = 1 - beta1, beta2, epsilon. Kept: m, u.
    """,
)
