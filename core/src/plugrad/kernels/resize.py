"""Kernels that change the size of (batch, height, width, channels) images, and their gradients.

Row i of the result shows row ``i * height / size[0]`` of the images; ``i * (height - 1) / (size[0] -
1)`` with `align_corners`, which maps corner pixels to corner pixels; ``(i + 0.5) * height / size[0]
- 0.5`` with `half_pixel_centers`, which maps the centers of pixels. The columns likewise.
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
    """Return images of `size`, interpolated between the four nearest pixels; integers give float32."""
    dtype = images.dtype if images.dtype.kind == "floating" else float32
    return Shaped(_resized(images.shape, size), dtype)


@kernel("ResizeBilinearGrad", accepts=FLOATING)
def resize_bilinear_gradient(
    images: Spec,
    dy: Spec,
    *,
    size: Pair,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Spec:
    """Return the gradient of `resize_bilinear`: dy is shared by the four nearest pixels, as they were weighted."""
    return _gradient("ResizeBilinearGrad", images, dy, size)


@kernel("ResizeNearestNeighbor", accepts=REAL)
def resize_nearest_neighbor(
    images: Spec, *, size: Pair, align_corners: bool = False, half_pixel_centers: bool = False
) -> Spec:
    """Return images of `size` made of pixels of the images.

    A row between two rows is the upper one; with `align_corners` the nearer one, and from the middle
    on the lower; with `half_pixel_centers` the one that contains the center of the new row.
    """
    return Shaped(_resized(images.shape, size), images.dtype)


@kernel("ResizeNearestNeighborGrad", accepts=FLOATING)
def resize_nearest_neighbor_gradient(
    images: Spec,
    dy: Spec,
    *,
    size: Pair,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Spec:
    """Return the gradient of `resize_nearest_neighbor`: for each pixel, the sum of dy where it is shown."""
    return _gradient("ResizeNearestNeighborGrad", images, dy, size)


def _resized(images: Shape, size: Pair) -> Shape:
    if len(images) != 4 or 0 in images[1:3]:
        raise ShapeError(
            f"images have shape (batch, height, width, channels) and at least one pixel, not {images}"
        )
    if min(size) < 1:
        raise ArgumentValueError(f"size={size} must be at least 1")
    return images[0], *size, images[3]


def _gradient(name: str, images: Spec, dy: Spec, size: Pair) -> Spec:
    check_dtype(f"{name} (dy)", dy, FLOATING)
    expected = _resized(images.shape, size)
    if dy.shape != expected:
        raise ShapeError(
            f"dy has shape {dy.shape}; images of shape {images.shape} at size {size} have shape {expected}"
        )
    return Shaped(images.shape, dy.dtype)
