"""Activation functions of neural networks, element by element. NaN gives NaN.

Args:
    x: a tensor of any shape.
    alpha: the slope where x is 0 or less.
    dy: the gradient of the result of the activation function.

Returns:
    a tensor of the dtype of the inputs, and of the shape to which they broadcast.
"""

from typing import Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare_contract, kernel
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import FLOATING, INEXACT, REAL, DType
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec


def activation(
    name: str, contract: str, accepts: frozenset[DType] = FLOATING
) -> Kernel[[Spec], Tensor]:
    """Return a new kernel of one input of the dtypes `accepts`, whose result has its dtype; `contract` is its text."""

    def rule(x: Spec) -> Spec:
        return Shaped(x.shape, x.dtype)

    rule.__doc__ = contract
    return declare_contract(Kernel(name, rule, "activation", is_elementwise=True, accepts=accepts))


relu: Final = activation("Relu", "Return ``max(x, 0)``.", REAL)
relu6: Final = activation("Relu6", "Return ``min(max(x, 0), 6)``.", REAL)
elu: Final = activation(
    "Elu", "Return x where x > 0, else ``exp(x) - 1`` (Clevert and others, 2016)."
)
selu: Final = activation(
    "Selu",
    """Return ``scale * (x if x > 0 else alpha * (exp(x) - 1))`` (Klambauer and others, 2017).

    The scale is 1.0507009873554805 and alpha is 1.6732632423543772.
    """,
)
sigmoid: Final = activation("Sigmoid", "Return ``1 / (1 + exp(-x))``.", INEXACT)
silu: Final = activation(
    "Silu",
    """Return ``x / (1 + exp(-x))``, the product of x and its sigmoid, which is 0 at -infinity.

    It is the sigmoid linear unit of Elfwing and others, 2017, also called swish.
    """,
)
softplus: Final = activation("Softplus", "Return ``log(1 + exp(x))``, which does not overflow.")
gelu: Final = activation(
    "Gelu", "Return ``x P(X <= x)`` of a standard normal X (Hendrycks and Gimpel, 2016)."
)
gelu_tanh: Final = activation(
    "GeluTanh",
    """Return an approximation of `gelu`, ``x (1 + tanh(u)) / 2`` with ``u = sqrt(2 / pi) (x + 0.044715 x**3)``.

    The approximation is that of Hendrycks and Gimpel, 2016.
    """,
)


@kernel("LeakyRelu", is_elementwise=True, accepts=FLOATING)
def leaky_relu(x: Spec, *, alpha: float) -> Spec:
    """Return x where x > 0, else ``alpha * x``."""
    return Shaped(x.shape, x.dtype)


@kernel("Prelu", is_elementwise=True, accepts=FLOATING)
def prelu(x: Spec, alpha: Spec) -> Spec:
    """Return x where x > 0, else ``alpha * x``, where `alpha` is a tensor (He and others, 2015).

    Args:
        alpha: the slopes where x is 0 or less, which broadcast with x.
    """
    return Shaped(broadcast(x.shape, alpha.shape), check_same_dtype("Prelu", x, alpha))


@kernel("Relu6Grad", is_elementwise=True, accepts=FLOATING)
def relu6_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `relu6`, given its result y: 0 where y is 0 or 6, else dy.

    Args:
        y: the result of `relu6`, from 0 to 6; the gradient for other numbers is unspecified.
    """
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("Relu6Grad", dy, y))


@kernel("SigmoidGrad", is_elementwise=True, accepts=FLOATING)
def sigmoid_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `sigmoid`, given its result y: ``dy * y * (1 - y)``.

    Args:
        y: the result of `sigmoid`, from 0 to 1.
    """
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("SigmoidGrad", dy, y))


@kernel("SiluGrad", is_elementwise=True, accepts=FLOATING)
def silu_gradient(dy: Spec, x: Spec) -> Spec:
    """Return the gradient of `silu`: dy times ``s (1 + x (1 - s))``, where s is the sigmoid of x."""
    return Shaped(broadcast(dy.shape, x.shape), check_same_dtype("SiluGrad", dy, x))


@kernel("EluGrad", is_elementwise=True, accepts=FLOATING)
def elu_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `elu`, given its result y: dy where y >= 0, else ``dy * (y + 1)``.

    Args:
        y: the result of `elu`, which is -1 or more.
    """
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("EluGrad", dy, y))


@kernel("GeluGrad", is_elementwise=True, accepts=FLOATING)
def gelu_gradient(dy: Spec, x: Spec) -> Spec:
    """Return the gradient of `gelu`: dy times ``P(X <= x) + x p(x)``, where p is the density of X."""
    return Shaped(broadcast(dy.shape, x.shape), check_same_dtype("GeluGrad", dy, x))


@kernel("GeluTanhGrad", is_elementwise=True, accepts=FLOATING)
def gelu_tanh_gradient(dy: Spec, x: Spec) -> Spec:
    """Return the gradient of `gelu_tanh`: dy times ``s + 2 x u' s (1 - s)``, where s is the sigmoid of 2 u."""
    return Shaped(broadcast(dy.shape, x.shape), check_same_dtype("GeluTanhGrad", dy, x))
