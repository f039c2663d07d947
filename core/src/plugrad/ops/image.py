"""Functions of images; they belong to the namespace `plugrad.image`.

Images have the shape (batch, height, width, channels) unless a function says otherwise. An argument
that does not convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, short_repr
from plugrad.kernels import image as kernels, indexing, movement
from plugrad.kernels.image import FillMode, Interpolation
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast
from plugrad.ops.attributes import (
    check_choice,
    check_finite,
    check_flag,
    check_number,
    check_real,
    is_sequence,
    to_list,
)
from plugrad.ops.binary import divide, greater, less_equal, where
from plugrad.ops.creation import arange, asarray, ones_like
from plugrad.ops.indexing import as_checked_positions
from plugrad.ops.reduction import argmax, max, sum
from plugrad.ops.unary import round
from plugrad.types.dtype import float32, int32
from plugrad.types.windows import as_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike

    Numbers: TypeAlias = float | Sequence[float]
    """One number, or one for each channel or axis."""

ThresholdMethod = Literal["binary", "otsu"]
LUMA_WEIGHTS = (0.2989, 0.5870, 0.1140)
"""The weights of red, green and blue in the brightness of a pixel (ITU-R BT.601)."""


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike,
    crop_size: ShapeLike,
    method: Interpolation = "bilinear",
    extrapolation_value: float = 0,
) -> Tensor:
    """Boxes cut out of images, all resized to one size.

    >>> image = plugrad.reshape(plugrad.arange(9.0), (1, 3, 3, 1))
    >>> upper_half = [[0, 0, 0.5, 1]]
    >>> plugrad.image.crop_and_resize(image, upper_half, [0], crop_size=(3, 2))[0, :, :, 0]
    tensor([[0. , 2. ],
            [1.5, 3.5],
            [3. , 5. ]], dtype=float32)

    The result has shape (number of boxes, crop height, crop width, channels) and the dtype of the
    images. Gradients reach the images, and with "bilinear" also the boxes.

    Args:
        image: the images; integers become float32.
        boxes: corners (y1, x1, y2, x2) in the shape (number of boxes, 4), as fractions of the
            height and width: 0 is the middle of the first row or column, 1 the middle of the last.
            With y1 > y2 the crop is upside down, with x1 > x2 it is mirrored.
        box_ind: the number of the image that each box is cut out of; a negative one counts from the
            end. Numbers in a tensor are checked on the cpu backend only. On other backends, a box
            whose image does not exist contains zeros.
        crop_size: the size of the crops, one number or (height, width).
        method: "bilinear" interpolates, "nearest" takes the nearest pixel.
        extrapolation_value: the value of points outside the image.

    Raises:
        ShapeError: the shapes are not as above, or the images have no pixels.
        DTypeError: the images or the boxes are neither floats nor integers, or `box_ind` are not
            integers.
        TensorIndexError: one of `box_ind` is not the number of an image.
        ArgumentError: `extrapolation_value` is not a number.
        ArgumentValueError: the size is not one or two positive integers, or the method is unknown.
    """
    op = "crop_and_resize"
    images = as_supported_dtype(image, kernels.crop_and_resize, op, "image")
    if not images.ndim:
        raise ShapeError(
            f"{op}: the image is 0-d; images have shape (batch, height, width, channels)"
        )
    numbers = as_checked_positions(box_ind, images, 0, op, "box_ind")
    check_choice(method, get_args(Interpolation), op, "method")
    height, width = as_sizes(crop_size, 2, f"{op}: crop_size")
    return kernels.crop_and_resize(
        images,
        _as_float_coordinates(boxes, op, "boxes", images),
        numbers,
        crop_size=(height, width),
        method=method,
        extrapolation_value=check_number(extrapolation_value, op, "extrapolation_value"),
    )


def flip_left_right(image: TensorLike) -> Tensor:
    """The images with their columns in reverse order, in the same shape and dtype.

    >>> plugrad.image.flip_left_right([[[[1], [2], [3]]]])[0, :, :, 0]
    tensor([[3, 2, 1]], dtype=int32)

    Raises:
        ShapeError: the images do not have 4 axes.
        DTypeError: the images are neither floats nor integers.
    """
    return kernels.flip_left_right(
        as_supported_dtype(image, kernels.flip_left_right, "flip_left_right", "image")
    )


def grayscale_to_rgb(image: TensorLike) -> Tensor:
    """Gray images, whose last axis has size 1, with three equal channels along that axis.

    >>> plugrad.image.grayscale_to_rgb([[[7]]])
    tensor([[[7, 7, 7]]], dtype=int32)

    The result has the dtype of the images.

    Raises:
        ShapeError: the images have fewer than 2 axes, or the size of the last is not 1.
    """
    gray = as_tensor(image, "grayscale_to_rgb", "image")
    if gray.ndim < 2 or gray.shape[-1] != 1:
        raise ShapeError(
            f"grayscale_to_rgb: image must have 2 axes or more, the last of size 1; the shape is {gray.shape}"
        )
    return movement.tile(gray, reps=(*[1] * (gray.ndim - 1), 3))


def rgb_to_grayscale(image: TensorLike) -> Tensor:
    """The brightness ``0.2989 r + 0.5870 g + 0.1140 b`` of images of red, green and blue along the last axis.

    >>> plugrad.image.rgb_to_grayscale([[[255, 255, 255], [255, 0, 0]]])[:, :, 0]
    tensor([[255,  76]], dtype=int32)

    The result has the dtype of the images, and size 1 on the last axis; integers are rounded. The
    weights are those of ITU-R BT.601.

    Raises:
        ShapeError: the images do not have 2 to 6 axes, or the size of the last is not 3.
        DTypeError: the images are neither floats nor integers.
    """
    colours = as_tensor(image, "rgb_to_grayscale", "image")
    if not 2 <= colours.ndim <= 6 or colours.shape[-1] != 3:
        raise ShapeError(
            f"rgb_to_grayscale: image must have 2 to 6 axes, the last of size 3; the shape is {colours.shape}"
        )
    gray = _weighted_luma(_ints_to_floats(colours, "rgb_to_grayscale"))
    return gray if gray.dtype is colours.dtype else cast(round(gray), colours.dtype)


def rotate_with_offset(
    image: TensorLike,
    radians: float,
    fill_value: Numbers = 0,
    center: Numbers = 0.5,
) -> Tensor:
    """The images rotated counterclockwise about a point, without interpolation between pixels.

    >>> image = plugrad.reshape(plugrad.arange(9.0), (1, 3, 3, 1))
    >>> plugrad.image.rotate_with_offset(image, plugrad.pi / 2)[0, :, :, 0]
    tensor([[2., 5., 8.],
            [1., 4., 7.],
            [0., 3., 6.]], dtype=float32)

    The result has the shape and dtype of the images. Gradients reach the images.

    Args:
        image: the images; integers become float32.
        radians: the angle.
        fill_value: the value of points outside the image, one number or one for each channel.
        center: the point, one number or (x, y), as a fraction of the width and of the height: 0 is
            the left or upper edge of the image, 1 the right or lower edge.

    Raises:
        ShapeError: the images do not have 4 axes.
        DTypeError: the images hold complex numbers or strings.
        ArgumentError: `radians`, `fill_value` or `center` does not consist of numbers.
        ArgumentValueError: `radians` or `center` is not finite, or `fill_value` or `center` does
            not consist of as many numbers as above.
    """
    op = "rotate_with_offset"
    images = as_supported_dtype(image, kernels.rotate_with_offset, op, "image")
    point = _as_numbers(center, op, "center")
    x_and_y = point if isinstance(point, tuple) else (point, point)
    if len(x_and_y) != 2 or not all(map(isfinite, x_and_y)):
        raise ArgumentValueError(
            f"{op}: center={short_repr(center)} must be one finite number, or x and y"
        )
    return kernels.rotate_with_offset(
        images,
        radians=check_finite(radians, op, "radians"),
        fill_value=_as_numbers(fill_value, op, "fill_value"),
        center=x_and_y,
    )


def transform(
    image: TensorLike,
    transforms: TensorLike,
    interpolation: Interpolation = "nearest",
    fill_mode: FillMode = "constant",
    fill_value: Numbers = 0,
    output_shape: ShapeLike | None = None,
) -> Tensor:
    """The images after projective transforms, which shift, rotate, shear, scale or tilt them.

    >>> image = plugrad.reshape(plugrad.arange(4.0), (1, 1, 4, 1))
    >>> to_the_right = [[1, 0, -1, 0, 1, 0, 0, 0]]
    >>> plugrad.image.transform(image, to_the_right)[0, :, :, 0]
    tensor([[0., 0., 1., 2.]], dtype=float32)
    >>> plugrad.image.transform(image, to_the_right, fill_mode="wrap")[0, :, :, 0]
    tensor([[3., 0., 1., 2.]], dtype=float32)

    The result has shape (batch, height, width, channels) with the size `output_shape`, and the
    dtype of the images. Gradients reach the images, and with "bilinear" also the transforms.

    Args:
        image: the images; integers become float32.
        transforms: coefficients (a, b, c, d, e, f, g, h) in the shape (batch, 8), or (1, 8) for all
            images. With ``p = g x + h y + 1``, the pixel in column x and row y of the result shows
            the point in column ``(a x + b y + c) / p`` and row ``(d x + e y + f) / p`` of the
            image.
        interpolation: "nearest" takes the nearest pixel, "bilinear" interpolates.
        fill_mode: how an image continues beyond its border: "constant" with `fill_value`, "reflect"
            mirrored (d c b a | a b c d | d c b a), "wrap" repeated, "nearest" with its last pixel.
        fill_value: the value of points outside the image in mode "constant", and in all modes where
            p is 0: one number or one for each channel.
        output_shape: the size of the result, one number or (height, width); by default that of the
            images.

    Raises:
        ShapeError: the shapes are not as above, or the images have no pixels.
        DTypeError: the images hold complex numbers or strings, or the transforms are neither floats
            nor integers.
        ArgumentError: `fill_value` does not consist of numbers.
        ArgumentValueError: another argument is none of the above.
    """
    op = "transform"
    images = as_supported_dtype(image, kernels.transform, op, "image")
    if images.ndim != 4:
        raise ShapeError(
            f"{op}: image must have shape (batch, height, width, channels), not {images.shape}"
        )
    check_choice(interpolation, get_args(Interpolation), op, "interpolation")
    check_choice(fill_mode, get_args(FillMode), op, "fill_mode")
    height, width = images.shape[1:3]
    if output_shape is not None:
        height, width = as_sizes(output_shape, 2, f"{op}: output_shape")
    return kernels.transform(
        images,
        _as_float_coordinates(transforms, op, "transforms", images),
        interpolation=interpolation,
        fill_mode=fill_mode,
        fill_value=_as_numbers(fill_value, op, "fill_value"),
        output_shape=(height, width),
    )


def threshold(
    image: TensorLike,
    method: ThresholdMethod = "binary",
    inverted: bool = False,
    thresh_value: float = 0.5,
) -> Tensor:
    """255 where an image is brighter than a threshold, 0 elsewhere, as int32 of shape (height, width, 1).

    >>> plugrad.image.threshold([[[10], [200]]])[:, :, 0]
    tensor([[  0, 255]], dtype=int32)
    >>> plugrad.image.threshold([[[10], [12], [60], [70]]], method="otsu")[:, :, 0]
    tensor([[  0,   0, 255, 255]], dtype=int32)

    The method "otsu" is that of Otsu, "A threshold selection method from gray-level histograms",
    IEEE Transactions on Systems, Man, and Cybernetics 9 (1979), 62–66.

    Args:
        image: one image of shape (height, width, 1) or (height, width, 3), with values from 0 to
            255. If it has three channels, their brightness is compared, as in `rgb_to_grayscale`.
        method: "binary" compares with ``255 * thresh_value``; "otsu" compares with the level that
            separates the pixels into two classes with the greatest variance between them.
        inverted: whether 0 and 255 are swapped.
        thresh_value: the threshold for "binary", from 0 to 1.

    Raises:
        ShapeError: the image does not have such a shape.
        DTypeError: the image is neither floats nor integers.
        ArgumentError: `inverted` is not a bool, or `thresh_value` is not a number.
        ArgumentValueError: the method is unknown, or `thresh_value` is NaN.
    """
    pixels = _ints_to_floats(as_tensor(image, "threshold", "image"), "threshold")
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ShapeError(
            f"threshold: image must have shape (height, width, 1 or 3 channels), not {pixels.shape}"
        )
    check_choice(method, get_args(ThresholdMethod), "threshold", "method")
    limit = check_real(thresh_value, "threshold", "thresh_value")
    gray = pixels if pixels.shape[2] == 1 else _weighted_luma(pixels)
    level = _otsu_threshold(gray) if method == "otsu" else 255 * limit
    is_inverted = check_flag(inverted, "threshold", "inverted")
    is_white = less_equal(gray, level) if is_inverted else greater(gray, level)
    return cast(is_white, int32) * 255


def _otsu_threshold(gray: Tensor) -> Tensor:
    """Return the first level from 0 to 255 with the greatest variance between classes; -1 if all pixels are equal."""
    levels = arange(256, dtype=float32, device=gray.backend)
    places = movement.reshape(cast(round(gray), int32), shape=(gray.size,))
    counts = indexing.unsorted_segment_sum(ones_like(places), places, num_segments=256)
    histogram = cast(counts, float32)
    is_below = less_equal(levels, movement.expand_dims(levels, dim=1))
    below = sum(where(is_below, histogram, 0), axis=1)
    moment_below = sum(where(is_below, histogram * levels, 0), axis=1)
    above = below[-1] - below
    moment_above = moment_below[-1] - moment_below
    weight = below * above
    is_split = greater(weight, 0)
    average_below = divide(moment_below, where(is_split, below, 1))
    average_above = divide(moment_above, where(is_split, above, 1))
    between = where(is_split, weight * (average_below - average_above) ** 2, 0)
    return where(greater(max(between), 0), cast(argmax(between), float32), -1)


def _weighted_luma(colours: Tensor) -> Tensor:
    """Return the weighted sum of red, green and blue along the last axis."""
    weights = asarray(LUMA_WEIGHTS, dtype=colours.dtype, device=colours.backend)
    return sum(colours * weights, axis=-1, keepdims=True)


def _ints_to_floats(x: Tensor, op: str) -> Tensor:
    """Convert integers to float32; floats are returned unchanged.

    Raises:
        DTypeError: they are neither.
    """
    if x.dtype.kind not in ("signed", "unsigned", "floating"):
        raise DTypeError(f"{op}: image is {x.dtype}; it must hold floats or integers")
    return x if x.dtype.kind == "floating" else cast(x, float32)


def _as_float_coordinates(x: TensorLike, op: str, argument_name: str, images: Tensor) -> Tensor:
    """Return coordinates as floats, on the backend of the images; integers become float32.

    Raises:
        DTypeError: they are neither floats nor integers.
    """
    values = as_tensor(x, op, argument_name, backend=images.backend)
    if values.dtype.kind not in ("signed", "unsigned", "floating"):
        raise DTypeError(f"{op}: {argument_name} are {values.dtype}; they must be floats")
    return values if values.dtype.kind == "floating" else cast(values, float32)


def _as_numbers(value: object, op: str, argument_name: str) -> float | tuple[float, ...]:
    """Return an argument as one number, or as a tuple of several.

    Raises:
        ArgumentError: one is not a number.
    """
    numbers = tuple(check_number(part, op, argument_name) for part in to_list(value))
    return numbers if is_sequence(value) else numbers[0]
