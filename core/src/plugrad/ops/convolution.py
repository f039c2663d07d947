"""Functions that slide a filter over images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import ShapeError
from plugrad.kernels import convolution, movement
from plugrad.ops.arguments import promote_operands
from plugrad.ops.dtypes import check_floats
from plugrad.ops.groups import run_grouped_convolution, run_grouped_transposed_convolution
from plugrad.ops.windows import resolve_window, restore_layout, to_kernel_layout
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.shapes import as_shape
from plugrad.types.windows import as_sizes, is_channels_first, parse_padding, sliding_window

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import Shape, ShapeLike
    from plugrad.types.windows import (
        DataFormat,
        ImageFormat,
        PaddingLike,
        Rounding,
        SequenceFormat,
    )


@explain_wrong_calls
def conv1d(
    x: TensorLike,
    filter: TensorLike,
    stride: int = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: SequenceFormat = "NWC",
    dilation: int = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of sequences with filters.

    >>> steps = plugrad.asarray([[1.0], [2.0], [4.0], [8.0]])
    >>> plugrad.conv1d(steps, [[[-1.0]], [[1.0]]])[:, 0]
    tensor([1., 2., 4.], dtype=float32)

    The result has the axes of x, with the output channels of the filter and as many elements along
    the width as `conv2d` gives, and the dtype to which x and filter promote.

    Args:
        x: sequences of shape (batch, width, channels), or (batch, channels, width) for "NCW"; the
            batch axis may be absent, and is then absent from the result.
        filter: filters of shape (width, input channels of a group, output channels).
        stride: the distance between neighbouring positions of the filter.
        padding: "valid", "same", a number of cells, or ((before, after),).
        data_format: "NWC" or "NCW".
        dilation: the distance between neighbouring cells of the filter.
        dim_rounding_mode: as for `conv2d`.
        groups: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    op = "conv1d"
    sequences, filters = _promote_sequences(convolution.conv2d, op, x, filter)
    has_channels_first = is_channels_first(data_format, 1, op)
    how = _window_arguments_of_height_1(op, stride, padding, dilation, dim_rounding_mode)
    # Sequences are images of height 1.
    images = movement.expand_dims(to_kernel_layout(sequences, 1, has_channels_first), dim=1)
    try:
        y = run_grouped_convolution(
            *(convolution.conv2d, op, images, movement.expand_dims(filters, dim=0)), *how, groups
        )
    except ShapeError as error:
        raise _error_about_sequences(op, sequences, filters, error) from None
    return restore_layout(
        movement.reshape(y, shape=(y.shape[0], *y.shape[2:])), sequences, has_channels_first
    )


@explain_wrong_calls
def conv1d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike | None = None,
    stride: int = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: SequenceFormat = "NWC",
    dilation: int = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
    output_padding: int = 0,
) -> Tensor:
    """The transposed convolution of sequences: the product of each element and a filter, added to a window.

    >>> steps = plugrad.asarray([[1.0], [2.0]])
    >>> plugrad.conv1d_transpose(steps, plugrad.ones((3, 1, 1)), stride=2)[:, 0]
    tensor([1., 1., 3., 2., 2.], dtype=float32)

    This is the gradient of `conv1d` with respect to sequences of the shape of the result, which has
    the dtype to which x and filter promote.

    Args:
        x: sequences as for `conv1d`.
        filter: filters of shape (width, output channels of a group, input channels).
        output_shape: the shape of the result, as for `conv2d_transpose`.
        stride: the distance between the windows of neighbouring elements.
        padding: as for `conv1d`; the padding is cut off from the result.
        data_format: "NWC" or "NCW".
        dilation: the distance between neighbouring cells of the filter.
        dim_rounding_mode: as for `conv2d`.
        groups: as for `conv2d_transpose`.
        output_padding: as for `conv2d_transpose`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument is none of the above.
    """
    op, kernel = "conv1d_transpose", convolution.conv2d_input_gradient
    sequences, filters = _promote_sequences(kernel, op, x, filter)
    has_channels_first = is_channels_first(data_format, 1, op)
    shape = _channels_last_output_shape(op, output_shape, sequences, 1, has_channels_first)
    wide = shape and (shape[0], 1, *shape[1:])
    how = _window_arguments_of_height_1(op, stride, padding, dilation, dim_rounding_mode)
    extra = 0, *as_sizes(output_padding, 1, f"{op}: output_padding", minimum=0)
    images = movement.expand_dims(to_kernel_layout(sequences, 1, has_channels_first), dim=1)
    try:
        y = run_grouped_transposed_convolution(
            *(kernel, op, images, movement.expand_dims(filters, dim=0), wide), *how, groups, extra
        )
    except ShapeError as error:
        raise _error_about_sequences(op, sequences, filters, error) from None
    return restore_layout(
        movement.reshape(y, shape=(y.shape[0], *y.shape[2:])), sequences, has_channels_first
    )


@explain_wrong_calls
def conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of images with filters.

    >>> images = plugrad.ones((1, 3, 3, 1))
    >>> plugrad.conv2d(images, plugrad.ones((2, 2, 1, 1)), padding="same")[0, :, :, 0]
    tensor([[4., 4., 2.],
            [4., 4., 2.],
            [2., 2., 1.]], dtype=float32)

    The result has the axes of x, with the output channels of the filter, and the dtype to which x
    and filter promote. Along a spatial axis there are ``ceil(size / stride)`` positions of the
    filter with ``padding="same"``, and otherwise ``(size + padding - extent) // stride + 1``, where a
    filter has the extent ``(filter size - 1) * dilation + 1``.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: filters of shape (height, width, input channels of a group, output channels).
        strides: the distance between neighbouring positions of the filter, one number or (vertical,
            horizontal).
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal).
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".
        groups: into how many equal groups the channels of x, and the output channels of the filter, are
            divided; each group of channels gives one group of output channels. As many groups as
            channels are `depthwise_conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    how = data_format, strides, padding, dilations, dim_rounding_mode, groups
    return run_convolution(convolution.conv2d, "conv2d", 2, x, filter, *how)


@explain_wrong_calls
def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike | None = None,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
    output_padding: ShapeLike = 0,
) -> Tensor:
    """The transposed convolution of images: the product of each pixel and a filter, added to a window of the result.

    >>> images = plugrad.asarray([[[1.0], [2.0]]])
    >>> plugrad.conv2d_transpose(images, plugrad.ones((1, 2, 1, 1)), (1, 4, 1), 2, "same")[0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv2d` with respect to images of the shape of the result, which has
    the dtype to which x and filter promote.

    Args:
        x: images as for `conv2d`.
        filter: filters of shape (height, width, output channels of a group, input channels).
        output_shape: the shape of the result: the channels, and the batch axis if x has one,
            included. Images of this shape must give the shape of x in `conv2d` with the other
            arguments. By default an axis of n pixels gives ``(n - 1) * stride + extent - padding +
            output_padding``, or ``n * stride`` with ``padding="same"``.
        strides: the distance between the windows of neighbouring pixels, one number or (vertical,
            horizontal).
        padding: as for `conv2d`; the padding is cut off from the result.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal).
        dim_rounding_mode: as for `conv2d`.
        groups: into how many equal groups the channels of x, and those of the result, are divided.
        output_padding: how much larger than necessary the result is at the end of each axis, one
            number or (vertical, horizontal), less than the stride or the dilation; without
            `output_shape`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument is none of the above.
    """
    op = "conv2d_transpose"
    how = data_format, strides, padding, dilations, dim_rounding_mode, groups, output_padding
    return run_transposed_convolution(
        convolution.conv2d_input_gradient, op, 2, x, filter, output_shape, *how
    )


def run_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    spatial_rank: int,
    x: TensorLike,
    filter: TensorLike,
    data_format: DataFormat,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    groups: int = 1,
) -> Tensor:
    """Return the result of a convolution kernel for filters and images, as they are given to an op."""
    check_floats(op, x=x, filter=filter)
    images, filters = promote_operands(x, filter, kernel, op)
    has_channels_first = is_channels_first(data_format, spatial_rank, op)
    batch = as_batch_with_channels_last(op, spatial_rank, images, filters, has_channels_first)
    how = strides, padding, dilations, rounding
    return restore_layout(
        run_grouped_convolution(kernel, op, batch, filters, *how, groups),
        images,
        has_channels_first,
    )


def run_channels_last_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    images: Tensor,
    filters: Tensor,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    *more_inputs: Tensor | None,
    **attrs: Any,
) -> Tensor:
    """Return the result of a convolution kernel for filters and images (batch, spatial axes …, channels)."""
    how = strides, padding, dilations, rounding
    window = resolve_window(op, sliding_window, images.shape, filters.shape[:-2], *how)
    return kernel(images, filters, *more_inputs, window=window, **attrs)


def run_transposed_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    spatial_rank: int,
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike | None,
    data_format: DataFormat,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    groups: int,
    output_padding: ShapeLike,
) -> Tensor:
    """Return a transposed convolution of images in an op's layout, computed by an input-gradient kernel."""
    check_floats(op, x=x, filter=filter)
    images, filters = promote_operands(x, filter, kernel, op)
    has_channels_first = is_channels_first(data_format, spatial_rank, op)
    shape = _channels_last_output_shape(op, output_shape, images, spatial_rank, has_channels_first)
    batch = as_batch_with_channels_last(op, spatial_rank, images, filters, has_channels_first)
    how = strides, padding, dilations, rounding, groups, output_padding
    return restore_layout(
        run_grouped_transposed_convolution(kernel, op, batch, filters, shape, *how),
        images,
        has_channels_first,
    )


def _channels_last_output_shape(
    op: str, output_shape: ShapeLike | None, x: Tensor, spatial_rank: int, has_channels_first: bool
) -> Shape | None:
    """Return the shape of a result as kernels take it, with the batch axis and the channels last.

    Raises:
        ShapeError: it does not have as many sizes as x has axes.
    """
    if output_shape is None:
        return None
    shape = as_shape(output_shape, name=f"{op}: output_shape")
    if len(shape) != x.ndim:
        raise ShapeError(
            f"{op}: output_shape={shape} must have as many sizes as x, whose shape is {x.shape}"
        )
    shape = shape if len(shape) == spatial_rank + 2 else (1, *shape)
    return (shape[0], *shape[2:], shape[1]) if has_channels_first else shape


def _promote_sequences(
    kernel: Kernel[..., Tensor], op: str, x: TensorLike, filter: TensorLike
) -> tuple[Tensor, Tensor]:
    """Return sequences and filters as tensors of one dtype.

    Raises:
        DTypeError: they do not hold floats.
        ShapeError: they do not have the axes of sequences and filters.
    """
    check_floats(op, x=x, filter=filter)
    sequences, filters = promote_operands(x, filter, kernel, op)
    if sequences.ndim not in (2, 3) or filters.ndim != 3:
        raise ShapeError(
            f"{op}: x must have 2 or 3 axes and filter 3; the shapes are {sequences.shape} and {filters.shape}"
        )
    return sequences, filters


def _window_arguments_of_height_1(
    op: str, stride: int, padding: PaddingLike, dilation: int, rounding: Rounding
) -> tuple[Shape, PaddingLike, Shape, Rounding]:
    """Return strides, padding, dilations and rounding of sequences as those of images of height 1."""
    cells = parse_padding(padding, 1, op, rounding)
    return (
        (1, *as_sizes(stride, 1, f"{op}: stride")),
        cells if isinstance(cells, str) else ((0, 0), *cells),
        (1, *as_sizes(dilation, 1, f"{op}: dilation")),
        rounding,
    )


def _error_about_sequences(op: str, x: Tensor, filter: Tensor, error: ShapeError) -> ShapeError:
    """Return a ShapeError about sequences, made from the error about images of height 1."""
    return ShapeError(
        f"{op}: x of shape {x.shape} and filter of shape {filter.shape} do not fit; as images of height "
        f"1: {error}"
    )


def as_batch_with_channels_last(
    op: str, spatial_rank: int, images: Tensor, filters: Tensor, has_channels_first: bool
) -> Tensor:
    """Return images with a batch axis and the channels last, as kernels take them.

    Raises:
        ShapeError: the images or the filters do not have so many spatial axes, or other channels.
    """
    if images.ndim not in (spatial_rank + 1, spatial_rank + 2) or filters.ndim != spatial_rank + 2:
        raise ShapeError(
            f"{op}: x must have {spatial_rank + 1} or {spatial_rank + 2} axes and filter {spatial_rank + 2}; the "
            f"shapes are {images.shape} and {filters.shape}"
        )
    return to_kernel_layout(images, spatial_rank, has_channels_first)
