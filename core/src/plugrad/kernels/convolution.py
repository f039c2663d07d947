"""Kernels that slide a filter over an image.

Images are (batch, height, width, channels), or (batch, channels, height, width) if `data_format` is
"NCHW"; filters are (height, width, input channels, output channels).
"""

from plugrad.dtype import FLOATING
from plugrad.errors import ShapeError
from plugrad.kernel import Shaped, Spec, accepted, agreed, kernel
from plugrad.shapes import DataFormat, Padding, Rounding, Shape, Window, sliding_window


@kernel("Conv2D", accepts=FLOATING)
def conv2d(
    x: Spec,
    filter: Spec,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat = "NHWC",
    dilations: Shape = (1, 1),
    dim_rounding_mode: Rounding = None,
) -> Spec:
    """Cross-correlate images with filters."""
    accepted("Conv2D", x, FLOATING)
    batch, channels, window = geometry(
        x.shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    if channels != filter.shape[2]:
        raise ShapeError(
            f"Conv2D: x has {channels} channels (x.shape={x.shape}) but the filters expect "
            f"{filter.shape[2]} (filter.shape[2])"
        )
    return Shaped(
        image_shape(batch, window.out, filter.shape[3], data_format), agreed("Conv2D", x, filter)
    )


@kernel("Conv2DBackpropInput", accepts=FLOATING)
def conv2d_input_gradient(
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
    """Return the gradient of `conv2d` for its images, which have `input_shape`; the transpose of a convolution."""
    batch, channels, window = geometry(
        input_shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    expected = image_shape(batch, window.out, filter.shape[3], data_format)
    if dy.shape != expected or channels != filter.shape[2]:
        raise ShapeError(
            f"Conv2DBackpropInput: dy has shape {dy.shape}; filters of shape {filter.shape} "
            f"over images of shape {input_shape} give {expected}"
        )
    return Shaped(input_shape, agreed("Conv2DBackpropInput", dy, filter))


@kernel("Conv2DBackpropFilter", accepts=FLOATING)
def conv2d_filter_gradient(
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
    """Return the gradient of `conv2d` for its filters, which have `filter_shape`."""
    batch, channels, window = geometry(
        x.shape, filter_shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    expected = image_shape(batch, window.out, filter_shape[3], data_format)
    if dy.shape != expected or channels != filter_shape[2]:
        raise ShapeError(
            f"Conv2DBackpropFilter: dy has shape {dy.shape}; filters of shape {filter_shape} "
            f"over images of shape {x.shape} give {expected}"
        )
    return Shaped(filter_shape, agreed("Conv2DBackpropFilter", x, dy))


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
        ShapeError: images or filters have not four axes, or the window does not fit.
    """
    if len(image) != 4 or len(filter) != 4:
        raise ShapeError(
            f"images and filters of a convolution have four axes; the shapes are {image} and {filter}"
        )
    batch, height, width, channels = (
        image if data_format == "NHWC" else (image[0], image[2], image[3], image[1])
    )
    window = sliding_window(
        (height, width), (filter[0], filter[1]), strides, pad, dilations, rounding
    )
    return batch, channels, window


def image_shape(batch: int, size: Shape, channels: int, data_format: DataFormat) -> Shape:
    """Return the shape of a batch of images."""
    return (batch, *size, channels) if data_format == "NHWC" else (batch, channels, *size)
