"""Functions that summarize windows of images with three spatial axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.ops.pooling import run_pooling
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import PaddingLike, Rounding, VolumeFormat


@explain_wrong_calls
def max_pool3d(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    data_format: VolumeFormat = "NDHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images with a depth, a height and a width.

    >>> plugrad.max_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([11., 15.], dtype=float32)

    The result has the axes and the dtype of x; its spatial sizes are the numbers of windows.

    Args:
        x: images of shape (batch, depth, height, width, channels), or (batch, channels, depth,
            height, width) for "NCDHW"; the batch axis may be absent.
        window_size: the size of a window, one number or (depth, height, width).
        strides: the distance between neighbouring windows, one number or one for each spatial axis;
            by default the size of a window.
        padding: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells are never the largest.
        data_format: "NDHWC" or "NCDHW".
        dilations: the distance between neighbouring cells of a window, one number or one for each
            spatial axis.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped in any case.

    Raises:
        ShapeError: x does not have 4 or 5 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentValueError: another argument is none of the above.
    """
    how = strides, padding, data_format, dilations, dim_rounding_mode
    return run_pooling("max_pool3d", "max", 3, x, window_size, *how)


@explain_wrong_calls
def avg_pool3d(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    data_format: VolumeFormat = "NDHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    count_include_pad: bool = False,
) -> Tensor:
    """The average of each window of images with a depth, a height and a width, over the cells that are not padding.

    >>> plugrad.avg_pool3d(plugrad.reshape(plugrad.arange(16.0), (1, 2, 4, 2, 1)), 2)[0, 0, :, 0, 0]
    tensor([5.5, 9.5], dtype=float32)

    Shape, dtype and arguments are as for `max_pool3d`. A nested list of integers becomes float32.

    Args:
        x: images, as for `max_pool3d`, and so the arguments up to the last.
        window_size: the size of a window.
        strides: the distance between neighbouring windows.
        padding: the padding.
        data_format: "NDHWC" or "NCDHW".
        dilations: the distance between neighbouring cells of a window.
        dim_rounding_mode: what to do with a last, partial stride.
        count_include_pad: as for `avg_pool`.

    Raises:
        DTypeError: x is a tensor or an array that does not hold floats.
        ArgumentError: `count_include_pad` is not a bool.
        ShapeError, ArgumentValueError: as for `max_pool3d`.
    """
    how = strides, padding, data_format, dilations, dim_rounding_mode, count_include_pad
    return run_pooling("avg_pool3d", "avg", 3, x, window_size, *how)
