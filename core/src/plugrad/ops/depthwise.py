"""Functions that slide filters over the channels of images, each over one channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ShapeError
from plugrad.kernels import convolution, depthwise
from plugrad.ops.arguments import cast, promote_operands
from plugrad.ops.convolution import (
    as_batch_with_channels_last,
    run_channels_last_convolution,
    run_convolution,
)
from plugrad.ops.dtypes import check_floats
from plugrad.ops.windows import restore_layout
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.windows import is_channels_first

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import ImageFormat, PaddingLike, Rounding


@explain_wrong_calls
def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of each channel of images with the filters for that channel.

    >>> images = plugrad.asarray([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    >>> plugrad.depthwise_conv2d(images, plugrad.ones((1, 2, 2, 1)))[0]
    tensor([[ 3., 30.],
            [ 6., 60.]], dtype=float32)

    The result has the axes of x, with ``channels * multiplier`` channels and the height and width
    that `conv2d` gives, and the dtype to which x and filter promote.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: filters of shape (height, width, channels, multiplier). Channel c of x gives the
            channels from ``c * multiplier`` up to, but without, ``(c + 1) * multiplier`` of the
            result.
        strides: the distance between neighbouring positions of the filter, one number or (vertical,
            horizontal).
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal).
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    how = data_format, strides, padding, dilations, dim_rounding_mode
    return run_convolution(depthwise.depthwise_conv2d, "depthwise_conv2d", 2, x, filter, *how)


@explain_wrong_calls
def separable_conv2d(
    x: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """A `depthwise_conv2d` of images, followed by a convolution with filters of one cell, which mixes the channels.

    >>> images = plugrad.asarray([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    >>> mix = plugrad.ones((1, 1, 2, 1))
    >>> plugrad.separable_conv2d(images, plugrad.ones((1, 2, 2, 1)), mix)[0, :, 0]
    tensor([33., 66.], dtype=float32)

    The result has the axes of x, with the output channels of the pointwise filter and the height
    and width that `depthwise_conv2d` gives, and the dtype to which all operands promote. See
    Chollet, "Xception: deep learning with depthwise separable convolutions" (2017).

    Args:
        x: images as for `depthwise_conv2d`.
        depthwise_filter: filters of shape (height, width, channels, multiplier).
        pointwise_filter: filters of shape (1, 1, channels * multiplier, output channels).
        strides: strides of the depthwise filter, as for `depthwise_conv2d`.
        padding: as for `depthwise_conv2d`.
        data_format: "NHWC" or "NCHW".
        dilations: dilations of the depthwise filter, as for `depthwise_conv2d`.
        dim_rounding_mode: as for `depthwise_conv2d`.

    Raises:
        DTypeError: x or a filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the depthwise filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    op = "separable_conv2d"
    check_floats(op, x=x, depthwise_filter=depthwise_filter, pointwise_filter=pointwise_filter)
    images, filters = promote_operands(x, depthwise_filter, depthwise.depthwise_conv2d, op)
    images, mix = promote_operands(images, pointwise_filter, convolution.conv2d, op)
    filters = cast(filters, images.dtype)
    has_channels_first = is_channels_first(data_format, 2, op)
    batch = as_batch_with_channels_last(op, 2, images, filters, has_channels_first)
    channels = filters.shape[2] * filters.shape[3]
    if mix.ndim != 4 or mix.shape[:3] != (1, 1, channels):
        raise ShapeError(
            f"{op}: pointwise_filter has shape {mix.shape}; depthwise filters of shape {filters.shape} "
            f"need (1, 1, {channels}, output channels)"
        )
    how = strides, padding, dilations, dim_rounding_mode
    y = run_channels_last_convolution(depthwise.depthwise_conv2d, op, batch, filters, *how)
    y = run_channels_last_convolution(convolution.conv2d, op, y, mix, 1, "valid", 1, None)
    return restore_layout(y, images, has_channels_first)
