"""Kernels that bring elements to a common scale.

Args:
    x: a tensor.
    logits: a tensor with at least one axis.
    dy: the gradient of the first result of the function, of its shape and dtype.
    mean: the mean of each channel, a vector of the dtype of x.
    variance: the variance of each channel, a vector of the dtype of x.
    offset: what is added at the end, of the dtype of x.
    scale: the factor of the normalized elements, of the dtype of x.
    variance_epsilon: what is added to the variance, so that it is not 0.
    depth_radius: how many neighbours on each side count, 0 or more.
    bias: what is added to the sum of squares.
    alpha: the factor of the sum of squares.
    beta: the exponent.

Returns:
    a tensor of the shape and the dtype of x.
"""

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, DType
from plugrad.types.shapes import broadcasts_to
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("Softmax", accepts=FLOATING)
def softmax(logits: Spec, *, dim: Axis) -> Spec:
    """Return ``exp(x) / sum(exp(x))`` along the axis `dim`.

    Args:
        dim: the axis along which the results add up to 1.

    Returns:
        a tensor of the shape and the dtype of the logits.
    """
    return Shaped(logits.shape, logits.dtype)


@kernel("LogSoftmax", accepts=FLOATING)
def log_softmax(logits: Spec, *, axis: Axis) -> Spec:
    """Return ``x - log(sum(exp(x)))`` along an axis.

    Args:
        axis: the axis along which the exponentials of the results add up to 1.

    Returns:
        a tensor of the shape and the dtype of the logits.
    """
    return Shaped(logits.shape, logits.dtype)


@kernel("FusedBatchNorm", accepts=FLOATING)
def batch_norm(
    x: Spec,
    mean: Spec,
    variance: Spec,
    offset: Spec | None = None,
    scale: Spec | None = None,
    *,
    variance_epsilon: float = 0.001,
) -> Spec:
    """Return ``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`` (Ioffe and Szegedy, 2015).

    All inputs are broadcast to the shape of x. Without a scale it is 1, without an offset 0.

    Args:
        mean: what is subtracted from x, of the dtype of x.
        variance: the square of what x is then divided by, of the dtype of x.
    """
    parts = {"mean": mean, "variance": variance, "offset": offset, "scale": scale}
    given = {name: part for name, part in parts.items() if part is not None}
    for name, part in given.items():
        if not broadcasts_to(part.shape, x.shape):
            raise ShapeError(
                f"{name} of shape {part.shape} does not broadcast to x of shape {x.shape}"
            )
    return Shaped(x.shape, check_same_dtype("FusedBatchNorm", x, *given.values()))


@kernel("LayerNorm", accepts=FLOATING)
def layer_norm(
    x: Spec,
    offset: Spec | None = None,
    scale: Spec | None = None,
    *,
    axis: Axis,
    variance_epsilon: float = 1e-5,
) -> Spec:
    """Return ``(x - m) / sqrt(v + variance_epsilon) * scale + offset`` (Ba, Kiros and Hinton, 2016).

    m and v are the mean and the variance over `axis` and all axes after it, whose sizes are also the
    shape of the scale and of the offset. Without a scale it is 1, without an offset 0.

    Args:
        axis: the first of the axes that are normalized.
    """
    parts = {"offset": offset, "scale": scale}
    return Shaped(x.shape, _common_dtype("LayerNorm", x, parts, x.shape[axis:]))


@kernel("LayerNormGrad", accepts=FLOATING)
def layer_norm_gradient(
    dy: Spec, x: Spec, scale: Spec | None = None, *, axis: Axis, variance_epsilon: float = 1e-5
) -> tuple[Spec, Spec, Spec]:
    """Return the gradients of `layer_norm` for x, for the offset and for the scale.

    The last two have the shape of a scale also if there is none.

    Args:
        axis: the first of the axes that are normalized.

    Returns:
        dx: the gradient for x, of its shape.
        d_offset: the gradient for the offset, of shape ``x.shape[axis:]``.
        d_scale: the gradient for the scale, of shape ``x.shape[axis:]``.
    """
    if dy.shape != x.shape:
        raise ShapeError(f"dy and x have shapes {dy.shape} and {x.shape}; they must be equal")
    check_same_dtype("LayerNormGrad", dy, x)
    row = x.shape[axis:]
    dtype = _common_dtype("LayerNormGrad", x, {"scale": scale}, row)
    return Shaped(x.shape, dtype), Shaped(row, dtype), Shaped(row, dtype)


@kernel("BatchNormTraining", accepts=FLOATING)
def batch_norm_training(
    x: Spec,
    offset: Spec | None = None,
    scale: Spec | None = None,
    *,
    axis: Axis,
    variance_epsilon: float = 0.001,
) -> tuple[Spec, Spec, Spec]:
    """Return `batch_norm` of x by the mean and the variance of each channel, and the means and the variances.

    The channels are the elements of `axis`. Mean and variance, the average of the squared differences
    from the mean, are over all other axes.

    Args:
        offset: what is added to each channel at the end, a vector of the dtype of x.
        scale: the factor of each channel, a vector of the dtype of x.
        axis: the axis of the channels.

    Returns:
        y: the normalized tensor, of the shape and the dtype of x.
        mean: the mean of each channel, a vector.
        variance: the variance of each channel, a vector.
    """
    channels = (x.shape[axis],)
    parts = {"offset": offset, "scale": scale}
    dtype = _common_dtype("BatchNormTraining", x, parts, channels)
    return Shaped(x.shape, dtype), Shaped(channels, dtype), Shaped(channels, dtype)


@kernel("BatchNormGrad", accepts=FLOATING)
def batch_norm_gradient(
    dy: Spec,
    x: Spec,
    mean: Spec,
    variance: Spec,
    scale: Spec | None = None,
    *,
    axis: Axis,
    variance_epsilon: float = 0.001,
) -> tuple[Spec, Spec, Spec]:
    """Return the gradients of `batch_norm_training` for x, for the offset and for the scale.

    Given the mean and the variance of each channel, ``h = (x - mean) / sqrt(variance + variance_epsilon)``,
    and averages M over each channel, that for x is
    ``scale / sqrt(variance + variance_epsilon) * (dy - M(dy) - h M(dy h))``. The others are the sums of
    dy and of ``dy h``; both have one element for each channel also if there is no scale.

    Args:
        axis: the axis of the channels.

    Returns:
        dx: the gradient for x, of its shape.
        d_offset: the gradient for the offset, a vector.
        d_scale: the gradient for the scale, a vector.
    """
    if dy.shape != x.shape:
        raise ShapeError(f"dy and x have shapes {dy.shape} and {x.shape}; they must be equal")
    check_same_dtype("BatchNormGrad", dy, x)
    parts = {"mean": mean, "variance": variance, "scale": scale}
    channels = (x.shape[axis],)
    dtype = _common_dtype("BatchNormGrad", x, parts, channels)
    return Shaped(x.shape, dtype), Shaped(channels, dtype), Shaped(channels, dtype)


def _common_dtype(
    kernel_name: str, x: Spec, vectors: dict[str, Spec | None], vector_shape: Shape
) -> DType:
    """Return the common dtype of x and of the vectors, which are given by name and must have the same shape."""
    given = {which: part for which, part in vectors.items() if part is not None}
    for which, part in given.items():
        if part.shape != vector_shape:
            raise ShapeError(
                f"{which} has shape {part.shape}; beside x of shape {x.shape} it must have shape {vector_shape}"
            )
    return check_same_dtype(kernel_name, x, *given.values())


@kernel("LRN", accepts=FLOATING)
def local_response_normalization(
    x: Spec, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Spec:
    """Return ``x * (bias + alpha * s)**-beta``, where s is a sum of squares (Krizhevsky and others, 2012).

    The sum is over an element and its neighbours on the last axis, at most `depth_radius` away.
    """
    _check_local_response_normalization(x.shape, depth_radius)
    return Shaped(x.shape, x.dtype)


@kernel("LRNGrad", accepts=FLOATING)
def local_response_normalization_gradient(
    x: Spec,
    y: Spec,
    dy: Spec,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Spec:
    """Return the gradient of `local_response_normalization` for x, given its result y.

    Args:
        y: the result of `local_response_normalization`, of the shape and the dtype of x.
    """
    _check_local_response_normalization(x.shape, depth_radius)
    if not x.shape == y.shape == dy.shape:
        raise ShapeError(
            f"x, y and dy have shapes {x.shape}, {y.shape} and {dy.shape}; they must be equal"
        )
    return Shaped(x.shape, check_same_dtype("LRNGrad", x, y, dy))


def _check_local_response_normalization(image_shape: Shape, depth_radius: int) -> None:
    """Raise unless images have an axis of channels and the radius is valid."""
    if not image_shape:
        raise ShapeError("x is 0-d; it must have a last axis, which holds the channels")
    if depth_radius < 0:
        raise ArgumentValueError(f"depth_radius={depth_radius} must be 0 or more")
