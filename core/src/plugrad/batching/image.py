"""Batching rules of kernels that cut, flip and warp images: the hidden axis is a part of the batch of images."""

from plugrad.kernels import binary, creation, image, movement, unary
from plugrad.kernels.image import FillMode, Interpolation
from plugrad.registry.batching import (
    Batch,
    fold_batch_rule,
    merge_example_axis,
    register_batching,
    split_example_axis,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.specs import Shape
from plugrad.types.windows import Pair


def _crop_and_resize(
    batch: Batch,
    images: Tensor,
    boxes: Tensor,
    box_ind: Tensor,
    *,
    crop_size: Pair,
    method: Interpolation,
    extrapolation_value: float,
) -> Tensor:
    def crop_at_boxes(x: Tensor, boxes: Tensor, box_ind: Tensor) -> Tensor:
        return image.crop_and_resize(
            x,
            boxes,
            box_ind,
            crop_size=crop_size,
            method=method,
            extrapolation_value=extrapolation_value,
        )

    if not any(batch.is_batched[1:]):  # images of one number are channels of one image
        return split_example_axis(
            crop_at_boxes(merge_example_axis(images, -1), boxes, box_ind), batch, -1
        )
    boxes = batch.fold(boxes, 1)
    if not batch.is_batched[0]:
        return batch.unfold(crop_at_boxes(images, boxes, batch.fold(box_ind, 2)))
    numbers = _flatten_image_indices(batch, box_ind, images.shape[1])
    return batch.unfold(crop_at_boxes(batch.fold(images, 0), boxes, numbers))


def _crop_and_resize_gradient(
    batch: Batch,
    dy: Tensor,
    boxes: Tensor,
    box_ind: Tensor,
    *,
    image_shape: Shape,
    method: Interpolation,
) -> Tensor:
    def gradient_of_images(
        dy: Tensor, boxes: Tensor, box_ind: Tensor, folded_shape: Shape
    ) -> Tensor:
        return image.crop_and_resize_image_gradient(
            dy, boxes, box_ind, image_shape=folded_shape, method=method
        )

    n = batch.size
    if not any(batch.is_batched[1:]):
        shape = (*image_shape[:-1], n * image_shape[-1])
        return split_example_axis(
            gradient_of_images(merge_example_axis(dy, -1), boxes, box_ind, shape), batch, -1
        )
    shape = (n * image_shape[0], *image_shape[1:])
    numbers = _flatten_image_indices(batch, box_ind, image_shape[0])
    return batch.unfold(gradient_of_images(batch.fold(dy, 0), batch.fold(boxes, 1), numbers, shape))


def _flatten_image_indices(batch: Batch, box_ind: Tensor, image_count: int) -> Tensor:
    """Return the image index of each box among the images of all examples together.

    A number without an image stays one.
    """
    found = unary.cast(batch.with_batch_axis(box_ind, 2), dtype=int32)
    count, zero, nowhere = (
        creation.fill.on(found.backend, shape=(), value=value, dtype=int32)
        for value in (image_count, 0, batch.size * image_count)
    )
    found = binary.select(binary.less(found, zero), binary.add(found, count), found)
    is_image = binary.logical_and(binary.greater_equal(found, zero), binary.less(found, count))
    begin = binary.multiply(batch.positions(found, found.shape), count)
    numbers = binary.select(is_image, binary.add(found, begin), nowhere)
    return movement.reshape(numbers, shape=(numbers.shape[0] * numbers.shape[1],))


def _one_transform_per_image(batch: Batch, transforms: Tensor, image_count: int) -> Tensor:
    """Return one transform for each image of all examples."""
    if not batch.is_batched[1] and transforms.shape[0] == 1:
        return transforms
    spread = batch.with_batch_axis(transforms, 1)
    spread = movement.broadcast_to(spread, shape=(batch.size, image_count, 8))
    return movement.reshape(spread, shape=(batch.size * image_count, 8))


def _transform(
    batch: Batch,
    images: Tensor,
    transforms: Tensor,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: float | tuple[float, ...],
    output_shape: Pair,
) -> Tensor:
    spread = batch.with_batch_axis(images, 0)
    y = image.transform(
        batch.fold(images, 0),
        _one_transform_per_image(batch, transforms, spread.shape[1]),
        interpolation=interpolation,
        fill_mode=fill_mode,
        fill_value=fill_value,
        output_shape=output_shape,
    )
    return batch.unfold(y)


def _transform_gradient(
    batch: Batch,
    dy: Tensor,
    transforms: Tensor,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> Tensor:
    dx = image.transform_image_gradient(
        batch.fold(dy, 0),
        _one_transform_per_image(batch, transforms, image_shape[0]),
        image_shape=(batch.size * image_shape[0], *image_shape[1:]),
        interpolation=interpolation,
        fill_mode=fill_mode,
    )
    return batch.unfold(dx)


register_batching(image.crop_and_resize, _crop_and_resize)
register_batching(image.crop_and_resize_image_gradient, _crop_and_resize_gradient)
register_batching(image.flip_left_right, fold_batch_rule())
register_batching(image.rotate_with_offset, fold_batch_rule())
register_batching(image.rotate_with_offset_gradient, fold_batch_rule())
register_batching(image.transform, _transform)
register_batching(image.transform_image_gradient, _transform_gradient)
