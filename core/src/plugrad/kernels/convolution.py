"""Kernels that slide a filter over an image.

Images are (batch, height, width, channels), filters (height, width, input channels, output channels).
The shape rules at the end hold for any number of spatial axes.

Args:
    x: images (batch, height, width, input channels).
    filter: filters (height, width, input channels, output channels) of the dtype of the images.
    dy: the gradient of the result of the convolution, of the shape and the dtype of that result.
    window: how the filters slide over the images; its size is that of the filters.
    input_shape: the shape of the images.
    filter_shape: the shape of the filters.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError, short_repr
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Window, check_window


@kernel("Conv2D", accepts=FLOATING)
def conv2d(x: Spec, filter: Spec, *, window: Window) -> Spec:
    """Return the cross-correlation of images with filters.

    Returns:
        images (batch, *window.out, output channels) in the dtype of x.
    """
    return Shaped(
        convolution_shape(2, x.shape, filter.shape, window), check_same_dtype("Conv2D", x, filter)
    )


@kernel("Conv2DBackpropInput", accepts=FLOATING)
def conv2d_input_gradient(dy: Spec, filter: Spec, *, input_shape: Shape, window: Window) -> Spec:
    """Return the gradient of `conv2d` for its images, which have `input_shape`: a transposed convolution.

    Returns:
        a tensor of shape `input_shape` in the dtype of dy.
    """
    check_gradient_shape(dy, input_shape, convolution_shape(2, input_shape, filter.shape, window))
    return Shaped(input_shape, check_same_dtype("Conv2DBackpropInput", dy, filter))


@kernel("Conv2DBackpropFilter", accepts=FLOATING)
def conv2d_filter_gradient(x: Spec, dy: Spec, *, filter_shape: Shape, window: Window) -> Spec:
    """Return the gradient of `conv2d` for its filters, which have `filter_shape`.

    Returns:
        a tensor of shape `filter_shape` in the dtype of x.
    """
    check_gradient_shape(dy, x.shape, convolution_shape(2, x.shape, filter_shape, window))
    return Shaped(filter_shape, check_same_dtype("Conv2DBackpropFilter", x, dy))


def convolution_shape(
    spatial_rank: int,
    image_shape: Shape,
    filter_shape: Shape,
    window: Window,
    *,
    is_depthwise: bool = False,
) -> Shape:
    """Return the shape of the result of sliding filters over images.

    Raises:
        ShapeError: images or filters do not have `spatial_rank` spatial axes, their channels differ, or the
            window is that of other filters or images.
    """
    check_images(spatial_rank, image_shape, filter_shape)
    check_window(image_shape, window, spatial_rank)
    if window.size != filter_shape[:-2]:
        raise ShapeError(f"filters of shape {filter_shape} do not have the size of {window}")
    channels = filter_shape[-1] * image_shape[-1] if is_depthwise else filter_shape[-1]
    return image_shape[0], *window.out, channels


def check_images(spatial_rank: int, image_shape: Shape, filter_shape: Shape) -> None:
    """Raise unless filters of a shape fit images of a shape.

    Raises:
        ShapeError: images or filters do not have `spatial_rank` spatial axes, or their channels differ.
    """
    if not len(image_shape) == len(filter_shape) == spatial_rank + 2:
        raise ShapeError(
            f"images and filters of a convolution have {spatial_rank + 2} axes; the shapes are {image_shape} and "
            f"{filter_shape}"
        )
    if image_shape[-1] != filter_shape[-2]:
        axes_now = (0, *range(2, spatial_rank + 2), 1)
        remedy = f"; if axis 1 has the channels, write plugrad.permute_dims(images, {axes_now})"
        raise ShapeError(
            f"images of shape {image_shape}, channels last, have {image_shape[-1]} channels but filters of shape "
            f"{filter_shape} expect {filter_shape[-2]}{remedy if image_shape[1] == filter_shape[-2] else ''}"
        )


def check_gradient_shape(
    dy: Spec, image_shape: Shape, expected_shape: Shape, input_name: str = "dy"
) -> None:
    """Raise unless dy, or the input `input_name`, has the expected shape of the result for images of a shape.

    Raises:
        ShapeError: it has another shape.
    """
    if dy.shape != expected_shape:
        raise ShapeError(
            f"{input_name} has shape {dy.shape}; images of shape {image_shape} give {short_repr(expected_shape)}"
        )
