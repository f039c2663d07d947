"""Kernels that take a step of an optimizer: they move all variables of one dtype against their gradients.

The inputs are a vector of coefficients and then lists of one length: the variables, their gradients, and one list
for each tensor that the optimizer keeps for a variable. The outputs are the lists of what replaces the variables and
what is kept. The formulas are in `plugrad.host.optimizers`. The coefficients are an input, and no attributes, because
they change from step to step.
"""

from typing import Any, Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare
from plugrad.errors import ShapeError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType, float32, float64
from plugrad.types.specs import Shaped, Spec

ROOMY: Final[frozenset[DType]] = frozenset((float32, float64))  # squares of float16 overflow early

LISTS: Final[dict[Kernel[..., Any], int]] = {}
"""How many lists of tensors each kernel takes."""
COEFFICIENTS: Final[dict[Kernel[..., Any], int]] = {}
"""How many coefficients each kernel takes."""


def step(name: str, coefficients: int, kept: int) -> Kernel[..., list[Tensor]]:
    """Declare the step of an optimizer with a number of coefficients, which keeps some tensors for a variable."""

    def rule(*inputs: Spec) -> tuple[Spec, ...]:
        numbers, *tensors = inputs
        if numbers.shape != (coefficients,):
            raise ShapeError(
                f"the first input must be {coefficients} coefficients, not of shape {numbers.shape}"
            )
        count, rest = divmod(len(tensors), 2 + kept)
        if rest:
            raise ShapeError(
                f"{len(tensors)} tensors follow the coefficients, which must be {2 + kept} lists of one length"
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

    kernel = declare(Kernel[..., list[Tensor]](name, rule, "optimizers", accepts=ROOMY))
    LISTS[kernel], COEFFICIENTS[kernel] = 2 + kept, coefficients
    return kernel


gradient_descent: Final = step("ApplyGradientDescent", 1, 0)
momentum: Final = step("ApplyMomentum", 3, 1)
adagrad: Final = step("ApplyAdagrad", 2, 1)
adadelta: Final = step("ApplyAdadelta", 4, 2)
rmsprop: Final = step("ApplyRMSProp", 5, 2)
centered_rmsprop: Final = step("ApplyCenteredRMSProp", 5, 3)
adam: Final = step("ApplyAdam", 7, 2)
adamax: Final = step("ApplyAdamax", 5, 2)
