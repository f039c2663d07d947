"""Functions that summarize windows of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, short_repr
from plugrad.kernels import creation, movement, pooling, pooling3d
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast
from plugrad.ops.attributes import check_choice, check_flag, is_sequence, to_list
from plugrad.ops.dtypes import check_floats
from plugrad.ops.indexing import first_backend
from plugrad.ops.scatter import tensor_scatter_update
from plugrad.ops.windows import check_spatial_axes, resolve_window, restore_layout, to_kernel_layout
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import INTEGER, position_dtype
from plugrad.types.shapes import as_shape, count_elements
from plugrad.types.windows import as_sizes, is_channels_first, parse_padding, pool_window

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.pooling import PoolingType
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import Shape, ShapeLike
    from plugrad.types.windows import (
        DataFormat,
        ImageFormat,
        Padding,
        PaddingLike,
        Pair,
        Rounding,
        Window,
    )

_KERNELS_WITHOUT_DILATION: Final[dict[tuple[PoolingType, int], Kernel[..., Tensor]]] = {
    ("max", 2): pooling.max_pool,
    ("avg", 2): pooling.avg_pool,
    ("max", 3): pooling3d.max_pool3d,
    ("avg", 3): pooling3d.avg_pool3d,
}
"""The kernels of windows without dilations, by the type of pooling and the number of spatial axes."""


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
    count_include_pad: bool = False,
) -> Tensor:
    """The average of each window of images, over the cells that are not padding.

    >>> plugrad.avg_pool(plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1)), 2)[0, :, :, 0]
    tensor([[ 2.5,  4.5],
            [10.5, 12.5]], dtype=float32)

    Shape, dtype and arguments are as for `max_pool`. A nested list of integers becomes float32.

    Args:
        x: images, as for `max_pool`, and so the arguments up to the last.
        window_size: the size of a window.
        strides: the distance between neighbouring windows.
        padding: the padding.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of a window.
        dim_rounding_mode: what to do with a last, partial stride.
        count_include_pad: whether the cells of the padding count, as zeros; those that complete a
            partial stride never count.

    Raises:
        DTypeError: x is a tensor or an array that does not hold floats.
        ArgumentError: `count_include_pad` is not a bool.
        ShapeError, ArgumentValueError: as for `max_pool`.
    """
    how = strides, padding, data_format, dilations, dim_rounding_mode, count_include_pad
    return run_pooling("avg_pool", "avg", 2, x, window_size, *how)


@explain_wrong_calls
def max_pool_with_argmax(
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None = None,
    padding: PaddingLike = "valid",
    *,
    include_batch_in_index: bool = False,
    data_format: DataFormat | None = None,
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of images, and its position as int32.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> largest, positions = plugrad.max_pool_with_argmax(x, 2)
    >>> positions[0, :, :, 0]
    tensor([[ 5,  7],
            [13, 15]], dtype=int32)

    The position of the element at (row, column, channel) is ``(row * width + column) * channels +
    channel`` in its image, whatever the order of the axes. Among equal elements the first one in
    row-major order counts. Both results have the shape that `max_pool` gives; `max_unpool` puts the
    elements back.

    Args:
        x: images of shape (batch, one to three spatial axes, channels); the batch axis may be absent.
        window_size: the size of a window, one number for each spatial axis; a single number is for
            images with a height and a width.
        strides: as for `max_pool`, and so the padding.
        padding: the padding.
        include_batch_in_index: whether positions also count the elements of all images before.
        data_format: the order of the axes, as for `pool`.
        dilations: the distance between neighbouring cells of a window.
        dim_rounding_mode: as for `max_pool`.

    Raises:
        ShapeError: x has another number of axes, or a window does not fit, or covers only padding.
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentError: `include_batch_in_index` is not a bool.
        ArgumentValueError: another argument is invalid.
    """
    op = "max_pool_with_argmax"
    images = as_supported_dtype(x, pooling.max_pool_with_argmax, op)
    axes = _count_spatial_axes(window_size)
    how = data_format, strides, padding, dilations, dim_rounding_mode
    batch, window, has_channels_first = _resolve_window(op, images, axes, window_size, *how)
    if not 1 <= axes <= 3:
        raise ArgumentValueError(
            f"{op}: window_size={window.size} must have one to three sizes; images with more spatial axes have no "
            "positions"
        )
    counts_all = check_flag(include_batch_in_index, op, "include_batch_in_index")
    y, positions = pooling.max_pool_with_argmax(
        batch, window=window, include_batch_in_index=counts_all and axes < 3
    )
    if counts_all and axes == 3:
        positions = _flatten_image_positions(positions, batch.shape)
    return restore_layout(y, images, has_channels_first), restore_layout(
        positions, images, has_channels_first
    )


@explain_wrong_calls
def max_unpool(
    x: TensorLike,
    positions: TensorLike,
    output_shape: ShapeLike,
    *,
    include_batch_in_index: bool = False,
    data_format: DataFormat | None = None,
) -> Tensor:
    """Images of zeros, with elements where `max_pool_with_argmax` has found them.

    >>> x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    >>> largest, positions = plugrad.max_pool_with_argmax(x, 2)
    >>> plugrad.max_unpool(largest, positions, x.shape)[0, :, :, 0]
    tensor([[ 0.,  0.,  0.,  0.],
            [ 0.,  5.,  0.,  7.],
            [ 0.,  0.,  0.,  0.],
            [ 0., 13.,  0., 15.]], dtype=float32)

    The result has the dtype of x. Where several elements have one position, one of them is there.

    Args:
        x: images with one to three spatial axes, such as the first result of `max_pool_with_argmax`;
            the batch axis may be absent from images and volumes whose `data_format` is given.
        positions: integers of the shape of x, such as its second result.
        output_shape: the shape of the result: that of the images that were pooled.
        include_batch_in_index: whether positions also count the elements of all images before.
        data_format: the order of the axes, as for `pool`.

    Raises:
        ShapeError: the positions have another shape than x, or the result other axes, images or channels.
        DTypeError: x holds strings or the positions no integers.
        ArgumentError: `include_batch_in_index` is not a bool.
        ArgumentValueError: `data_format` is not an order of these axes.
    """
    op = "max_unpool"
    home = first_backend(x, positions)
    values = as_tensor(x, op, backend=home)
    places = as_tensor(positions, op, "positions", backend=home)
    if places.dtype not in INTEGER:
        raise DTypeError(f"{op}: positions are {places.dtype}; they must be integers")
    shape = as_shape(output_shape, name=f"{op}: output_shape")
    if not 3 <= values.ndim <= 5 or places.shape != values.shape or len(shape) != values.ndim:
        raise ShapeError(
            f"{op}: x and positions must be images of one shape, and output_shape must have as many sizes; they are "
            f"{values.shape}, {places.shape} and {short_repr(shape)}"
        )
    counts_all = check_flag(include_batch_in_index, op, "include_batch_in_index")
    axes = len(data_format) - 2 if isinstance(data_format, str) else values.ndim - 2
    has_channels_first = data_format is not None and is_channels_first(data_format, axes, op)
    check_spatial_axes(op, values, axes)
    images = to_kernel_layout(values, axes, has_channels_first)
    rows = to_kernel_layout(places, axes, has_channels_first)
    wanted = shape if len(shape) == axes + 2 else (1, *shape)
    wanted = (wanted[0], *wanted[2:], wanted[1]) if has_channels_first else wanted
    if (wanted[0], wanted[-1]) != (images.shape[0], images.shape[-1]):
        raise ShapeError(
            f"{op}: output_shape={shape} must have the images and the channels of x, whose shape is {values.shape}"
        )
    if not counts_all:
        rows = _flatten_image_positions(rows, wanted)
    zeros = creation.fill.on(
        images.backend, shape=(count_elements(wanted),), value=0, dtype=images.dtype
    )
    y = tensor_scatter_update(
        zeros,
        movement.reshape(rows, shape=(count_elements(rows.shape), 1)),
        movement.reshape(images, shape=(count_elements(images.shape),)),
    )
    return restore_layout(movement.reshape(y, shape=wanted), values, has_channels_first)


def _flatten_image_positions(positions: Tensor, image_shape: Shape) -> Tensor:
    """Return positions that count from the beginning of their own image as positions among all images' elements."""
    if image_shape[0] == 1:
        return positions
    count = count_elements(image_shape[1:])
    dtype = position_dtype(count_elements(image_shape))
    begins = (
        np.arange(image_shape[0], dtype=dtype.numpy).reshape(-1, *(1,) * (positions.ndim - 1))
        * count
    )
    return cast(positions, dtype) + as_tensor(
        begins, "max_pool", dtype=dtype, backend=positions.backend
    )


@explain_wrong_calls
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
    count_include_pad: bool = False,
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
        count_include_pad: for "avg", as for `avg_pool`.

    Raises:
        DTypeError: x holds bools, complex numbers or strings, or is a tensor or an array of integers
            to average.
        ArgumentError: `count_include_pad` is not a bool.
        ShapeError: x has another number of axes, or a window does not fit, or covers only padding.
        ArgumentValueError: another argument is invalid.
    """
    check_choice(pooling_type, ("max", "avg"), "pool", "pooling_type")
    how = strides, padding, data_format, dilations, dim_rounding_mode, count_include_pad
    return run_pooling("pool", pooling_type, _count_spatial_axes(window_size), x, window_size, *how)


def run_pooling(
    op: str,
    pooling_type: PoolingType,
    spatial_rank: int,
    x: TensorLike,
    window_size: ShapeLike,
    strides: ShapeLike | None,
    padding: PaddingLike,
    data_format: DataFormat | None,
    dilations: ShapeLike,
    rounding: Rounding,
    count_include_pad: bool = False,
) -> Tensor:
    """Return the largest element or the average of each window of images with `spatial_rank` spatial axes."""
    if pooling_type == "avg":
        check_floats(op, x=x)
    images = as_supported_dtype(x, _KERNELS_WITHOUT_DILATION[pooling_type, 2], op)
    how = data_format, strides, padding, dilations, rounding
    batch, window, has_channels_first = _resolve_window(op, images, spatial_rank, window_size, *how)
    if check_flag(count_include_pad, op, "count_include_pad") and pooling_type == "avg":
        given = parse_padding(padding, spatial_rank, op, rounding)
        batch, window = _pad_images_with_zeros(
            batch, window, window.padding if given == "same" else given
        )
    if max(window.dilations) == 1 and (
        kernel := _KERNELS_WITHOUT_DILATION.get((pooling_type, spatial_rank))
    ):
        return restore_layout(kernel(batch, window=window), images, has_channels_first)
    return restore_layout(
        pooling.pool(batch, window=window, pooling_type=pooling_type), images, has_channels_first
    )


def _count_spatial_axes(window_size: ShapeLike) -> int:
    """Return the number of spatial axes of a window; a single number is the size of a window on two axes."""
    return len(to_list(window_size)) if is_sequence(window_size) else 2


def _resolve_window(
    op: str,
    images: Tensor,
    spatial_rank: int,
    window_size: ShapeLike,
    data_format: DataFormat | None,
    strides: ShapeLike | None,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
) -> tuple[Tensor, Window, bool]:
    """Return images in the layout of kernels, the window over them, and whether their channels came first."""
    check_spatial_axes(op, images, spatial_rank)
    size = as_sizes(window_size, spatial_rank, f"{op}: window_size")
    has_channels_first = data_format is not None and is_channels_first(
        data_format, spatial_rank, op
    )
    batch = to_kernel_layout(images, spatial_rank, has_channels_first)
    how = strides, padding, dilations, rounding
    return batch, resolve_window(op, pool_window, batch.shape, size, *how), has_channels_first


def _pad_images_with_zeros(
    x: Tensor, window: Window, requested_padding: Padding
) -> tuple[Tensor, Window]:
    """Return images padded with zeros, which averages include, and the window over these images.

    What completes a partial stride remains padding, which does not count.
    """
    if isinstance(requested_padding, str) or not any(map(any, requested_padding)):
        return x, window
    zeros: list[Pair] = []
    rest: list[Pair] = []
    for (before, after), (_, counted) in zip(window.padding, requested_padding, strict=True):
        zeros.append((before, min(after, counted)))
        rest.append((0, max(after - counted, 0)))
    padded = movement.pad(x, paddings=((0, 0), *zeros, (0, 0)))
    return padded, window._replace(padding=tuple(rest))
