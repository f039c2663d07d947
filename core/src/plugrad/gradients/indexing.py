"""Gradients of the indexing kernels; positions have none."""

from plugrad.kernels import creation, indexing, movement, scatter
from plugrad.ops.binary import greater_equal, less, logical_and, where
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Spec


def _scatter_to_source(
    dy: Tensor, indices: Tensor, x_spec: Spec, axis: int, batch_dims: int
) -> Tensor:
    """Scatter dy back: add each part to zeros at the position that it was gathered from."""
    return indexing.gather_gradient(
        dy, indices, shape=x_spec.shape, axis=axis, batch_dims=batch_dims
    )


def _gather_by_segment(dy: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Gather, for each element of x, its segment's part of dy; 0 for dropped elements."""
    none = creation.fill.on(dy.backend, shape=(1, *dy.shape[1:]), value=0, dtype=dy.dtype)
    is_used = logical_and(greater_equal(segment_ids, 0), less(segment_ids, num_segments))
    places = where(is_used, segment_ids, num_segments)  # zeros come after the parts
    return indexing.gather(movement.concat(dy, none, axis=0), places, axis=0)


def _scatter_nd_to_source(dy: Tensor, indices: Tensor, params_spec: Spec) -> Tensor:
    """Scatter dy back: add each part to zeros at the position that it was gathered from."""
    depth, count = indices.shape[-1], count_elements(indices.shape[:-1])
    return scatter.scatter_nd(
        movement.reshape(indices, shape=(count, depth)),
        movement.reshape(dy, shape=(count, *params_spec.shape[depth:])),
        shape=params_spec.shape,
    )


gradient(indexing.gather, x=_scatter_to_source)
gradient(
    indexing.gather_gradient,
    dy=lambda dy, indices, axis, batch_dims: indexing.gather(
        dy, indices, axis=axis, batch_dims=batch_dims
    ),
)
gradient(indexing.unsorted_segment_sum, x=_gather_by_segment)
gradient(indexing.gather_nd, params=_scatter_nd_to_source)

not_differentiable(indexing.one_hot, because="positions are integers")
not_differentiable(indexing.where_true, because="it returns positions")
