"""Kernels that slide filters over the channels of an image, each over one channel.

Images are as for `convolution`. Filters are (height, width, channels, multiplier); every channel of
the image gives `multiplier` channels of the result, which lie next to each other.
"""

from plugrad.contract.kernel import agreed, kernel
from plugrad.kernels.convolution import check_gradient, convolved
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import ImageFormat, Padding, Rounding


@kernel("DepthwiseConv2dNative", accepts=FLOATING)
def depthwise_conv2d(
    x: Spec,
    filter: Spec,
    *,
    strides: Shape,
    pad: Padding,
    data_format: ImageFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the cross-correlation of each channel of images with its own filters."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    shape = convolved(x.shape, filter.shape, *sliding, is_depthwise=True)
    return Shaped(shape, agreed("DepthwiseConv2dNative", x, filter))


@kernel("DepthwiseConv2dNativeBackpropInput", accepts=FLOATING)
def depthwise_conv2d_input_gradient(
    dy: Spec,
    filter: Spec,
    *,
    input_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: ImageFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its images, which have `input_shape`."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, input_shape, filter.shape, *sliding, is_depthwise=True)
    return Shaped(input_shape, agreed("DepthwiseConv2dNativeBackpropInput", dy, filter))


@kernel("DepthwiseConv2dNativeBackpropFilter", accepts=FLOATING)
def depthwise_conv2d_filter_gradient(
    x: Spec,
    dy: Spec,
    *,
    filter_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: ImageFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its filters, which have `filter_shape`."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, x.shape, filter_shape, *sliding, is_depthwise=True)
    return Shaped(filter_shape, agreed("DepthwiseConv2dNativeBackpropFilter", x, dy))
