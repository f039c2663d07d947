"""Activation functions of neural networks, which act on each element. NaN gives NaN.

Integers and bools become float32 where a function has only floating-point results. An argument that
does not convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import activation, unary
from plugrad.ops.arguments import as_supported_dtype, binary_op, unary_op
from plugrad.ops.attributes import check_finite
from plugrad.ops.binary import clip, maximum, minimum, where
from plugrad.ops.movement import split
from plugrad.types.arguments import check_flag, explain_wrong_calls
from plugrad.types.shapes import normalize_axis

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike

SIGMOID_SATURATION_LIMIT: Final = 800.0
"""A number beyond which the sigmoid is 0 or 1 in every dtype. Its product with 0 is 0; that of infinity is NaN."""


def relu(x: TensorLike) -> Tensor:
    """The rectified linear unit ``max(x, 0)`` of each element.

    >>> plugrad.relu([-1.0, 2.0])
    tensor([0., 2.], dtype=float32)

    The result has the shape and dtype of x.

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
    """
    return unary_op(activation.relu, x, "relu")


def relu6(x: TensorLike) -> Tensor:
    """Each element clamped to the range 0 to 6.

    >>> plugrad.relu6([-1.0, 2.0, 8.0])
    tensor([0., 2., 6.], dtype=float32)

    The result has the shape and dtype of x. See Krizhevsky, "Convolutional deep belief networks on
    CIFAR-10" (2010).

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
    """
    return unary_op(activation.relu6, x, "relu6")


def elu(x: TensorLike) -> Tensor:
    """The exponential linear unit of each element: x where x > 0, else ``exp(x) - 1``.

    >>> plugrad.elu([-1.0, 2.0])
    tensor([-0.63212055,  2.        ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Clevert et al.,
    "Fast and accurate deep network learning by exponential linear units (ELUs)" (2015).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(activation.elu, x, "elu")


def selu(x: TensorLike) -> Tensor:
    """The scaled exponential linear unit of each element, which keeps mean 0 and variance 1.

    >>> plugrad.selu([-1.0, 2.0])
    tensor([-1.1113307,  2.101402 ], dtype=float32)

    It is ``1.0507 * x`` where x > 0, else ``1.0507 * 1.6733 * (exp(x) - 1)``, with both constants
    in full precision. The result has the shape and dtype of x; integers and bools give float32. See
    Klambauer et al., "Self-normalizing neural networks" (2017).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(activation.selu, x, "selu")


def sigmoid(x: TensorLike) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))`` of each element.

    >>> plugrad.sigmoid([0.0, 2.0])
    tensor([0.5      , 0.8807971], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(activation.sigmoid, x, "sigmoid")


def softplus(x: TensorLike) -> Tensor:
    """The smooth approximation ``log(1 + exp(x))`` of `relu` for each element.

    >>> plugrad.softplus([0.0, 2.0])
    tensor([0.6931472, 2.126928 ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32.

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(activation.softplus, x, "softplus")


def log_sigmoid(x: TensorLike) -> Tensor:
    """The logarithm of `sigmoid` for each element, computed as ``-softplus(-x)``, which cannot underflow.

    >>> plugrad.log_sigmoid([0.0, -200.0])
    tensor([  -0.6931472, -200.       ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32.

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return -activation.softplus(-as_supported_dtype(x, activation.softplus, "log_sigmoid"))


def gelu(x: TensorLike, *, approximate: bool = False) -> Tensor:
    """The Gaussian error linear unit of each element: x times the probability that a normal number is at most x.

    >>> plugrad.gelu([-1.0, 0.0, 1.0])
    tensor([-0.15865526,  0.        ,  0.8413447 ], dtype=float32)

    It is ``x / 2 * (1 + erf(x / sqrt(2)))``. The approximation is
    ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``, which differs by at most 0.0005. The
    result has the shape and dtype of x; integers and bools give float32. See Hendrycks and Gimpel,
    "Gaussian error linear units (GELUs)" (2016).

    Args:
        x: the elements.
        approximate: whether to compute the approximation.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `approximate` is not a bool.
    """
    is_rough = check_flag(approximate, "gelu", "approximate")
    kernel = activation.gelu_tanh if is_rough else activation.gelu
    return unary_op(kernel, x, "gelu")


def leaky_relu(x: TensorLike, alpha: float = 0.2) -> Tensor:
    """The leaky rectified linear unit of each element: x where x > 0, else ``alpha * x``.

    >>> plugrad.leaky_relu([-1.0, 2.0], alpha=0.5)
    tensor([-0.5,  2. ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Maas et al.,
    "Rectifier nonlinearities improve neural network acoustic models" (2013).

    Args:
        x: the elements.
        alpha: the slope for negative elements, a finite number.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `alpha` is not a number; `prelu` takes a tensor.
        ArgumentValueError: `alpha` is not finite.
    """
    slope = check_finite(alpha, "leaky_relu", "alpha")
    return activation.leaky_relu(
        as_supported_dtype(x, activation.leaky_relu, "leaky_relu"), alpha=slope
    )


def prelu(x: TensorLike, alpha: TensorLike) -> Tensor:
    """The parametric rectified linear unit of each element: x where x > 0, else ``alpha * x``.

    >>> plugrad.prelu([-1.0, 2.0], [0.5, 0.5])
    tensor([-0.5,  2. ], dtype=float32)

    The result has the common shape and dtype of x and alpha; integers and bools give float32. See
    He et al., "Delving deep into rectifiers" (2015).

    Args:
        x: the elements.
        alpha: the slopes for negative elements, a tensor that can be trained; it broadcasts with x.

    Raises:
        DTypeError: x or alpha holds complex numbers or strings, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(activation.prelu, x, alpha, "prelu")


def silu(x: TensorLike) -> Tensor:
    """The sigmoid linear unit ``x * sigmoid(x)`` of each element, also called swish.

    >>> plugrad.silu([-1.0, 0.0, 2.0])
    tensor([-0.26894143,  0.        ,  1.7615942 ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Elfwing et al.,
    "Sigmoid-weighted linear units for neural network function approximation" (2017).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(activation.silu, x, "silu")


def mish(x: TensorLike) -> Tensor:
    """The smooth activation ``x * tanh(softplus(x))`` of each element.

    >>> plugrad.mish([-1.0, 0.0, 2.0])
    tensor([-0.30340147,  0.        ,  1.943959  ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Misra, "Mish: A self
    regularized non-monotonic activation function" (2019).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    x = as_supported_dtype(x, activation.softplus, "mish")
    clipped = minimum(x, SIGMOID_SATURATION_LIMIT)  # or the gradient would multiply infinity by 0
    return maximum(x, -SIGMOID_SATURATION_LIMIT) * unary.tanh(activation.softplus(clipped))


def softsign(x: TensorLike) -> Tensor:
    """The function ``x / (1 + abs(x))`` of each element, which lies between -1 and 1.

    >>> plugrad.softsign([-1.0, 0.0, 3.0])
    tensor([-0.5 ,  0.  ,  0.75], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Glorot and Bengio,
    "Understanding the difficulty of training deep feedforward neural networks" (2010).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    x = as_supported_dtype(x, activation.elu, "softsign")
    largest = float(x.dtype.info.max)
    x = clip(x, -largest, largest)  # infinity would be divided by itself
    return x / (1 + unary.abs(x))


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """The continuously differentiable `elu` of each element: x where x > 0, else ``alpha * (exp(x / alpha) - 1)``.

    >>> plugrad.celu([-1.0, 2.0], alpha=2.0)
    tensor([-0.78693867,  2.        ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Barron, "Continuously
    differentiable exponential linear units" (2017).

    Args:
        x: the elements.
        alpha: the negative of the least result, a finite number other than 0.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `alpha` is not a number.
        ArgumentValueError: `alpha` is 0 or not finite.
    """
    scale = check_finite(alpha, "celu", "alpha")
    if scale == 0:
        raise ArgumentValueError("celu: alpha=0 must not be 0, because x is divided by it")
    x = as_supported_dtype(x, activation.elu, "celu")
    return activation.elu(x / scale) * scale


def hard_sigmoid(x: TensorLike) -> Tensor:
    """The piecewise linear approximation ``relu6(x + 3) / 6`` of `sigmoid` for each element.

    >>> plugrad.hard_sigmoid([-4.0, 0.0, 1.5])
    tensor([0.  , 0.5 , 0.75], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Howard et al.,
    "Searching for MobileNetV3" (2019).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return activation.relu6(as_supported_dtype(x, activation.elu, "hard_sigmoid") + 3) / 6


def hard_silu(x: TensorLike) -> Tensor:
    """The piecewise approximation ``x * hard_sigmoid(x)`` of `silu` for each element, also called hard swish.

    >>> plugrad.hard_silu([-4.0, 0.0, 1.5])
    tensor([-0.   ,  0.   ,  1.125], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. See Howard et al.,
    "Searching for MobileNetV3" (2019).

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    x = as_supported_dtype(x, activation.elu, "hard_silu")
    return maximum(x, -SIGMOID_SATURATION_LIMIT) * hard_sigmoid(x)


def hard_tanh(x: TensorLike) -> Tensor:
    """Each element clamped to the range -1 to 1, the piecewise linear approximation of `tanh`.

    >>> plugrad.hard_tanh([-4.0, 0.5, 2.0])
    tensor([-1. ,  0.5,  1. ], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32.

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return clip(as_supported_dtype(x, activation.elu, "hard_tanh"), -1, 1)


def hard_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """Each element whose size is above a threshold, and 0 in place of the others.

    >>> plugrad.hard_shrink([-1.0, 0.25, 0.75])
    tensor([-1.  ,  0.  ,  0.75], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. NaN stays NaN. See Donoho and
    Johnstone, "Ideal spatial adaptation by wavelet shrinkage" (1994).

    Args:
        x: the elements.
        threshold: the largest size that counts as 0, at least 0.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `threshold` is not a number.
        ArgumentValueError: `threshold` is negative or not finite.
    """
    least = _check_threshold(threshold, "hard_shrink")
    x = as_supported_dtype(x, activation.elu, "hard_shrink")
    return where(unary.abs(x) <= least, 0, x)


def soft_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """Each element brought nearer to 0 by a threshold, or to 0 if it is not as far.

    >>> plugrad.soft_shrink([-1.0, 0.25, 0.75])
    tensor([-0.5 ,  0.  ,  0.25], dtype=float32)

    The result has the shape and dtype of x; integers and bools give float32. NaN stays NaN. See Donoho,
    "De-noising by soft-thresholding" (1995).

    Args:
        x: the elements.
        threshold: by how much their size shrinks, at least 0.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `threshold` is not a number.
        ArgumentValueError: `threshold` is negative or not finite.
    """
    least = _check_threshold(threshold, "soft_shrink")
    x = as_supported_dtype(x, activation.elu, "soft_shrink")
    return where(unary.abs(x) <= least, 0, x - least * unary.sign(x))


def _check_threshold(threshold: float, op: str) -> float:
    """Return the threshold as a float; raise an error if it is not a number.

    Raises:
        ArgumentError: it is not a number.
        ArgumentValueError: it is negative or not finite.
    """
    least = check_finite(threshold, op, "threshold")
    if least < 0:
        raise ArgumentValueError(f"{op}: threshold={threshold!r} must be at least 0")
    return least


@explain_wrong_calls
def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """The gated linear unit: one half of an axis times the `sigmoid` of the other half.

    >>> plugrad.glu([[1.0, 2.0, 0.0, 0.0]])
    tensor([[0.5, 1. ]], dtype=float32)

    The result has the dtype of x, and half its size along the axis; integers and bools give float32. See
    Dauphin et al., "Language modeling with gated convolutional networks" (2016).

    Args:
        x: a tensor whose size along `axis` is even.
        axis: the axis to halve.

    Raises:
        DTypeError: x holds complex numbers or strings.
        AxisError: x does not have the axis.
        ShapeError: the size along the axis is odd.
    """
    x = as_supported_dtype(x, activation.elu, "glu")
    position = normalize_axis(axis, x.ndim, name="glu: axis")
    size = x.shape[position]
    if size % 2:
        raise ShapeError(
            f"glu: x has shape {x.shape}; its size along axis {axis} must be even, not {size}"
        )
    values, gates = split(x, 2, axis=position)
    return values * activation.sigmoid(gates)
