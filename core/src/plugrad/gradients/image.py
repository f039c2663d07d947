"""Gradients of the image kernels.

All kernels are linear in the images. Their gradient for the images is the transpose, and the
gradient of the transpose is the kernel itself, with 0 as the fill value. Boxes and transforms move
the points that are shown. For them the interpolation is written in ops here, which can be
differentiated to any order. With the interpolation "nearest", their gradient is 0.
"""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable

from plugrad.kernels import creation, image, indexing, movement
from plugrad.kernels.image import FillMode, FillValue, Interpolation
from plugrad.ops.binary import clip, equal, greater_equal, less_equal, minimum, remainder, where
from plugrad.ops.creation import arange, asarray
from plugrad.ops.unary import astype, floor
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.gradients import vjp


def _crop_boxes_vjp(
    dy: Tensor,
    image: Tensor,
    boxes: Tensor,
    box_ind: Tensor,
    method: Interpolation,
) -> Tensor:
    """Return the gradient of crops for their boxes."""
    _, height, width, _ = image.shape
    numbers = _append_axes(box_ind)

    def crop_at_boxes(boxes: Tensor) -> Tensor:
        top, left, bottom, right = movement.unpack(boxes, axis=1)
        rows = _sample_points(top, bottom, dy.shape[1], height, axis=2)
        columns = _sample_points(left, right, dy.shape[2], width, axis=1)
        is_inside = (
            greater_equal(rows, 0)
            & less_equal(rows, height - 1)
            & greater_equal(columns, 0)
            & less_equal(columns, width - 1)
        )
        y = _interpolate_pixels(image, numbers, rows, columns, "nearest", 0)
        return where(_append_axes(is_inside, 1), y, 0)

    return _sampling_positions_vjp(crop_at_boxes, boxes, dy, method)


def _image_transforms_vjp(
    dy: Tensor,
    image: Tensor,
    transforms: Tensor,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: FillValue,
) -> Tensor:
    """Return the gradient of transformed images for their transforms."""
    numbers = _append_axes(arange(dy.shape[0], device=dy.backend))
    y = arange(dy.shape[1], dtype=transforms.dtype, device=dy.backend).reshape(-1, 1)
    x = arange(dy.shape[2], dtype=transforms.dtype, device=dy.backend)

    def transform_images(transforms: Tensor) -> Tensor:
        a, b, c, d, e, f, g, h = map(_append_axes, movement.unpack(transforms, axis=1))
        depth = g * x + h * y + 1
        is_known = ~equal(depth, 0)
        depth = where(is_known, depth, 1)
        rows, columns = (d * x + e * y + f) / depth, (a * x + b * y + c) / depth
        shown = _interpolate_pixels(image, numbers, rows, columns, fill_mode, fill_value)
        return where(_append_axes(is_known, 1), shown, 0)

    return _sampling_positions_vjp(transform_images, transforms, dy, interpolation)


def _sampling_positions_vjp(
    sample: Callable[[Tensor], Tensor],
    boxes_or_transforms: Tensor,
    dy: Tensor,
    interpolation: Interpolation,
) -> Tensor:
    """Return the gradient of the sampling function `sample` for its argument, the boxes or transforms."""
    if interpolation == "nearest":
        return creation.zeros_like(boxes_or_transforms)
    _, pull = vjp(lambda numbers: astype(sample(numbers), dy.dtype), boxes_or_transforms)
    return pull(dy)[0]


def _sample_points(
    start_fraction: Tensor, end_fraction: Tensor, point_count: int, axis_length: int, axis: int
) -> Tensor:
    """Return evenly spaced points between two fractions of an axis; a single point is in the middle."""
    steps = [i / (point_count - 1) for i in range(point_count)] if point_count > 1 else [0.5]
    shares = asarray(steps, dtype=start_fraction.dtype, device=start_fraction.backend)
    points = (
        _append_axes(start_fraction, 1) * (1 - shares) + _append_axes(end_fraction, 1) * shares
    ) * (axis_length - 1)
    return movement.expand_dims(points, dim=axis)


def _interpolate_pixels(
    image: Tensor,
    image_indices: Tensor,
    rows: Tensor,
    columns: Tensor,
    fill_mode: FillMode,
    fill_value: FillValue,
) -> Tensor:
    """Return the values at points (rows, columns) of the images at some indices, interpolated between four pixels."""
    count, height, width, channels = image.shape
    pixels = movement.reshape(image, shape=(count * height * width, channels))
    filling = asarray(fill_value, dtype=image.dtype, device=image.backend)

    def pixel(row: Tensor, column: Tensor) -> Tensor:
        """Return the pixels at integer rows and columns, according to the fill mode beyond the borders."""
        inner_row, inner_column = (
            _extend_positions(row, height, fill_mode),
            _extend_positions(column, width, fill_mode),
        )
        places = (image_indices * height + astype(inner_row, "int32")) * width + astype(
            inner_column, "int32"
        )
        values = indexing.gather(pixels, places, axis=0)
        if fill_mode != "constant":
            return values
        is_inside = equal(row, inner_row) & equal(column, inner_column)
        return where(_append_axes(is_inside, 1), values, filling)

    top, left = floor(rows), floor(columns)
    down, right = _append_axes(rows - top, 1), _append_axes(columns - left, 1)
    upper = pixel(top, left) * (1 - right) + pixel(top, left + 1) * right
    lower = pixel(top + 1, left) * (1 - right) + pixel(top + 1, left + 1) * right
    return upper * (1 - down) + lower * down


def _extend_positions(positions: Tensor, length: int, fill_mode: FillMode) -> Tensor:
    """Map places beyond an axis to positions from 0 to length - 1, according to the fill mode."""
    if fill_mode == "wrap":
        positions = remainder(positions, length)
    elif fill_mode == "reflect":
        positions = remainder(positions, 2 * length)
        positions = minimum(positions, 2 * length - 1 - positions)
    return clip(positions, 0, length - 1)


def _append_axes(x: Tensor, axis_count: int = 2) -> Tensor:
    """Append `axis_count` axes of size 1 to x."""
    return movement.reshape(x, shape=(*x.shape, *[1] * axis_count))


gradient(
    image.crop_and_resize,
    image=lambda dy, boxes, box_ind, image_spec, method: image.crop_and_resize_image_gradient(
        dy, boxes, box_ind, image_shape=image_spec.shape, method=method
    ),
    boxes=_crop_boxes_vjp,
)
gradient(
    image.crop_and_resize_image_gradient,
    dy=lambda dy, boxes, box_ind, dy_spec, method: image.crop_and_resize(
        dy, boxes, box_ind, crop_size=dy_spec.shape[1:3], method=method, extrapolation_value=0
    ),
    boxes=lambda dy, dy_input, boxes, box_ind, method: _crop_boxes_vjp(
        dy_input, dy, boxes, box_ind, method
    ),
)
gradient(image.flip_left_right, image=lambda dy: image.flip_left_right(dy))
gradient(
    image.rotate_with_offset,
    image=lambda dy, radians, center: image.rotate_with_offset_gradient(
        dy, radians=radians, center=center
    ),
)
gradient(
    image.rotate_with_offset_gradient,
    dy=lambda dy, radians, center: image.rotate_with_offset(
        dy, radians=radians, fill_value=0.0, center=center
    ),
)
gradient(
    image.transform,
    image=lambda dy, transforms, image_spec, interpolation, fill_mode: (
        image.transform_image_gradient(
            dy,
            transforms,
            image_shape=image_spec.shape,
            interpolation=interpolation,
            fill_mode=fill_mode,
        )
    ),
    transforms=_image_transforms_vjp,
)
gradient(
    image.transform_image_gradient,
    dy=lambda dy, transforms, dy_spec, interpolation, fill_mode: image.transform(
        dy,
        transforms,
        interpolation=interpolation,
        fill_mode=fill_mode,
        fill_value=0.0,
        output_shape=dy_spec.shape[1:3],
    ),
    transforms=lambda dy, dy_input, transforms, interpolation, fill_mode: _image_transforms_vjp(
        dy_input, dy, transforms, interpolation, fill_mode, 0.0
    ),
)
