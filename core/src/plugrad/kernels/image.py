"""Kernels that cut, flip and warp (batch, height, width, channels) images.

A pixel of the result shows a point of an image. The interpolation "nearest" takes the nearest pixel,
and of two equally near ones the later; "bilinear" weights the four pixels around the point.

Args:
    image: images (batch, height, width, channels).
    dy: the gradient of the result, of the shape of that result.
    boxes: (number, 4), floating.
    box_ind: the number of the image of each box, a vector of integers.
    transforms: eight coefficients, floating: (batch, 8), or (1, 8) for all images.
    image_shape: the shape of the images.
    method: how values between pixels are found.
    interpolation: how values between pixels are found.
    fill_mode: how an image continues beyond its border.
    fill_value: what points outside the image show: a number, or one for each channel.
    radians: the angle.
    center: the point (x, y) around which images are rotated.
"""

from math import isfinite
from typing import Literal

from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, INTEGER, REAL, float32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Pair

Interpolation = Literal["bilinear", "nearest"]
FillMode = Literal["constant", "reflect", "wrap", "nearest"]
FillValue = float | tuple[float, ...]
"""One value for all channels, or one for each."""


@kernel("CropAndResize", accepts=REAL)
def crop_and_resize(
    image: Spec,
    boxes: Spec,
    box_ind: Spec,
    *,
    crop_size: Pair,
    method: Interpolation = "bilinear",
    extrapolation_value: float = 0,
) -> Spec:
    """Return boxes cut out of images, each resized to `crop_size`; integers give float32.

    A box (y1, x1, y2, x2) is cut out of the image whose number is in `box_ind`; a negative number
    counts from the end, and a number without an image is an error, or gives zeros where checking
    would have to wait for a device. The first row of a crop shows row ``y1 * (height - 1)``, the
    last row shows row ``y2 * (height - 1)``, and the rows between are evenly spaced; a single row
    shows the middle of the box. The columns likewise. A point outside the image is
    `extrapolation_value`.

    Args:
        crop_size: the height and the width of the crops, at least 1.
        extrapolation_value: what points outside the image show.

    Returns:
        crops (number, *crop_size, channels) in the dtype of the images, or float32 for integers.
    """
    shape = _crop_shape("CropAndResize", image.shape, boxes, box_ind, crop_size)
    return Shaped(shape, image.dtype if image.dtype.kind == "floating" else float32)


@kernel("CropAndResizeGradImage", accepts=FLOATING)
def crop_and_resize_image_gradient(
    dy: Spec, boxes: Spec, box_ind: Spec, *, image_shape: Shape, method: Interpolation = "bilinear"
) -> Spec:
    """Return the gradient of `crop_and_resize` for its images: dy goes to the pixels that were shown.

    Returns:
        a tensor of shape `image_shape` in the dtype of dy.
    """
    expected = _crop_shape("CropAndResizeGradImage", image_shape, boxes, box_ind, _image_size(dy))
    _check_gradient(dy, expected, image_shape)
    return Shaped(image_shape, dy.dtype)


@kernel("FlipLeftRight", accepts=REAL)
def flip_left_right(image: Spec) -> Spec:
    """Return images with their columns in reverse order.

    Returns:
        a tensor of the shape and the dtype of the images.
    """
    _check_images(image.shape)
    return Shaped(image.shape, image.dtype)


@kernel("RotateWithOffset", accepts=FLOATING)
def rotate_with_offset(
    image: Spec, *, radians: float, fill_value: FillValue, center: tuple[float, float]
) -> Spec:
    """Return images rotated counterclockwise; points outside the image are `fill_value`.

    The `center` (x, y) is a fraction of the width and of the height: (0, 0) is the upper left corner
    of the first pixel, (1, 1) the lower right corner of the last.

    Returns:
        a tensor of the shape and the dtype of the images.
    """
    _check_images(image.shape)
    _check_rotation(radians, center)
    _check_fill(fill_value, image.shape)
    return Shaped(image.shape, image.dtype)


@kernel("RotateWithOffsetGrad", accepts=FLOATING)
def rotate_with_offset_gradient(dy: Spec, *, radians: float, center: tuple[float, float]) -> Spec:
    """Return the gradient of `rotate_with_offset`: dy goes to the pixels that were shown.

    Returns:
        a tensor of the shape and the dtype of dy.
    """
    _check_images(dy.shape)
    _check_rotation(radians, center)
    return Shaped(dy.shape, dy.dtype)


@kernel("Transform", accepts=FLOATING)
def transform(
    image: Spec,
    transforms: Spec,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: FillValue,
    output_shape: Pair,
) -> Spec:
    """Return images of `output_shape` seen through projective transforms, one for each or one for all.

    With a transform (a, b, c, d, e, f, g, h), column x of row y shows the point in column ``(a x +
    b y + c) / p`` and row ``(d x + e y + f) / p``, where ``p = g x + h y + 1``. Beyond its border an
    image continues with `fill_value` ("constant"), mirrored at the border ("reflect": d c b a | a b
    c d | d c b a), repeated ("wrap"), or with its last pixels ("nearest"). Where p is 0, the result
    is `fill_value`.

    Args:
        output_shape: the height and the width of the result, at least 1.

    Returns:
        images (batch, *output_shape, channels) in the dtype of the images.
    """
    shape = _transform_shape("Transform", image.shape, transforms, output_shape)
    _check_fill(fill_value, image.shape)
    return Shaped(shape, image.dtype)


@kernel("TransformGrad", accepts=FLOATING)
def transform_image_gradient(
    dy: Spec,
    transforms: Spec,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> Spec:
    """Return the gradient of `transform` for its images: dy goes to the pixels that were shown.

    Returns:
        a tensor of shape `image_shape` in the dtype of dy.
    """
    expected = _transform_shape("TransformGrad", image_shape, transforms, _image_size(dy))
    _check_gradient(dy, expected, image_shape)
    return Shaped(image_shape, dy.dtype)


def _crop_shape(
    kernel_name: str, image_shape: Shape, boxes: Spec, box_ind: Spec, crop_size: Pair
) -> Shape:
    """Return the shape of the crops."""
    check_dtype(f"{kernel_name} (boxes)", boxes, FLOATING)
    check_dtype(f"{kernel_name} (box_ind)", box_ind, INTEGER)
    _check_has_pixels(image_shape)
    if len(box_ind.shape) != 1 or boxes.shape != (*box_ind.shape, 4):
        raise ShapeError(
            f"boxes of shape (number, 4) need one box_ind each; the shapes are {boxes.shape} and {box_ind.shape}"
        )
    _check_size(crop_size)
    return boxes.shape[0], *crop_size, image_shape[3]


def _transform_shape(
    kernel_name: str, image_shape: Shape, transforms: Spec, output_size: Pair
) -> Shape:
    """Return the shape of the transformed images."""
    check_dtype(f"{kernel_name} (transforms)", transforms, FLOATING)
    _check_has_pixels(image_shape)
    if transforms.shape not in ((1, 8), (image_shape[0], 8)):
        raise ShapeError(
            f"transforms must have shape (1, 8) or ({image_shape[0]}, 8) for images of shape {image_shape}, "
            f"not {transforms.shape}"
        )
    _check_size(output_size)
    return image_shape[0], *output_size, image_shape[3]


def _image_size(dy: Spec) -> Pair:
    """Return the height and the width of the images of which dy is the gradient."""
    _check_images(dy.shape)
    return dy.shape[1], dy.shape[2]


def _check_images(image_shape: Shape) -> None:
    """Raise unless a shape is that of images."""
    if len(image_shape) != 4:
        raise ShapeError(f"images have shape (batch, height, width, channels), not {image_shape}")


def _check_has_pixels(image_shape: Shape) -> None:
    """Raise unless images of a shape have at least one pixel."""
    _check_images(image_shape)
    if 0 in image_shape[1:3]:
        raise ShapeError(f"images of shape {image_shape} have no pixels")


def _check_size(image_size: Pair) -> None:
    """Raise unless the height and width of images are at least 1."""
    if min(image_size) < 1:
        raise ShapeError(f"images of size {image_size} have no pixels")


def _check_rotation(radians: float, center: tuple[float, float]) -> None:
    """Raise unless the angle and the center are finite."""
    if not all(map(isfinite, (radians, *center))):
        raise ArgumentValueError(f"radians={radians} and center={center} must be finite")


def _check_fill(fill_value: FillValue, image_shape: Shape) -> None:
    """Raise unless there is one fill value, or one for each channel."""
    if isinstance(fill_value, tuple) and len(fill_value) != image_shape[3]:
        raise ArgumentValueError(
            f"fill_value={fill_value} must be one number, or one for each of the {image_shape[3]} channels"
        )


def _check_gradient(dy: Spec, expected_shape: Shape, image_shape: Shape) -> None:
    """Raise unless dy has the shape of the result for images of a shape."""
    if dy.shape != expected_shape:
        raise ShapeError(
            f"dy has shape {dy.shape}; the result for images of shape {image_shape} has shape {expected_shape}"
        )
