"""Functions that summarize windows of images with three spatial axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.kernels import pooling3d
from plugrad.ops.arguments import check_floats
from plugrad.ops.pooling import pooled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.windows import Rounding


def max_pool3d(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images with a depth.

    >>> plugrad.max_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([11., 15.], dtype=float32)

    Args:
        x: images of shape (batch, depth, height, width, channels); the batch axis may be absent.
        filter_size: the size of a window, one number or (depth, height, width).
        strides: cells between two windows; by default windows lie side by side.
        pad: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells are never the largest.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped nevertheless.

    Raises:
        ShapeError: x has not 4 or 5 axes, the window does not fit, or one sees only padding.
        ArgumentValueError: another argument makes no sense.
    """
    kernel, op = pooling3d.max_pool3d, "max_pool3d"
    return pooled(kernel, op, 3, x, filter_size, strides, pad, dim_rounding_mode)


def avg_pool3d(
    x: TensorLike,
    filter_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad: Any = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images with a depth, over the cells that are not padding.

    >>> plugrad.avg_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([5.5, 9.5], dtype=float32)

    Arguments are those of `max_pool3d`, and so are errors but for one.

    Raises:
        DTypeError: x holds whole numbers.
    """
    kernel, op = pooling3d.avg_pool3d, "avg_pool3d"
    check_floats(op, x=x)
    return pooled(kernel, op, 3, x, filter_size, strides, pad, dim_rounding_mode)
