"""Functions that summarize windows of images."""

from collections.abc import Callable, Sequence
from typing import Any

from plugrad.errors import ShapeError
from plugrad.kernels import movement, pooling
from plugrad.ops.arguments import coerced
from plugrad.shapes import Rounding, padding_of, sizes_of
from plugrad.tensor import Tensor, TensorLike


def max_pool(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images.

    >>> plugrad.max_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 5.,  7.],
            [13., 15.]], dtype=float32)

    Args:
        x: images of shape (batch, height, width, channels); the batch axis may be absent.
        filter_size: the size of a window, one number or (height, width).
        strides: cells between two windows; by default windows lie side by side.
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        ShapeError: x has not 3 or 4 axes, or the window does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    images = coerced(x, pooling.max_pool, "max_pool")
    return _pooled(
        pooling.max_pool, "max_pool", images, filter_size, strides, pad, dim_rounding_mode
    )


def avg_pool(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images, over the cells that are not padding; arguments as for `max_pool`.

    >>> plugrad.avg_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 2.5,  4.5],
            [10.5, 12.5]], dtype=float32)
    """
    images = coerced(x, pooling.avg_pool, "avg_pool")
    return _pooled(
        pooling.avg_pool, "avg_pool", images, filter_size, strides, pad, dim_rounding_mode
    )


def _pooled(
    kernel: Callable[..., Tensor],
    op: str,
    images: Tensor,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    pad: Any,
    rounding: Rounding,
) -> Tensor:
    size = sizes_of(filter_size, 2, f"{op}: filter_size")
    steps = size if strides is None else sizes_of(strides, 2, f"{op}: strides")
    if images.ndim not in (3, 4):
        raise ShapeError(
            f"{op}: x must have 3 or 4 axes (batch, height, width, channels); the shape is {images.shape}"
        )
    is_single = images.ndim == 3
    if is_single:
        images = movement.expand_dims(images, dim=0)
    y = kernel(
        images,
        filter_size=size,
        strides=steps,
        pad=padding_of(pad, 2, op),
        dim_rounding_mode=rounding,
    )
    return movement.reshape(y, shape=y.shape[1:]) if is_single else y
