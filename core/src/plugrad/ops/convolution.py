"""Functions that slide a filter over images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import convolution, movement
from plugrad.ops.arguments import check_floats, promote_operands
from plugrad.ops.windows import as_given, as_kernels_take, resolve_window
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
        Padding,
        PaddingLike,
        Rounding,
        SequenceFormat,
        Window,
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
        filter: filters of shape (width, input channels, output channels).
        stride: the distance between neighbouring positions of the filter.
        padding: "valid", "same", a number of cells, or ((before, after),).
        data_format: "NWC" or "NCW".
        dilation: the distance between neighbouring cells of the filter.
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    check_floats("conv1d", x=x, filter=filter)
    sequences, filters = promote_operands(x, filter, convolution.conv2d, "conv1d")
    if sequences.ndim not in (2, 3) or filters.ndim != 3:
        raise ShapeError(
            "conv1d: x must have 2 or 3 axes and filter 3; the shapes are "
            f"{sequences.shape} and {filters.shape}"
        )
    is_first = is_channels_first(data_format, 1, "conv1d")
    # Sequences are images of height 1.
    images = movement.expand_dims(as_kernels_take(sequences, 1, is_first), dim=1)
    cells = parse_padding(padding, 1, "conv1d", dim_rounding_mode)
    try:
        y = correlate(
            *(convolution.conv2d, "conv1d", images, movement.expand_dims(filters, dim=0)),
            strides=(1, *as_sizes(stride, 1, "conv1d: stride")),
            padding=cells if isinstance(cells, str) else ((0, 0), *cells),
            dilations=(1, *as_sizes(dilation, 1, "conv1d: dilation")),
            rounding=dim_rounding_mode,
        )
    except ShapeError as error:  # it names the shapes of the images
        raise ShapeError(
            f"conv1d: x of shape {sequences.shape} and filter of shape {filters.shape} do not fit; as "
            f"images of height 1: {error}"
        ) from None
    return as_given(movement.reshape(y, shape=(y.shape[0], *y.shape[2:])), sequences, is_first)


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
        filter: filters of shape (height, width, input channels, output channels).
        strides: the distance between neighbouring positions of the filter, one number or (vertical,
            horizontal).
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal); strides and dilations cannot both exceed 1.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    how = data_format, strides, padding, dilations, dim_rounding_mode
    return run_convolution(convolution.conv2d, "conv2d", 2, x, filter, *how)


@explain_wrong_calls
def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The transposed convolution of images: the product of each pixel and a filter, added to a window of the result.

    >>> images = plugrad.asarray([[[1.0], [2.0]]])
    >>> plugrad.conv2d_transpose(images, plugrad.ones((1, 2, 1, 1)), (1, 4, 1), 2, "same")[0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv2d` with respect to images of shape `output_shape`. The result has
    the dtype to which x and filter promote.

    Args:
        x: images as for `conv2d`.
        filter: filters of shape (height, width, output channels, input channels).
        output_shape: the shape of the result: the channels, and the batch axis if x has one,
            included. Images of this shape must give the shape of x in `conv2d` with the other
            arguments.
        strides: the distance between the windows of neighbouring pixels, one number or (vertical,
            horizontal).
        padding: as for `conv2d`; the padding is cut off from the result.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal); strides and dilations cannot both exceed 1.
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument is none of the above.
    """
    op = "conv2d_transpose"
    how = data_format, strides, padding, dilations, dim_rounding_mode
    return run_transposed(convolution.conv2d_input_gradient, op, 2, x, filter, output_shape, *how)


def run_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    axes: int,
    x: TensorLike,
    filter: TensorLike,
    data_format: DataFormat,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Tensor:
    """Return the result of a convolution kernel for filters and images, as they are given to an op."""
    check_floats(op, x=x, filter=filter)
    images, filters = promote_operands(x, filter, kernel, op)
    is_first = is_channels_first(data_format, axes, op)
    batch = add_batch_axis(op, axes, images, filters, is_first)
    return as_given(
        correlate(kernel, op, batch, filters, strides, padding, dilations, rounding),
        *(images, is_first),
    )


def correlate(
    kernel: Kernel[..., Tensor],
    op: str,
    images: Tensor,
    filters: Tensor,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    *others: Tensor | None,
    **attrs: Any,
) -> Tensor:
    """Return the result of a convolution kernel for filters and images (batch, spatial axes …, channels)."""
    how = strides, padding, dilations, rounding
    window = resolve_window(op, filter_window, images.shape, filters.shape[:-2], *how)
    return kernel(images, filters, *others, window=window, **attrs)


def run_transposed(
    kernel: Kernel[..., Tensor],
    op: str,
    axes: int,
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike,
    data_format: DataFormat,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Tensor:
    """Return the result of the kernel of an input gradient, for images as they are given to an op."""
    check_floats(op, x=x, filter=filter)
    images, filters = promote_operands(x, filter, kernel, op)
    shape = as_shape(output_shape, name=f"{op}: output_shape")
    if len(shape) != images.ndim:
        raise ShapeError(
            f"{op}: output_shape={shape} must have as many sizes as x, whose shape is {images.shape}"
        )
    is_first = is_channels_first(data_format, axes, op)
    batch = add_batch_axis(op, axes, images, filters, is_first)
    shape = shape if len(shape) == axes + 2 else (1, *shape)
    shape = (shape[0], *shape[2:], shape[1]) if is_first else shape
    how = strides, padding, dilations, rounding
    window = resolve_window(op, filter_window, shape, filters.shape[:-2], *how)
    return as_given(kernel(batch, filters, input_shape=shape, window=window), images, is_first)


def filter_window(
    image: Shape,
    size: Shape,
    strides: Shape,
    padding: Padding,
    dilations: Shape,
    rounding: Rounding,
) -> Window:
    """Return how a filter slides over an image; see `sliding_window`.

    Raises:
        ArgumentValueError: strides and dilations both exceed 1.
    """
    if max(strides) > 1 and max(dilations) > 1:
        raise ArgumentValueError(
            f"strides={strides} and dilations={dilations} cannot both exceed 1"
        )
    return sliding_window(image, size, strides, padding, dilations, rounding)


def add_batch_axis(op: str, axes: int, images: Tensor, filters: Tensor, is_first: bool) -> Tensor:
    """Return images as kernels take them.

    Raises:
        ShapeError: the images or the filters do not have so many spatial axes, or other channels.
    """
    if images.ndim not in (axes + 1, axes + 2) or filters.ndim != axes + 2:
        raise ShapeError(
            f"{op}: x must have {axes + 1} or {axes + 2} axes and filter {axes + 2}; the shapes "
            f"are {images.shape} and {filters.shape}"
        )
    return as_kernels_take(images, axes, is_first)
