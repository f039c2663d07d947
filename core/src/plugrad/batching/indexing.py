"""Batching rules of kernels that select elements by position: batched positions are batched gathers."""

from plugrad.kernels import binary, creation, indexing, movement, unary
from plugrad.registry.batching import Batch, move_axis, register_batching, run_with_leading_axis
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32, int64
from plugrad.types.specs import Shape


def _gather(batch: Batch, x: Tensor, indices: Tensor, *, axis: int, batch_dims: int) -> Tensor:
    of_x, of_indices = batch.is_batched
    if batch_dims == 0 and not of_indices:
        return indexing.gather(x, indices, axis=axis + 1)
    if batch_dims == 0 and not of_x:
        return move_axis(indexing.gather(x, indices, axis=axis), axis, 0)
    return indexing.gather(
        batch.with_batch_axis(x, 0),
        batch.with_batch_axis(indices, 1),
        axis=axis + 1,
        batch_dims=batch_dims + 1,
    )


def _gather_gradient(
    batch: Batch, dy: Tensor, indices: Tensor, *, shape: Shape, axis: int, batch_dims: int
) -> Tensor:
    is_shared = batch_dims == 0 and not batch.is_batched[1]
    return indexing.gather_gradient(
        batch.with_batch_axis(dy, 0),
        indices if is_shared else batch.with_batch_axis(indices, 1),
        shape=(batch.size, *shape),
        axis=axis + 1,
        batch_dims=0 if is_shared else batch_dims + 1,
    )


def _gather_nd(batch: Batch, params: Tensor, indices: Tensor) -> Tensor:
    of_params, of_indices = batch.is_batched
    if not of_params:
        return indexing.gather_nd(params, indices)
    if not of_indices:  # the hidden axis stands behind those that the coordinates name
        found = indexing.gather_nd(move_axis(params, 0, indices.shape[-1]), indices)
        return move_axis(found, indices.ndim - 1, 0)
    return indexing.gather_nd(params, prepend_example_index(batch, indices))


def prepend_example_index(batch: Batch, indices: Tensor) -> Tensor:
    """Prepend the index of the example to coordinates of shape (n, …, K)."""
    if indices.dtype not in (int32, int64):  # a smaller one may not hold the number
        indices = unary.cast(indices, dtype=int32)
    numbers = batch.positions(indices, (*indices.shape[:-1], 1), indices.dtype)
    return movement.concat(numbers, indices, axis=indices.ndim - 1)


def _segment_sum(batch: Batch, x: Tensor, segment_ids: Tensor, *, num_segments: int) -> Tensor:
    if not batch.is_batched[1]:
        x = move_axis(x, 0, segment_ids.ndim)
        found = indexing.unsorted_segment_sum(x, segment_ids, num_segments=num_segments)
        return move_axis(found, 1, 0)
    ids = unary.cast(segment_ids, dtype=int32)
    count, zero, none = (
        creation.fill.on(ids.backend, shape=(), value=value, dtype=int32)
        for value in (num_segments, 0, -1)
    )
    is_counted = binary.logical_and(binary.greater_equal(ids, zero), binary.less(ids, count))
    begin = binary.multiply(batch.positions(ids, ids.shape), count)
    found = indexing.unsorted_segment_sum(
        batch.with_batch_axis(x, 0),
        binary.select(is_counted, binary.add(ids, begin), none),
        num_segments=batch.size * num_segments,
    )
    return movement.reshape(found, shape=(batch.size, num_segments, *found.shape[1:]))


register_batching(indexing.gather, _gather)
register_batching(indexing.gather_gradient, _gather_gradient)
register_batching(indexing.gather_nd, _gather_nd)
register_batching(indexing.one_hot, run_with_leading_axis)
register_batching(indexing.unsorted_segment_sum, _segment_sum)
