"""Kernels that slide filters over the channels of an image, each over one channel.

Images are as for `convolution`. Filters are (height, width, channels, multiplier); every channel of
the image gives `multiplier` channels of the result, which lie next to each other.
"""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.kernels.convolution import check_gradient, convolved
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import DataFormat, Padding, Rounding, format_of


@kernel("DepthwiseConv2dNative", accepts=FLOATING)
def depthwise_conv2d(
    x: Spec,
    filter: Spec,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Cross-correlate each channel of images with its own filters."""
    name = "DepthwiseConv2dNative"
    sliding = strides, pad, format_of(data_format, 2, name), dilations, dim_rounding_mode
    accepted(name, x, FLOATING)
    return Shaped(
        convolved(name, x.shape, filter.shape, *sliding, is_depthwise=True),
        agreed(name, x, filter),
    )


@kernel("DepthwiseConv2dNativeBackpropInput", accepts=FLOATING)
def depthwise_conv2d_input_gradient(
    dy: Spec,
    filter: Spec,
    *,
    input_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its images, which have `input_shape`."""
    name = "DepthwiseConv2dNativeBackpropInput"
    sliding = strides, pad, format_of(data_format, 2, name), dilations, dim_rounding_mode
    check_gradient(name, dy, input_shape, filter.shape, *sliding, is_depthwise=True)
    return Shaped(input_shape, agreed(name, dy, filter))


@kernel("DepthwiseConv2dNativeBackpropFilter", accepts=FLOATING)
def depthwise_conv2d_filter_gradient(
    x: Spec,
    dy: Spec,
    *,
    filter_shape: Shape,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its filters, which have `filter_shape`."""
    name = "DepthwiseConv2dNativeBackpropFilter"
    sliding = strides, pad, format_of(data_format, 2, name), dilations, dim_rounding_mode
    check_gradient(name, dy, x.shape, filter_shape, *sliding, is_depthwise=True)
    return Shaped(filter_shape, agreed(name, x, dy))
