"""Functions that scale the elements along an axis to a common measure."""

from plugrad.kernels import normalization
from plugrad.ops.arguments import coerced
from plugrad.shapes import axis_of
from plugrad.tensor import Tensor, TensorLike


def softmax(logits: TensorLike, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))``: positive numbers that add up to 1 along an axis.

    >>> plugrad.softmax([1.0, 2.0, 3.0])
    tensor([0.09003057, 0.24472846, 0.66524094], dtype=float32)

    Large elements do not overflow. An infinite element gives NaN.

    Raises:
        AxisError: the axis is out of range.
    """
    x = coerced(logits, normalization.softmax, "softmax", "logits")
    return normalization.softmax(x, dim=axis_of(axis, x.ndim))


def log_softmax(logits: TensorLike, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, accurate also where softmax is close to 0.

    >>> plugrad.log_softmax([1.0, 2.0, 3.0])
    tensor([-2.4076061, -1.407606 , -0.407606 ], dtype=float32)

    Raises:
        AxisError: the axis is out of range.
    """
    x = coerced(logits, normalization.log_softmax, "log_softmax", "logits")
    return normalization.log_softmax(x, axis=axis_of(axis, x.ndim))
