"""Kernels that take (batch, height, width, channels) images apart and put their pixels elsewhere.

A pixel of the result shows a point of an image. Interpolation "nearest" takes the pixel that the
point lies on, and from the middle between two the later one; "bilinear" weighs the four around.
"""

from math import isfinite
from typing import Literal

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, INTEGER, REAL, float32
from plugrad.types.specs import Shape, Shaped, Spec
from plugrad.types.windows import Pair

Interpolation = Literal["bilinear", "nearest"]
FillMode = Literal["constant", "reflect", "wrap", "nearest"]
Fill = float | tuple[float, ...]
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
    """Return boxes cut out of images, each brought to `crop_size`; whole numbers give float32.

    A box (y1, x1, y2, x2) belongs to the image that `box_ind` says, an error if there is none. The
    first row of a crop shows row ``y1 * (height - 1)``, the last row ``y2 * (height - 1)``, rows
    between at equal distances, and a lone row the middle of the box. A point outside the image is
    `extrapolation_value`.
    """
    dtype = accepted("CropAndResize", image, REAL)
    shape = _cropped("CropAndResize", image.shape, boxes, box_ind, crop_size)
    return Shaped(shape, dtype if dtype in FLOATING else float32)


@kernel("CropAndResizeGradImage", accepts=FLOATING)
def crop_and_resize_image_gradient(
    dy: Spec, boxes: Spec, box_ind: Spec, *, image_shape: Shape, method: Interpolation = "bilinear"
) -> Spec:
    """Return the gradient of `crop_and_resize` for its images: dy goes to the pixels that were shown."""
    name = "CropAndResizeGradImage"
    _check_gradient(
        name, dy, _cropped(name, image_shape, boxes, box_ind, dy.shape[1:3]), image_shape
    )
    return Shaped(image_shape, accepted(name, dy, FLOATING))


@kernel("FlipLeftRight", accepts=REAL)
def flip_left_right(image: Spec) -> Spec:
    """Reverse the order of the columns."""
    _check_images("FlipLeftRight", image.shape)
    return Shaped(image.shape, accepted("FlipLeftRight", image, REAL))


@kernel("RotateWithOffset", accepts=FLOATING)
def rotate_with_offset(
    image: Spec, *, radians: float, fill_value: Fill, center: tuple[float, float]
) -> Spec:
    """Return images turned counterclockwise; points from outside are `fill_value`.

    The `center` (x, y) is a part of the width and of the height: (0, 0) is the upper left corner of
    the first pixel, (1, 1) the lower right corner of the last.
    """
    _check_images("RotateWithOffset", image.shape)
    _check_turn("RotateWithOffset", radians, center)
    _check_fill("RotateWithOffset", fill_value, image.shape)
    return Shaped(image.shape, accepted("RotateWithOffset", image, FLOATING))


@kernel("RotateWithOffsetGrad", accepts=FLOATING)
def rotate_with_offset_gradient(dy: Spec, *, radians: float, center: tuple[float, float]) -> Spec:
    """Return the gradient of `rotate_with_offset`: dy goes to the pixels that were shown."""
    _check_images("RotateWithOffsetGrad", dy.shape)
    _check_turn("RotateWithOffsetGrad", radians, center)
    return Shaped(dy.shape, accepted("RotateWithOffsetGrad", dy, FLOATING))


@kernel("Transform", accepts=FLOATING)
def transform(
    image: Spec,
    transforms: Spec,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: Fill,
    output_shape: Pair,
) -> Spec:
    """Return images of `output_shape` seen through projective transforms, one for each or one for all.

    With a transform (a, b, c, d, e, f, g, h), column x of row y shows the point in column ``(a x +
    b y + c) / p`` and row ``(d x + e y + f) / p``, where ``p = g x + h y + 1``. Beyond its pixels an
    image goes on: with `fill_value` ("constant"), mirrored at its border ("reflect": d c b a | a b
    c d | d c b a), repeated ("wrap"), or with its last pixels ("nearest"). Where p is 0 there is
    `fill_value`.
    """
    shape = _transformed("Transform", image.shape, transforms, output_shape)
    _check_fill("Transform", fill_value, image.shape)
    return Shaped(shape, accepted("Transform", image, FLOATING))


@kernel("TransformGrad", accepts=FLOATING)
def transform_image_gradient(
    dy: Spec,
    transforms: Spec,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> Spec:
    """Return the gradient of `transform` for its images: dy goes to the pixels that were shown."""
    expected = _transformed("TransformGrad", image_shape, transforms, dy.shape[1:3])
    _check_gradient("TransformGrad", dy, expected, image_shape)
    return Shaped(image_shape, accepted("TransformGrad", dy, FLOATING))


def _check_turn(name: str, radians: float, center: tuple[float, float]) -> None:
    if not all(map(isfinite, (radians, *center))):
        raise ArgumentValueError(f"{name}: radians={radians} and center={center} must be finite")


def _check_size(name: str, size: Shape) -> None:
    if len(size) != 2 or min(size) < 1:
        raise ShapeError(f"{name}: images of size {size} have no pixels")


def _check_images(name: str, images: Shape) -> None:
    if len(images) != 4:
        raise ShapeError(
            f"{name}: images have shape (batch, height, width, channels), not {images}"
        )


def _cropped(name: str, images: Shape, boxes: Spec, box_ind: Spec, size: Shape) -> Shape:
    _check_has_pixels(name, images)
    accepted(f"{name} (boxes)", boxes, FLOATING)
    accepted(f"{name} (box_ind)", box_ind, INTEGER)
    if len(box_ind.shape) != 1 or boxes.shape != (*box_ind.shape, 4):
        raise ShapeError(
            f"{name}: boxes of shape (number, 4) need a box_ind each; the shapes are {boxes.shape} and {box_ind.shape}"
        )
    _check_size(name, size)
    return boxes.shape[0], *size, images[3]


def _transformed(name: str, images: Shape, transforms: Spec, size: Shape) -> Shape:
    _check_has_pixels(name, images)
    accepted(f"{name} (transforms)", transforms, FLOATING)
    if transforms.shape not in ((1, 8), (images[0], 8)):
        raise ShapeError(
            f"{name}: transforms must have shape (1, 8) or ({images[0]}, 8) for images of shape {images}, "
            f"not {transforms.shape}"
        )
    _check_size(name, size)
    return images[0], *size, images[3]


def _check_has_pixels(name: str, images: Shape) -> None:
    _check_images(name, images)
    if 0 in images[1:3]:
        raise ShapeError(f"{name}: images of shape {images} have no pixels")


def _check_fill(name: str, fill_value: Fill, images: Shape) -> None:
    if isinstance(fill_value, tuple) and len(fill_value) != images[3]:
        raise ArgumentValueError(
            f"{name}: fill_value={fill_value} must be one number, or one for each of the {images[3]} channels"
        )


def _check_gradient(name: str, dy: Spec, expected: Shape, images: Shape) -> None:
    if dy.shape != expected:
        raise ShapeError(
            f"{name}: dy of shape {dy.shape} does not belong to images of shape {images}; it has shape {expected}"
        )
