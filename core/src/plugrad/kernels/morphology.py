"""Kernels of grayscale morphology, which take the largest sums of the cells of a window and of a filter.

Images are (batch, height, width, channels), filters (height, width, channels). Cells of the padding
do not count; a window that contains no pixel gives the smallest number.

Args:
    x: images (batch, height, width, channels).
    filter: weights (height, width, channels) of the dtype of the images, which are added to the pixels of a window.
    dy: the gradient of the result of `dilation2d`, of the shape and the dtype of that result.
    window: how the filter slides over the images; its size is that of the filter.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.kernels.convolution import check_gradient_shape
from plugrad.types.dtype import REAL
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Window, check_window


@kernel("Dilation2D", accepts=REAL)
def dilation2d(x: Spec, filter: Spec, *, window: Window) -> Spec:
    """Return the largest sum of a pixel and a weight in each window, or NaN if a sum is NaN.

    Returns:
        images (batch, *window.out, channels) in the dtype of x.
    """
    return Shaped(
        _dilation_shape(x.shape, filter.shape, window), check_same_dtype("Dilation2D", x, filter)
    )


@kernel("Dilation2DBackpropInput", accepts=REAL)
def dilation2d_input_gradient(x: Spec, filter: Spec, dy: Spec, *, window: Window) -> Spec:
    """Return the gradient of `dilation2d` for its images: dy goes to the first largest sum of each window.

    Returns:
        a tensor of the shape and the dtype of x.
    """
    check_gradient_shape(dy, x.shape, _dilation_shape(x.shape, filter.shape, window))
    return Shaped(x.shape, check_same_dtype("Dilation2DBackpropInput", x, filter, dy))


@kernel("Dilation2DBackpropFilter", accepts=REAL)
def dilation2d_filter_gradient(x: Spec, filter: Spec, dy: Spec, *, window: Window) -> Spec:
    """Return the gradient of `dilation2d` for its filter: dy goes to the first largest sum of each window.

    Returns:
        a tensor of the shape and the dtype of the filter.
    """
    check_gradient_shape(dy, x.shape, _dilation_shape(x.shape, filter.shape, window))
    return Shaped(filter.shape, check_same_dtype("Dilation2DBackpropFilter", x, filter, dy))


def _dilation_shape(images: Shape, filter: Shape, window: Window) -> Shape:
    """Return the shape of the dilated images."""
    if len(images) != 4 or len(filter) != 3 or images[3] != filter[2]:
        raise ShapeError(
            "images (batch, height, width, channels) and filters (height, width, channels) must have the same "
            f"channels; the shapes are {images} and {filter}"
        )
    check_window(images, window)
    if window.size != filter[:2]:
        raise ShapeError(f"a filter of shape {filter} does not have the size of {window}")
    return images[0], *window.out, images[3]
