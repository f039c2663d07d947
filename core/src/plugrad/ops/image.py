"""Functions of images: (batch, height, width, channels), or as they say. Their namespace is `plugrad.image`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, get_args

from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import image as kernels, indexing, movement
from plugrad.kernels.image import FillMode, Interpolation
from plugrad.ops.arguments import as_tensor, cast, coerced
from plugrad.ops.attributes import any_number, chosen, finite, flag, is_several, members, real
from plugrad.ops.binary import divide, greater, less_equal, where
from plugrad.ops.creation import arange, asarray, ones_like
from plugrad.ops.reduction import argmax, max, sum
from plugrad.ops.unary import round
from plugrad.types.dtype import FLOATING, REAL, float32, int32
from plugrad.types.windows import sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike

LUMA = (0.2989, 0.5870, 0.1140)
"""How bright red, green and blue are (ITU-R BT.601)."""


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike,
    crop_size: int | Sequence[int],
    method: Interpolation = "bilinear",
    extrapolation_value: float = 0,
) -> Tensor:
    """Boxes cut out of images, each brought to one size.

    >>> image = plugrad.reshape(plugrad.arange(9.0), (1, 3, 3, 1))
    >>> upper_half = [[0, 0, 0.5, 1]]
    >>> plugrad.image.crop_and_resize(image, upper_half, [0], crop_size=(3, 2))[0, :, :, 0]
    tensor([[0. , 2. ],
            [1.5, 3.5],
            [3. , 5. ]], dtype=float32)

    Args:
        image: images; whole numbers become float32.
        boxes: of shape (number, 4): (y1, x1, y2, x2) of each box, as parts of the height and width:
            0 is the middle of the first row or column, 1 the middle of the last. With y1 > y2 the
            crop is upside down, with x1 > x2 it is mirrored.
        box_ind: which image each box is in.
        crop_size: the size of the crops, one number or (height, width).
        method: "bilinear" interpolates, "nearest" takes the nearest pixel.
        extrapolation_value: what is outside the image.

    Gradients reach the images, and for "bilinear" also the boxes.

    Raises:
        ShapeError: shapes are not as above.
        DTypeError: `box_ind` are not integers.
        TensorIndexError: a `box_ind` is not the number of an image.
        ArgumentValueError: the size is not one or two positive integers, or the method is unknown.
    """
    op = "crop_and_resize"
    images = coerced(image, kernels.crop_and_resize, op, "image")
    numbers = as_tensor(box_ind, op, "box_ind", backend=images.backend)
    if not numbers.dtype.is_integer:
        raise DTypeError(
            f"{op}: box_ind are {numbers.dtype}; they must be integers, as after astype('int32')"
        )
    chosen(method, get_args(Interpolation), op, "method")
    height, width = sizes_of(crop_size, 2, f"{op}: crop_size")
    return kernels.crop_and_resize(
        images,
        _as_floats(boxes, op, "boxes", images),
        cast(numbers, int32),
        crop_size=(height, width),
        method=method,
        extrapolation_value=any_number(extrapolation_value, op, "extrapolation_value"),
    )


def flip_left_right(image: TensorLike) -> Tensor:
    """Images mirrored: their columns from right to left.

    >>> plugrad.image.flip_left_right([[[[1], [2], [3]]]])[0, :, :, 0]
    tensor([[3, 2, 1]], dtype=int32)

    Raises:
        ShapeError: images have not 4 axes.
    """
    return kernels.flip_left_right(
        coerced(image, kernels.flip_left_right, "flip_left_right", "image")
    )


def grayscale_to_rgb(image: TensorLike) -> Tensor:
    """Gray images, whose last axis has size 1, with three equal channels.

    >>> plugrad.image.grayscale_to_rgb([[[7]]])
    tensor([[[7, 7, 7]]], dtype=int32)

    Raises:
        ShapeError: there are less than 2 axes, or the last has another size.
    """
    gray = as_tensor(image, "grayscale_to_rgb", "image")
    if gray.ndim < 2 or gray.shape[-1] != 1:
        raise ShapeError(
            f"grayscale_to_rgb: image must have 2 axes or more, the last of size 1; the shape is {gray.shape}"
        )
    return movement.tile(gray, reps=(*[1] * (gray.ndim - 1), 3))


def rgb_to_grayscale(image: TensorLike) -> Tensor:
    """Images of red, green and blue, along the last axis, made gray: ``0.2989 r + 0.5870 g + 0.1140 b``.

    >>> plugrad.image.rgb_to_grayscale([[[255, 255, 255], [255, 0, 0]]])[:, :, 0]
    tensor([[255,  76]], dtype=int32)

    Whole numbers are rounded. The last axis stays, with size 1.

    Raises:
        ShapeError: there are not 2 to 6 axes, or the last has another size than 3.
        DTypeError: the elements are neither floats nor whole numbers.
    """
    colours = as_tensor(image, "rgb_to_grayscale", "image")
    if not 2 <= colours.ndim <= 6 or colours.shape[-1] != 3:
        raise ShapeError(
            f"rgb_to_grayscale: image must have 2 to 6 axes, the last of size 3; the shape is {colours.shape}"
        )
    gray = _brightness(_as_reals(colours, "rgb_to_grayscale"))
    return gray if gray.dtype is colours.dtype else cast(round(gray), colours.dtype)


def rotate_with_offset(
    image: TensorLike,
    radians: float,
    fill_value: float | Sequence[float] = 0,
    center: float | Sequence[float] = 0.5,
) -> Tensor:
    """Images turned counterclockwise about a point, made of the same pixels.

    >>> image = plugrad.reshape(plugrad.arange(9.0), (1, 3, 3, 1))
    >>> plugrad.image.rotate_with_offset(image, plugrad.pi / 2)[0, :, :, 0]
    tensor([[2., 5., 8.],
            [1., 4., 7.],
            [0., 3., 6.]], dtype=float32)

    Args:
        image: images; whole numbers become float32.
        radians: the angle.
        fill_value: what comes from outside the image, one number or one for each channel.
        center: the point, as a part of the width and of the height, or (x, y): 0 is the left or
            upper edge of the image, 1 the right or lower one.

    Raises:
        ShapeError: images have not 4 axes.
        ArgumentValueError: `fill_value` or `center` have another number of numbers.
    """
    op = "rotate_with_offset"
    images = coerced(image, kernels.rotate_with_offset, op, "image")
    point = _numbers(center, op, "center")
    x_and_y = point if isinstance(point, tuple) else (point, point)
    if len(x_and_y) != 2 or not all(map(isfinite, x_and_y)):
        raise ArgumentValueError(f"{op}: center={center!r} must be one finite number, or x and y")
    return kernels.rotate_with_offset(
        images,
        radians=finite(radians, op, "radians"),
        fill_value=_numbers(fill_value, op, "fill_value"),
        center=x_and_y,
    )


def transform(
    image: TensorLike,
    transforms: TensorLike,
    interpolation: Interpolation = "nearest",
    fill_mode: FillMode = "constant",
    fill_value: float | Sequence[float] = 0,
    output_shape: int | Sequence[int] | None = None,
) -> Tensor:
    """Images moved, turned, sheared, scaled or seen from another side.

    >>> image = plugrad.reshape(plugrad.arange(4.0), (1, 1, 4, 1))
    >>> to_the_right = [[1, 0, -1, 0, 1, 0, 0, 0]]
    >>> plugrad.image.transform(image, to_the_right)[0, :, :, 0]
    tensor([[0., 0., 1., 2.]], dtype=float32)
    >>> plugrad.image.transform(image, to_the_right, fill_mode="wrap")[0, :, :, 0]
    tensor([[3., 0., 1., 2.]], dtype=float32)

    Args:
        image: images; whole numbers become float32.
        transforms: of shape (batch, 8), or (1, 8) for all images: a, b, c, d, e, f, g and h. The
            pixel in column x and row y of the result shows the point in column ``(a x + b y + c) / p``
            and row ``(d x + e y + f) / p`` of the image, where ``p = g x + h y + 1``.
        interpolation: "nearest" takes the nearest pixel, "bilinear" interpolates.
        fill_mode: how an image goes on at its border: "constant" with `fill_value`, "reflect"
            mirrored (d c b a | a b c d | d c b a), "wrap" repeated, "nearest" with its last pixel.
        fill_value: what is outside in mode "constant", and in all modes where p is 0: one number or
            one for each channel.
        output_shape: the size of the result, one number or (height, width); by default that of the
            images.

    Gradients reach the images, and for "bilinear" also the transforms.

    Raises:
        ShapeError: shapes are not as above, or images have no pixels.
        ArgumentValueError: another argument is none of these.
    """
    op = "transform"
    images = coerced(image, kernels.transform, op, "image")
    if images.ndim != 4:
        raise ShapeError(
            f"{op}: image must have shape (batch, height, width, channels), not {images.shape}"
        )
    chosen(interpolation, get_args(Interpolation), op, "interpolation")
    chosen(fill_mode, get_args(FillMode), op, "fill_mode")
    height, width = images.shape[1:3]
    if output_shape is not None:
        height, width = sizes_of(output_shape, 2, f"{op}: output_shape")
    return kernels.transform(
        images,
        _as_floats(transforms, op, "transforms", images),
        interpolation=interpolation,
        fill_mode=fill_mode,
        fill_value=_numbers(fill_value, op, "fill_value"),
        output_shape=(height, width),
    )


def threshold(
    image: TensorLike, method: str = "binary", inverted: bool = False, thresh_value: float = 0.5
) -> Tensor:
    """255 where an image is brighter than a threshold and 0 elsewhere, as int32 of shape (height, width, 1).

    >>> plugrad.image.threshold([[[10], [200]]])[:, :, 0]
    tensor([[  0, 255]], dtype=int32)
    >>> plugrad.image.threshold([[[10], [12], [60], [70]]], method="otsu")[:, :, 0]
    tensor([[  0,   0, 255, 255]], dtype=int32)

    Args:
        image: one image of shape (height, width, 1) or, in colours, (height, width, 3), with values
            from 0 to 255. Of colours the brightness counts, as in `rgb_to_grayscale`.
        method: "binary" compares with ``255 * thresh_value``; "otsu" with the level that separates
            the image into two parts whose averages differ most, each weighted with its size.
        inverted: exchange 0 and 255.
        thresh_value: the threshold for "binary", from 0 to 1.

    Otsu's method: "A threshold selection method from gray-level histograms", IEEE Transactions on
    Systems, Man, and Cybernetics 9 (1979), 62–66.

    Raises:
        ShapeError: the image has another shape.
        DTypeError: its elements are neither floats nor whole numbers.
        ArgumentValueError: the method is unknown.
    """
    pixels = _as_reals(as_tensor(image, "threshold", "image"), "threshold")
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise ShapeError(
            f"threshold: image must have shape (height, width, 1 or 3 channels), not {pixels.shape}"
        )
    chosen(method, ("binary", "otsu"), "threshold", "method")
    limit = real(thresh_value, "threshold", "thresh_value")
    gray = pixels if pixels.shape[2] == 1 else _brightness(pixels)
    level = _otsu(gray) if method == "otsu" else 255 * limit
    is_inverted = flag(inverted, "threshold", "inverted")
    is_white = less_equal(gray, level) if is_inverted else greater(gray, level)
    return cast(is_white, int32) * 255


def _otsu(gray: Tensor) -> Tensor:
    """Return the first level, from 0 to 255, that separates best; -1 if all pixels are equal."""
    levels = arange(256, dtype=float32, device=gray.backend)
    places = movement.reshape(cast(round(gray), int32), shape=(gray.size,))
    counts = indexing.unsorted_segment_sum(ones_like(places), places, num_segments=256)
    histogram = cast(counts, float32)
    is_below = less_equal(levels, movement.expand_dims(levels, dim=1))
    below = sum(where(is_below, histogram, 0), axis=1)
    moment_below = sum(where(is_below, histogram * levels, 0), axis=1)
    above, moment_above = below[-1] - below, moment_below[-1] - moment_below
    weight = below * above
    is_split = greater(weight, 0)
    averages = [
        divide(moment, where(is_split, count, 1))
        for moment, count in ((moment_below, below), (moment_above, above))
    ]
    between = where(is_split, weight * (averages[0] - averages[1]) ** 2, 0)
    return where(greater(max(between), 0), cast(argmax(between), float32), -1)


def _brightness(colours: Tensor) -> Tensor:
    """Return the weighted sum of red, green and blue along the last axis."""
    weights = asarray(LUMA, dtype=colours.dtype, device=colours.backend)
    return sum(colours * weights, axis=-1, keepdims=True)


def _as_reals(x: Tensor, op: str) -> Tensor:
    """Return whole numbers as float32, and floats as they are."""
    if x.dtype not in REAL:
        raise DTypeError(f"{op}: image is {x.dtype}; it must hold floats or whole numbers")
    return x if x.dtype in FLOATING else cast(x, float32)


def _as_floats(x: TensorLike, op: str, name: str, images: Tensor) -> Tensor:
    """Return numbers that say where, on the backend of the images; whole numbers as float32."""
    values = as_tensor(x, op, name, backend=images.backend)
    if values.dtype not in REAL:
        raise DTypeError(f"{op}: {name} are {values.dtype}; they must be floats")
    return values if values.dtype in FLOATING else cast(values, float32)


def _numbers(value: object, op: str, name: str) -> float | tuple[float, ...]:
    """Return one number, or a tuple of several."""
    numbers = tuple(any_number(part, op, name) for part in members(value))
    return numbers if is_several(value) else numbers[0]
