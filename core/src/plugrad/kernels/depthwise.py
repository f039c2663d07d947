"""Kernels that slide filters over the channels of an image, each over one channel.

Images are as for `convolution`. Filters are (height, width, channels, multiplier); every channel of
the image gives `multiplier` channels of the result, which lie next to each other.

Args:
    x: images (batch, height, width, channels).
    filter: filters (height, width, channels, multiplier) of the dtype of the images.
    dy: the gradient of the result of the convolution, of the shape and the dtype of that result.
    window: how the filters slide over the images; its size is that of the filters.
    input_shape: the shape of the images.
    filter_shape: the shape of the filters.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.kernels.convolution import check_gradient_shape, convolution_shape
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Window


@kernel("DepthwiseConv2dNative", accepts=FLOATING)
def depthwise_conv2d(x: Spec, filter: Spec, *, window: Window) -> Spec:
    """Return the cross-correlation of each channel of images with its own filters.

    Returns:
        images (batch, *window.out, channels * multiplier) in the dtype of x.
    """
    shape = convolution_shape(2, x.shape, filter.shape, window, is_depthwise=True)
    return Shaped(shape, check_same_dtype("DepthwiseConv2dNative", x, filter))


@kernel("DepthwiseConv2dNativeBackpropInput", accepts=FLOATING)
def depthwise_conv2d_input_gradient(
    dy: Spec, filter: Spec, *, input_shape: Shape, window: Window
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its images, which have `input_shape`.

    Returns:
        a tensor of shape `input_shape` in the dtype of dy.
    """
    check_gradient_shape(
        dy, input_shape, convolution_shape(2, input_shape, filter.shape, window, is_depthwise=True)
    )
    return Shaped(input_shape, check_same_dtype("DepthwiseConv2dNativeBackpropInput", dy, filter))


@kernel("DepthwiseConv2dNativeBackpropFilter", accepts=FLOATING)
def depthwise_conv2d_filter_gradient(
    x: Spec, dy: Spec, *, filter_shape: Shape, window: Window
) -> Spec:
    """Return the gradient of `depthwise_conv2d` for its filters, which have `filter_shape`.

    Returns:
        a tensor of shape `filter_shape` in the dtype of x.
    """
    check_gradient_shape(
        dy, x.shape, convolution_shape(2, x.shape, filter_shape, window, is_depthwise=True)
    )
    return Shaped(filter_shape, check_same_dtype("DepthwiseConv2dNativeBackpropFilter", x, dy))
