"""Kernels that change the size of (batch, height, width, channels) images, and their gradients.

Row i of the result shows row ``i * height / size[0]`` of the images; ``i * (height - 1) / (size[0] -
1)`` with `align_corners`, which maps corner pixels to corner pixels; ``(i + 0.5) * height / size[0]
- 0.5`` with `half_pixel_centers`, which maps the centers of pixels. The columns likewise.

Args:
    images: (batch, height, width, channels) with at least one pixel.
    dy: the gradient of the result, of the shape of that result, floating.
    size: the height and the width of the result, at least 1.
    align_corners: whether corner pixels are mapped to corner pixels.
    half_pixel_centers: whether the centers of pixels are mapped.

Returns:
    images (batch, *size, channels) in the dtype of the images.
"""

from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, REAL, float32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Pair


@kernel("ResizeBilinear", accepts=REAL)
def resize_bilinear(
    images: Spec, *, size: Pair, align_corners: bool = False, half_pixel_centers: bool = False
) -> Spec:
    """Return images of `size`, interpolated between the four nearest pixels; integers give float32.

    Returns:
        images (batch, *size, channels) in the dtype of the images, or float32 for integers.
    """
    dtype = images.dtype if images.dtype.kind == "floating" else float32
    return Shaped(_resize_shape(images.shape, size), dtype)


@kernel("ResizeBilinearGrad", accepts=FLOATING)
def resize_bilinear_gradient(
    images: Spec,
    dy: Spec,
    *,
    size: Pair,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Spec:
    """Return the gradient of `resize_bilinear`: dy is shared by the four nearest pixels, as they were weighted.

    Returns:
        a tensor of the shape of the images in the dtype of dy.
    """
    return _gradient_spec("ResizeBilinearGrad", images, dy, size)


@kernel("ResizeNearestNeighbor", accepts=REAL)
def resize_nearest_neighbor(
    images: Spec, *, size: Pair, align_corners: bool = False, half_pixel_centers: bool = False
) -> Spec:
    """Return images of `size` made of pixels of the images.

    A row between two rows is the upper one; with `align_corners` the nearer one, and from the middle
    on the lower; with `half_pixel_centers` the one that contains the center of the new row.
    """
    return Shaped(_resize_shape(images.shape, size), images.dtype)


@kernel("ResizeNearestNeighborGrad", accepts=FLOATING)
def resize_nearest_neighbor_gradient(
    images: Spec,
    dy: Spec,
    *,
    size: Pair,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Spec:
    """Return the gradient of `resize_nearest_neighbor`: for each pixel, the sum of dy where it is shown.

    Returns:
        a tensor of the shape of the images in the dtype of dy.
    """
    return _gradient_spec("ResizeNearestNeighborGrad", images, dy, size)


def _resize_shape(image_shape: Shape, size: Pair) -> Shape:
    """Return the shape of resized images; raise if they have no pixels."""
    if len(image_shape) != 4 or 0 in image_shape[1:3]:
        raise ShapeError(
            f"images have shape (batch, height, width, channels) and at least one pixel, not {image_shape}"
        )
    if min(size) < 1:
        raise ArgumentValueError(f"size={size} must be at least 1")
    return image_shape[0], *size, image_shape[3]


def _gradient_spec(kernel_name: str, images: Spec, dy: Spec, size: Pair) -> Spec:
    """Return the shape of the images and the dtype of dy, after a check of both."""
    check_dtype(f"{kernel_name} (dy)", dy, FLOATING)
    expected = _resize_shape(images.shape, size)
    if dy.shape != expected:
        raise ShapeError(
            f"dy has shape {dy.shape}; images of shape {images.shape} at size {size} have shape {expected}"
        )
    return Shaped(images.shape, dy.dtype)
