"""Functions that summarize windows of images with three spatial axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import pooling3d
from plugrad.ops.arguments import check_floats
from plugrad.ops.pooling import pooled

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import PaddingLike, Rounding


def max_pool3d(
    x: TensorLike,
    filter_size: ShapeLike,
    strides: ShapeLike | None = None,
    pad: PaddingLike = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images with a depth, a height and a width.

    >>> plugrad.max_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([11., 15.], dtype=float32)

    The result has the axes and the dtype of x; its spatial sizes are the numbers of windows.

    Args:
        x: images of shape (batch, depth, height, width, channels); the batch axis may be absent.
        filter_size: the size of a window, one number or (depth, height, width).
        strides: the distance between neighbouring windows, one number or one for each spatial axis;
            by default the size of a window.
        pad: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells are never the largest.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped in any case.

    Raises:
        ShapeError: x does not have 4 or 5 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentValueError: `filter_size`, `strides`, `pad` or `dim_rounding_mode` is invalid.
    """
    kernel = pooling3d.max_pool3d
    return pooled(kernel, "max_pool3d", 3, x, filter_size, strides, pad, dim_rounding_mode)


def avg_pool3d(
    x: TensorLike,
    filter_size: ShapeLike,
    strides: ShapeLike | None = None,
    pad: PaddingLike = "valid",
    *,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images with a depth, a height and a width, over the cells that are not padding.

    >>> plugrad.avg_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([5.5, 9.5], dtype=float32)

    Shape, dtype and arguments are as for `max_pool3d`. A nested list of integers becomes float32.

    Raises:
        DTypeError: x is a tensor or an array that does not hold floats.
        ShapeError, ArgumentValueError: as for `max_pool3d`.
    """
    check_floats("avg_pool3d", x=x)
    kernel = pooling3d.avg_pool3d
    return pooled(kernel, "avg_pool3d", 3, x, filter_size, strides, pad, dim_rounding_mode)
