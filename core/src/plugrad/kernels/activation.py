"""Activation functions of neural networks, element by element. NaN gives NaN."""

from typing import Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare, kernel
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import FLOATING, INEXACT, REAL, DType
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec


def activation(name: str, accepts: frozenset[DType] = FLOATING) -> Kernel[[Spec], Tensor]:
    """Declare a kernel whose result has the shape and dtype of its one input `x`."""

    def rule(x: Spec) -> Spec:
        return Shaped(x.shape, x.dtype)

    return declare(Kernel(name, rule, "activation", is_elementwise=True, accepts=accepts))


relu: Final = activation("Relu", REAL)  # max(x, 0)
relu6: Final = activation("Relu6", REAL)  # min(max(x, 0), 6)
elu: Final = activation("Elu")  # x where x > 0, else exp(x) - 1 (Clevert and others, 2016)
# scale * (x where x > 0, else alpha * (exp(x) - 1)), with scale = 1.0507… and alpha = 1.6732…
# (Klambauer and others, 2017)
selu: Final = activation("Selu")
sigmoid: Final = activation("Sigmoid", INEXACT)  # 1 / (1 + exp(-x))
softplus: Final = activation("Softplus")  # log(1 + exp(x))
gelu: Final = activation("Gelu")  # x P(X <= x) of a standard normal X (Hendrycks and Gimpel, 2016)
gelu_tanh: Final = activation(
    "GeluTanh"
)  # their approximation x (1 + tanh(u)) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)


@kernel("LeakyRelu", is_elementwise=True, accepts=FLOATING)
def leaky_relu(x: Spec, *, alpha: float) -> Spec:
    """Return x where x > 0, else ``alpha * x``."""
    return Shaped(x.shape, x.dtype)


@kernel("Prelu", is_elementwise=True, accepts=FLOATING)
def prelu(x: Spec, alpha: Spec) -> Spec:
    """Return x where x > 0, else ``alpha * x``, where `alpha` is a tensor (He and others, 2015)."""
    return Shaped(broadcast(x.shape, alpha.shape), check_same_dtype("Prelu", x, alpha))


@kernel("Relu6Grad", is_elementwise=True, accepts=FLOATING)
def relu6_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `relu6`, given its result y: 0 where y is 0 or 6, else dy."""
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("Relu6Grad", dy, y))


@kernel("SigmoidGrad", is_elementwise=True, accepts=FLOATING)
def sigmoid_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `sigmoid`, given its result y: ``dy * y * (1 - y)``."""
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("SigmoidGrad", dy, y))


@kernel("EluGrad", is_elementwise=True, accepts=FLOATING)
def elu_gradient(dy: Spec, y: Spec) -> Spec:
    """Return the gradient of `elu`, given its result y: dy where y >= 0, else ``dy * (y + 1)``."""
    return Shaped(broadcast(dy.shape, y.shape), check_same_dtype("EluGrad", dy, y))


@kernel("GeluGrad", is_elementwise=True, accepts=FLOATING)
def gelu_gradient(dy: Spec, x: Spec) -> Spec:
    """Return the gradient of `gelu`: dy times ``P(X <= x) + x p(x)``, where p is the density of X."""
    return Shaped(broadcast(dy.shape, x.shape), check_same_dtype("GeluGrad", dy, x))


@kernel("GeluTanhGrad", is_elementwise=True, accepts=FLOATING)
def gelu_tanh_gradient(dy: Spec, x: Spec) -> Spec:
    """Return the gradient of `gelu_tanh`: dy times ``s + 2 x u' s (1 - s)``, where s is the sigmoid of 2 u."""
    return Shaped(broadcast(dy.shape, x.shape), check_same_dtype("GeluTanhGrad", dy, x))
