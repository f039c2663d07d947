"""Functions that scale elements to a common measure."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from plugrad.kernels import normalization
from plugrad.ops.arguments import accepted_dtype, as_tensor, cast, coerced
from plugrad.ops.attributes import finite, whole
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import promote
from plugrad.types.shapes import axis_of

if TYPE_CHECKING:
    from plugrad.tensor.tensor import TensorLike


def softmax(x: TensorLike, *, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))``: positive numbers that add up to 1 along an axis.

    >>> plugrad.softmax([1.0, 2.0, 3.0])
    tensor([0.09003057, 0.24472846, 0.66524094], dtype=float32)

    Large elements do not overflow. An infinite element gives NaN.

    Raises:
        AxisError: the axis is out of range.
    """
    x = coerced(x, normalization.softmax, "softmax")
    return normalization.softmax(x, dim=axis_of(axis, x.ndim, name="softmax: axis"))


def log_softmax(x: TensorLike, *, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, accurate also where softmax is close to 0.

    >>> plugrad.log_softmax([1.0, 2.0, 3.0])
    tensor([-2.4076061, -1.407606 , -0.407606 ], dtype=float32)

    Raises:
        AxisError: the axis is out of range.
    """
    x = coerced(x, normalization.log_softmax, "log_softmax")
    return normalization.log_softmax(x, axis=axis_of(axis, x.ndim, name="log_softmax: axis"))


def batch_norm(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    *,
    variance_epsilon: float = 0.001,
) -> Tensor:
    """The elements of x brought to mean 0 and variance 1, then scaled and shifted (Ioffe and Szegedy, 2015).

    ``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``

    >>> x = plugrad.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> mean, variance = plugrad.moments(x, axis=0)
    >>> plugrad.batch_norm(x, mean, variance, variance_epsilon=0.0)
    tensor([[-1., -1.],
            [ 1.,  1.]], dtype=float32)

    Args:
        x: numbers of any shape; the channels are usually along the last axis.
        mean: what to subtract; like the next three, of one number for each channel or of any other
            shape that broadcasts to the shape of x.
        variance: its square root is what to divide by.
        offset: what to add; None means 0.
        scale: what to multiply with; None means 1.
        variance_epsilon: is added to the variance, so that it is not 0.

    Raises:
        ShapeError: one of the others does not broadcast to the shape of x.
        DTypeError: one of them does not hold real numbers.
    """
    given = {"x": x, "mean": mean, "variance": variance, "offset": offset, "scale": scale}
    home = next((part.backend for part in given.values() if isinstance(part, Tensor)), None)
    tensors = {
        name: as_tensor(part, "batch_norm", name, backend=home)  # type: ignore[arg-type]
        for name, part in given.items()
        if part is not None or name not in ("offset", "scale")
    }
    dtypes = [
        accepted_dtype(tensor.dtype, normalization.batch_norm, f"batch_norm ({name})")
        for name, tensor in tensors.items()
    ]
    dtype = reduce(promote, dtypes)
    parts = {name: cast(tensor, dtype) for name, tensor in tensors.items()}
    return normalization.batch_norm(
        *(parts["x"], parts["mean"], parts["variance"], parts.get("offset"), parts.get("scale")),
        variance_epsilon=finite(variance_epsilon, "batch_norm", "variance_epsilon"),
    )


def local_response_normalization(
    x: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    """Each element divided by a power of what its neighbours amount to (Krizhevsky et al., 2012).

    ``x / (bias + alpha * s)**beta``, where s is the sum of the squares of the elements that are at
    most `depth_radius` away along the last axis, the element itself included.

    >>> plugrad.local_response_normalization([1.0, 2.0, 4.0], depth_radius=1, beta=1.0)
    tensor([0.16666667, 0.09090909, 0.1904762 ], dtype=float32)

    Raises:
        ShapeError: x has no axes.
        ArgumentValueError: the radius is not a whole number of at least 0.
    """
    op = "local_response_normalization"
    return normalization.local_response_normalization(
        coerced(x, normalization.local_response_normalization, op),
        depth_radius=whole(depth_radius, op, "depth_radius", least=0),
        bias=finite(bias, op, "bias"),
        alpha=finite(alpha, op, "alpha"),
        beta=finite(beta, op, "beta"),
    )
