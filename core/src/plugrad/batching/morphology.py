"""Batching rules of grayscale morphology: the hidden axis is a part of the batch, or else of the channels."""

from plugrad.kernels import morphology
from plugrad.registry.batching import (
    Batch,
    merge_example_axis,
    register_batching,
    split_example_axis,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.windows import Window


def _dilate(batch: Batch, x: Tensor, filter: Tensor, *, window: Window) -> Tensor:
    if not batch.is_batched[1]:
        return batch.unfold(morphology.dilation2d(batch.fold(x, 0), filter, window=window))
    x, filter = (
        merge_example_axis(batch.with_batch_axis(y, i), -1) for i, y in enumerate((x, filter))
    )
    return split_example_axis(morphology.dilation2d(x, filter, window=window), batch, -1)


def _input_gradient(
    batch: Batch, x: Tensor, filter: Tensor, dy: Tensor, *, window: Window
) -> Tensor:
    if not batch.is_batched[1]:
        x, dy = batch.fold(x, 0), batch.fold(dy, 2)
        return batch.unfold(morphology.dilation2d_input_gradient(x, filter, dy, window=window))
    return _merge_into_channels(batch, x, filter, dy, window)


def _merge_into_channels(
    batch: Batch, x: Tensor, filter: Tensor, dy: Tensor, window: Window
) -> Tensor:
    inputs = [
        merge_example_axis(batch.with_batch_axis(y, i), -1) for i, y in enumerate((x, filter, dy))
    ]
    return split_example_axis(batch.kernel(*inputs, window=window), batch, -1)


def _filter_gradient(
    batch: Batch, x: Tensor, filter: Tensor, dy: Tensor, *, window: Window
) -> Tensor:
    return _merge_into_channels(batch, x, filter, dy, window)


register_batching(morphology.dilation2d, _dilate)
register_batching(morphology.dilation2d_input_gradient, _input_gradient)
register_batching(morphology.dilation2d_filter_gradient, _filter_gradient)
