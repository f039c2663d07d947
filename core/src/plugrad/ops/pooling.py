"""Functions that summarize windows of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.kernels import pooling, pooling3d
from plugrad.ops.arguments import as_supported_dtype, check_floats
from plugrad.ops.attributes import check_choice, check_flag, is_sequence, to_list
from plugrad.ops.windows import as_given, as_kernels_take, check_axes, resolve_window
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.windows import as_sizes, is_channels_first, pool_window

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.pooling import PoolingType
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import DataFormat, ImageFormat, PaddingLike, Rounding

_KERNELS_WITHOUT_DILATION: Final[dict[tuple[PoolingType, int], Kernel[..., Tensor]]] = {
    ("max", 2): pooling.max_pool,
    ("avg", 2): pooling.avg_pool,
    ("max", 3): pooling3d.max_pool3d,
    ("avg", 3): pooling3d.avg_pool3d,
}


@explain_wrong_calls
def max_pool(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element of each window of images.

    >>> plugrad.max_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 5.,  7.],
            [13., 15.]], dtype=float32)

    The result has the axes and the dtype of x; its height and width are the numbers of windows.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent.
        window_size: the size of a window, one number or (height, width).
        strides: the distance between neighbouring windows, one number or (vertical, horizontal); by
            default the size of a window.
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of a window, one number or (vertical,
            horizontal).
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round". A window that would start beyond the image is dropped in any case.

    Raises:
        ShapeError: x does not have 3 or 4 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentValueError: another argument is none of the above.
    """
    how = strides, padding, data_format, dilations, dim_rounding_mode
    return run_pooling("max_pool", "max", 2, x, window_size, *how)


@explain_wrong_calls
def avg_pool(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The average of each window of images, over the cells that are not padding.

    >>> plugrad.avg_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 2.5,  4.5],
            [10.5, 12.5]], dtype=float32)

    Shape, dtype and arguments are as for `max_pool`. A nested list of integers becomes float32.

    Raises:
        DTypeError: x is a tensor or an array that does not hold floats.
        ShapeError, ArgumentValueError: as for `max_pool`.
    """
    how = strides, padding, data_format, dilations, dim_rounding_mode
    return run_pooling("avg_pool", "avg", 2, x, window_size, *how)


def max_pool_with_argmax(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of images, and its position as int32.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> largest, positions = plugrad.max_pool_with_argmax(x, 2)
    >>> positions[0, :, :, 0]
    tensor([[ 5,  7],
            [13, 15]], dtype=int32)

    The position of the element at (row, column, channel) is ``(row * width + column) * channels +
    channel`` in its image. Among equal elements the first one in row-major order counts. Both
    results have the shape that `max_pool` gives.

    Args:
        x: images (batch, height, width, channels); the batch axis may be absent. The next three
            arguments are as for `max_pool`.
        window_size: the size of a window.
        strides: the distance between neighbouring windows.
        padding: the padding.
        include_batch_in_index: whether positions also count the elements of all images before.

    Raises:
        ShapeError: x does not have 3 or 4 axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentError: `include_batch_in_index` is not a bool.
        ArgumentValueError: `window_size`, `strides` or `padding` is invalid.
    """
    op = "max_pool_with_argmax"
    images = as_supported_dtype(x, pooling.max_pool_with_argmax, op)
    check_axes(op, images, 2)
    batch = as_kernels_take(images, 2, False)
    size = as_sizes(window_size, 2, f"{op}: window_size")
    window = resolve_window(op, pool_window, batch.shape, size, strides, padding, 1, None)
    y, positions = pooling.max_pool_with_argmax(
        batch,
        window=window,
        include_batch_in_index=check_flag(include_batch_in_index, op, "include_batch_in_index"),
    )
    return as_given(y, images, False), as_given(positions, images, False)


def pool(
    x: TensorLike,
    window_size: ShapeLike,
    pooling_type: PoolingType,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    data_format: DataFormat | None = None,
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The largest element or the average of each window of images with any number of spatial axes.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> plugrad.pool(x, 2, "max", 1, dilations=2)[0, :, :, 0]
    tensor([[10., 11.],
            [14., 15.]], dtype=float32)

    The result has the axes and the dtype of x; its spatial sizes are the numbers of windows.

    Args:
        x: images of shape (batch, spatial axes …, channels); the batch axis may be absent.
        window_size: the size of a window, one number for each spatial axis; a single number is for
            images with a height and a width.
        pooling_type: "max" or "avg".
        strides: the distance between neighbouring windows; by default the size of a window.
        padding: "valid", "same", a number of cells, or a pair (before, after) for each spatial axis;
            padding cells do not count.
        data_format: the order of the axes of images with one, two or three spatial axes, "NWC" or
            "NCW", "NHWC" or "NCHW", "NDHWC" or "NCDHW"; by default the channels are last.
        dilations: the distance between neighbouring cells of a window.
        dim_rounding_mode: as for `max_pool`.

    Raises:
        DTypeError: x holds bools, complex numbers or strings, or is a tensor or an array of integers
            to average.
        ShapeError: x has another number of axes, or a window does not fit, or covers only padding.
        ArgumentValueError: another argument is invalid.
    """
    check_choice(pooling_type, ("max", "avg"), "pool", "pooling_type")
    axes = len(to_list(window_size)) if is_sequence(window_size) else 2
    how = strides, padding, data_format, dilations, dim_rounding_mode
    return run_pooling("pool", pooling_type, axes, x, window_size, *how)


def run_pooling(
    op: str,
    kind: PoolingType,
    axes: int,
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None,
    padding: PaddingLike,
    data_format: DataFormat | None,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Tensor:
    """Return the largest elements or the averages of windows of images that have `axes` spatial axes."""
    if kind == "avg":
        check_floats(op, x=x)
    images = as_supported_dtype(x, _KERNELS_WITHOUT_DILATION[kind, 2], op)
    check_axes(op, images, axes)
    size = as_sizes(window_size, axes, f"{op}: window_size")
    is_first = data_format is not None and is_channels_first(data_format, axes, op)
    batch = as_kernels_take(images, axes, is_first)
    how = strides, padding, dilations, rounding
    window = resolve_window(op, pool_window, batch.shape, size, *how)
    if max(window.dilations) == 1 and (kernel := _KERNELS_WITHOUT_DILATION.get((kind, axes))):
        return as_given(kernel(batch, window=window), images, is_first)
    return as_given(pooling.pool(batch, window=window, pooling_type=kind), images, is_first)
