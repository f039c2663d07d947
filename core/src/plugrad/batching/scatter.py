"""Batching rules of kernels that write elements at positions.

Where all examples share the positions, the hidden axis stands behind the axes that the coordinates name. Otherwise, the
number of the example is one more coordinate.
"""

from plugrad.batching.indexing import prepend_example_index
from plugrad.kernels import binary, creation, movement, scatter
from plugrad.registry.batching import Batch, move_axis, register_batching
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.specs import Shape


def _coordinate_and_batch_ranks(indices: Tensor) -> tuple[int, int]:
    """Return the number of coordinates in each row of shared indices, and the number of axes before the rows."""
    return (indices.shape[-1], indices.ndim - 1) if indices.ndim > 1 else (1, 1)


def _prepend_example_index(batch: Batch, indices: Tensor, input_position: int) -> Tensor:
    """Return coordinates with the index of the example prepended."""
    indices = batch.with_batch_axis(indices, input_position)
    if indices.ndim == 2:  # vectors of positions
        indices = movement.reshape(indices, shape=(*indices.shape, 1))
    return prepend_example_index(batch, indices)


def _scatter_nd(batch: Batch, indices: Tensor, updates: Tensor, *, shape: Shape) -> Tensor:
    n = batch.size
    if batch.is_batched[0]:
        places = _prepend_example_index(batch, indices, 0)
        return scatter.scatter_nd(places, batch.with_batch_axis(updates, 1), shape=(n, *shape))
    depth, places = _coordinate_and_batch_ranks(indices)
    inner = (*shape[:depth], n, *shape[depth:])
    return move_axis(
        scatter.scatter_nd(indices, move_axis(updates, 0, places), shape=inner), depth, 0
    )


def _scatter_update(batch: Batch, tensor: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    tensor, updates = batch.with_batch_axis(tensor, 0), batch.with_batch_axis(updates, 2)
    if batch.is_batched[1]:
        return scatter.tensor_scatter_update(
            tensor, _prepend_example_index(batch, indices, 1), updates
        )
    depth, places = _coordinate_and_batch_ranks(indices)
    found = scatter.tensor_scatter_update(
        move_axis(tensor, 0, depth), indices, move_axis(updates, 0, places)
    )
    return move_axis(found, depth, 0)


def _sparse_to_dense(
    batch: Batch,
    sparse_indices: Tensor,
    sparse_values: Tensor,
    default_value: Tensor,
    *,
    output_shape: Shape,
) -> Tensor | None:
    n = batch.size
    if not n:
        return None
    indices = batch.with_batch_axis(sparse_indices, 0)
    count = indices.shape[1] if indices.ndim > 1 else 1
    indices = movement.reshape(indices, shape=(n, count, len(output_shape)))
    rows = prepend_example_index(batch, indices)
    rows = movement.reshape(rows, shape=(n * count, len(output_shape) + 1))
    values = sparse_values
    if batch.is_batched[1] or values.ndim:
        values = batch.with_batch_axis(values, 1)
        values = values if values.ndim == 2 else movement.reshape(values, shape=(n, 1))
        values = movement.broadcast_to(values, shape=(n, count))
        values = movement.reshape(values, shape=(n * count,))
    shape = (n, *output_shape)
    if not batch.is_batched[2]:
        return scatter.sparse_to_dense(rows, values, default_value, output_shape=shape)
    first = movement.slice(default_value, begin=(0,), size=(1,), drop=(0,))
    found = scatter.sparse_to_dense(rows, values, first, output_shape=shape)
    zero, one = (creation.fill.on(rows.backend, shape=(), value=v, dtype=int32) for v in (0, 1))
    is_given = scatter.sparse_to_dense(rows, one, zero, output_shape=shape)
    elsewhere = movement.reshape(default_value, shape=(n, *(1,) * len(output_shape)))
    return binary.select(binary.greater(is_given, zero), found, elsewhere)


register_batching(scatter.scatter_nd, _scatter_nd)
register_batching(scatter.tensor_scatter_update, _scatter_update)
register_batching(scatter.sparse_to_dense, _sparse_to_dense)
