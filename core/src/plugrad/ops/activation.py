"""The functions between the layers of a network, applied to each element.

Whole numbers become float32 where a function has only floating results.
"""

from plugrad.kernels import activation
from plugrad.ops.arguments import coerced, paired
from plugrad.ops.attributes import finite
from plugrad.tensor.tensor import Tensor, TensorLike


def relu(x: TensorLike) -> Tensor:
    """``max(x, 0)``, the rectified linear unit.

    >>> plugrad.relu([-1.0, 2.0])
    tensor([0., 2.], dtype=float32)
    """
    return activation.relu(coerced(x, activation.relu, "relu"))


def relu6(x: TensorLike) -> Tensor:
    """Clamp to the range 0 to 6.

    >>> plugrad.relu6([-1.0, 2.0, 8.0])
    tensor([0., 2., 6.], dtype=float32)
    """
    return activation.relu6(coerced(x, activation.relu6, "relu6"))


def elu(x: TensorLike) -> Tensor:
    """The exponential linear unit: x where x > 0, else ``exp(x) - 1`` (Clevert et al., 2015).

    >>> plugrad.elu([-1.0, 2.0])
    tensor([-0.63212055,  2.        ], dtype=float32)
    """
    return activation.elu(coerced(x, activation.elu, "elu"))


def selu(x: TensorLike) -> Tensor:
    """The scaled `elu`, which keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> plugrad.selu([-1.0, 2.0])
    tensor([-1.1113307,  2.101402 ], dtype=float32)
    """
    return activation.selu(coerced(x, activation.selu, "selu"))


def sigmoid(x: TensorLike) -> Tensor:
    """``1 / (1 + exp(-x))``, the logistic function.

    >>> plugrad.sigmoid([0.0, 2.0])
    tensor([0.5     , 0.880797], dtype=float32)
    """
    return activation.sigmoid(coerced(x, activation.sigmoid, "sigmoid"))


def softplus(x: TensorLike) -> Tensor:
    """``log(1 + exp(x))``, a smooth relu.

    >>> plugrad.softplus([0.0, 2.0])
    tensor([0.6931472, 2.126928 ], dtype=float32)
    """
    return activation.softplus(coerced(x, activation.softplus, "softplus"))


def log_sigmoid(x: TensorLike) -> Tensor:
    """``log(sigmoid(x))``, computed as ``-softplus(-x)``, which cannot underflow.

    >>> plugrad.log_sigmoid([0.0, -200.0])
    tensor([  -0.6931472, -200.       ], dtype=float32)
    """
    return -activation.softplus(-coerced(x, activation.softplus, "log_sigmoid"))


def leaky_relu(x: TensorLike, alpha: float = 0.2) -> Tensor:
    """X where x > 0, else ``alpha * x``.

    >>> plugrad.leaky_relu([-1.0, 2.0], alpha=0.5)
    tensor([-0.5,  2. ], dtype=float32)
    """
    slope = finite(alpha, "leaky_relu", "alpha")
    return activation.leaky_relu(coerced(x, activation.leaky_relu, "leaky_relu"), alpha=slope)


def prelu(x: TensorLike, alpha: TensorLike) -> Tensor:
    """X where x > 0, else ``alpha * x``, with a tensor `alpha` that can be trained.

    >>> plugrad.prelu([-1.0, 2.0], [0.5, 0.5])
    tensor([-0.5,  2. ], dtype=float32)
    """
    return paired(activation.prelu, x, alpha, "prelu")
