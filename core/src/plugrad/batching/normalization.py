"""Batching rules of kernels that bring elements to a common scale."""

from plugrad.kernels import binary, normalization, reduction
from plugrad.registry.batching import (
    Batch,
    insert_axes_to_rank,
    merge_example_axis,
    register_batching,
    run_with_leading_axis,
    shift_axes_rule,
    split_example_axis,
)
from plugrad.tensor.tensor import Tensor


def _batch_norm(
    batch: Batch,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    offset: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    variance_epsilon: float,
) -> Tensor:
    x = batch.with_batch_axis(x, 0)
    flags = (True, *batch.is_batched[1:])
    inputs = batch._replace(is_batched=flags).align((x, mean, variance, offset, scale))
    return batch.kernel(*inputs, variance_epsilon=variance_epsilon)


def _layer_norm(
    batch: Batch,
    x: Tensor,
    offset: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    axis: int,
    variance_epsilon: float,
) -> Tensor:
    is_own = any(batch.is_batched[1:])  # each example has a scale or an offset of its own
    given = (None, None) if is_own else (offset, scale)
    is_batched = batch.is_batched[0]
    y = normalization.layer_norm(
        x, *given, axis=axis + is_batched, variance_epsilon=variance_epsilon
    )
    if not is_own:
        return y
    flags = (is_batched, *batch.is_batched[1:])
    y, offset, scale = batch._replace(is_batched=flags).align((y, offset, scale))
    y = y if scale is None else binary.multiply(y, scale)
    return y if offset is None else binary.add(y, offset)


def _layer_norm_gradient(
    batch: Batch,
    dy: Tensor,
    x: Tensor,
    scale: Tensor | None = None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Tensor]:
    dy, x = batch.with_batch_axis(dy, 0), batch.with_batch_axis(x, 1)
    scaled = dy
    if scale is not None:
        own = insert_axes_to_rank(scale, x.ndim) if batch.is_batched[2] else scale
        scaled = binary.multiply(dy, own)
    dx, _, _ = normalization.layer_norm_gradient(
        scaled, x, axis=axis + 1, variance_epsilon=variance_epsilon
    )
    normal = normalization.layer_norm(x, axis=axis + 1, variance_epsilon=variance_epsilon)
    rows = tuple(range(1, axis + 1))
    return [
        dx,
        reduction.sum(dy, axis=rows),
        reduction.sum(binary.multiply(dy, normal), axis=rows),
    ]


def _batch_norm_training(
    batch: Batch,
    x: Tensor,
    offset: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Tensor]:
    at = axis - (x.ndim - batch.is_batched[0])  # the hidden axis becomes a part of the channels
    x = merge_example_axis(batch.with_batch_axis(x, 0), at)
    vectors = _merge_examples_into_channels(batch, (None, offset, scale))
    y, mean, variance = normalization.batch_norm_training(
        x, *vectors[1:], axis=axis, variance_epsilon=variance_epsilon
    )
    return [
        split_example_axis(y, batch, at),
        *[split_example_axis(v, batch, -1) for v in (mean, variance)],
    ]


def _batch_norm_gradient(
    batch: Batch,
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Tensor]:
    at = axis - (x.ndim - batch.is_batched[1])
    images = [merge_example_axis(batch.with_batch_axis(y, i), at) for i, y in enumerate((dy, x))]
    vectors = _merge_examples_into_channels(batch, (None, None, mean, variance, scale))
    dx, *others = batch.kernel(*images, *vectors[2:], axis=axis, variance_epsilon=variance_epsilon)
    return [split_example_axis(dx, batch, at), *[split_example_axis(v, batch, -1) for v in others]]


def _merge_examples_into_channels(
    batch: Batch, vectors: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """Return vectors with one element for each channel of each example."""
    return [
        None if v is None else merge_example_axis(batch.with_batch_axis(v, i), -1)
        for i, v in enumerate(vectors)
    ]


register_batching(normalization.softmax, shift_axes_rule("dim"))
register_batching(normalization.log_softmax, shift_axes_rule("axis"))
register_batching(normalization.batch_norm, _batch_norm)
register_batching(normalization.layer_norm, _layer_norm)
register_batching(normalization.layer_norm_gradient, _layer_norm_gradient)
register_batching(normalization.batch_norm_training, _batch_norm_training)
register_batching(normalization.batch_norm_gradient, _batch_norm_gradient)
register_batching(normalization.local_response_normalization, run_with_leading_axis)
register_batching(normalization.local_response_normalization_gradient, run_with_leading_axis)
