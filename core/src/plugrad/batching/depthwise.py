"""Batching rules of depthwise convolutions: the hidden axis is a part of the batch, or else of the channels.

No channel of the result depends on two channels of the images, so one call is enough, also if the filters are batched.
"""

from plugrad.kernels import depthwise
from plugrad.registry.batching import (
    Batch,
    merge_example_axis,
    register_batching,
    split_example_axis,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Shape
from plugrad.types.windows import Window


def _convolve(batch: Batch, x: Tensor, filter: Tensor, *, window: Window) -> Tensor:
    if not batch.is_batched[1]:
        return batch.unfold(depthwise.depthwise_conv2d(batch.fold(x, 0), filter, window=window))
    x = merge_example_axis(batch.with_batch_axis(x, 0), -1)
    return split_example_axis(
        depthwise.depthwise_conv2d(x, merge_example_axis(filter, -2), window=window), batch, -1
    )


def _input_gradient(
    batch: Batch, dy: Tensor, filter: Tensor, *, input_shape: Shape, window: Window
) -> Tensor:
    n = batch.size
    if not batch.is_batched[1]:
        shape = (n * input_shape[0], *input_shape[1:])
        dx = depthwise.depthwise_conv2d_input_gradient(
            batch.fold(dy, 0), filter, input_shape=shape, window=window
        )
        return batch.unfold(dx)
    dx = depthwise.depthwise_conv2d_input_gradient(
        merge_example_axis(batch.with_batch_axis(dy, 0), -1),
        merge_example_axis(filter, -2),
        input_shape=(*input_shape[:-1], n * input_shape[-1]),
        window=window,
    )
    return split_example_axis(dx, batch, -1)


def _filter_gradient(
    batch: Batch, x: Tensor, dy: Tensor, *, filter_shape: Shape, window: Window
) -> Tensor:
    *size, channels, multiplier = filter_shape
    found = depthwise.depthwise_conv2d_filter_gradient(
        merge_example_axis(batch.with_batch_axis(x, 0), -1),
        merge_example_axis(batch.with_batch_axis(dy, 1), -1),
        filter_shape=(*size, batch.size * channels, multiplier),
        window=window,
    )
    return split_example_axis(found, batch, -2)


register_batching(depthwise.depthwise_conv2d, _convolve)
register_batching(depthwise.depthwise_conv2d_input_gradient, _input_gradient)
register_batching(depthwise.depthwise_conv2d_filter_gradient, _filter_gradient)
