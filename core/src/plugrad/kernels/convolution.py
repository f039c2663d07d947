"""Kernels that slide a filter over an image.

Images are (batch, height, width, channels), or (batch, channels, height, width) if `data_format` is
"NCHW"; filters are (height, width, input channels, output channels). The shape rules at the end
hold for any number of spatial axes.
"""

from plugrad.contract.kernel import agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import (
    DataFormat,
    ImageFormat,
    Padding,
    Rounding,
    Window,
    sliding_window,
)


@kernel("Conv2D", accepts=FLOATING)
def conv2d(
    x: Spec,
    filter: Spec,
    *,
    strides: Shape,
    pad: Padding,
    data_format: ImageFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Return the cross-correlation of images with filters."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    return Shaped(convolved(x.shape, filter.shape, *sliding), agreed("Conv2D", x, filter))


@kernel("Conv2DBackpropInput", accepts=FLOATING)
def conv2d_input_gradient(
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
    """Return the gradient of `conv2d` for its images, which have `input_shape`: a transposed convolution."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, input_shape, filter.shape, *sliding)
    return Shaped(input_shape, agreed("Conv2DBackpropInput", dy, filter))


@kernel("Conv2DBackpropFilter", accepts=FLOATING)
def conv2d_filter_gradient(
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
    """Return the gradient of `conv2d` for its filters, which have `filter_shape`."""
    sliding = strides, pad, data_format, dilations, dim_rounding_mode
    check_gradient(dy, x.shape, filter_shape, *sliding)
    return Shaped(filter_shape, agreed("Conv2DBackpropFilter", x, dy))


def convolved(
    image: Shape,
    filter: Shape,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    rounding: Rounding,
    *,
    is_depthwise: bool = False,
) -> Shape:
    """Return the shape of the result of sliding filters over images.

    Raises:
        ShapeError: images or filters do not have as many axes as the format, their channels differ,
            or the window does not fit.
    """
    batch, channels, window = geometry(
        image, filter, strides, pad, data_format, dilations, rounding
    )
    if channels != filter[-2]:
        raise ShapeError(
            f"images of shape {image} have {channels} channels ({data_format}) but filters of shape {filter} "
            f"expect {filter[-2]}"
        )
    out_channels = filter[-1] * channels if is_depthwise else filter[-1]
    return image_shape(batch, window.out, out_channels, data_format)


def check_gradient(
    dy: Spec,
    image: Shape,
    filter: Shape,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    rounding: Rounding,
    *,
    is_depthwise: bool = False,
) -> None:
    """Check that dy has the shape of the result of sliding filters over images.

    Raises:
        ShapeError: it has another shape, or there is no such result.
    """
    sliding = strides, pad, data_format, dilations, rounding
    expected = convolved(image, filter, *sliding, is_depthwise=is_depthwise)
    if dy.shape != expected:
        raise ShapeError(
            f"dy has shape {dy.shape}; filters of shape {filter} over images of shape {image} give {expected}"
        )


def geometry(
    image: Shape,
    filter: Shape,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    rounding: Rounding,
) -> tuple[int, int, Window]:
    """Return (batch, channels, window) of filters that slide over images.

    Raises:
        ShapeError: images or filters do not have as many axes as the format, or the window does not
            fit.
    """
    if not len(image) == len(filter) == len(data_format):
        raise ShapeError(
            f"images ({data_format}) and filters of a convolution have {len(data_format)} axes; "
            f"the shapes are {image} and {filter}"
        )
    is_last = data_format.endswith("C")
    size, channels = (image[1:-1], image[-1]) if is_last else (image[2:], image[1])
    window = sliding_window(size, filter[:-2], strides, pad, dilations, rounding)
    return image[0], channels, window


def image_shape(batch: int, size: Shape, channels: int, data_format: DataFormat) -> Shape:
    """Return the shape of a batch of images."""
    return (batch, *size, channels) if data_format.endswith("C") else (batch, channels, *size)
