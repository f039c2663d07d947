"""Gradients of the indexing kernels; positions have none."""

from plugrad.kernels import creation, indexing, movement, scatter
from plugrad.ops.arguments import cast
from plugrad.ops.binary import clip, greater_equal, less, logical_and, where
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.shapes import size_of
from plugrad.types.specs import Spec


def _collected(dy: Tensor, indices: Tensor, x_spec: Spec, axis: int, batch_dims: int) -> Tensor:
    """Return, for each position of x, the sum of the parts of dy that were taken from it.

    In x as (batch, before, size, after), each of the batches has `size` segments, whose sums are
    these.
    """
    shape = x_spec.shape
    batch = size_of(shape[:batch_dims])
    before = size_of(shape[batch_dims:axis])
    size = shape[axis]
    after = size_of(shape[axis + 1 :])
    count = size_of(indices.shape[batch_dims:])
    rows = movement.reshape(dy, shape=(batch, before, count, after))
    rows = movement.reshape(
        movement.transpose(rows, perm=(0, 2, 1, 3)), shape=(batch * count, before, after)
    )
    ids = movement.reshape(_from_the_front(indices, size), shape=(batch, count))
    if batch > 1:
        step = max(size, 1)
        attrs = {"start": 0, "stop": batch * step, "step": step, "dtype": int32}
        starts = creation.range.on(indices.backend, **attrs)
        is_inside = logical_and(greater_equal(ids, 0), less(ids, size))
        ids = where(is_inside, ids + movement.reshape(starts, shape=(batch, 1)), -1)
    sums = indexing.unsorted_segment_sum(
        rows, movement.reshape(ids, shape=(batch * count,)), num_segments=batch * size
    )
    sums = movement.reshape(sums, shape=(batch, size, before, after))
    return movement.reshape(movement.transpose(sums, perm=(0, 2, 1, 3)), shape=shape)


def _from_the_front(indices: Tensor, size: int) -> Tensor:
    """Return positions with the negative ones, which count from the end, counted from the front."""
    indices = cast(indices, int32)
    return where(less(indices, 0), indices + size, indices)


def _handed_out(dy: Tensor, segment_ids: Tensor, x_spec: Spec, num_segments: int) -> Tensor:
    """Return, for each element of x, the part of dy for its segment; 0 for elements that were dropped."""
    if num_segments == 0:
        return creation.fill.on(dy.backend, shape=x_spec.shape, value=0, dtype=x_spec.dtype)
    parts = indexing.gather(dy, clip(segment_ids, 0, num_segments - 1), axis=0)
    is_used = logical_and(greater_equal(segment_ids, 0), less(segment_ids, num_segments))
    mask = movement.reshape(
        is_used, shape=is_used.shape + (1,) * (len(x_spec.shape) - is_used.ndim)
    )
    return where(mask, parts, 0)


def _added_up(dy: Tensor, indices: Tensor, params_spec: Spec) -> Tensor:
    """Return zeros to which each part of dy is added where it was taken from."""
    depth, count = indices.shape[-1], size_of(indices.shape[:-1])
    return scatter.scatter_nd(
        movement.reshape(indices, shape=(count, depth)),
        movement.reshape(dy, shape=(count, *params_spec.shape[depth:])),
        shape=params_spec.shape,
    )


gradient(indexing.gather, x=_collected)
gradient(indexing.unsorted_segment_sum, x=_handed_out)
gradient(indexing.gather_nd, params=_added_up)

not_differentiable(indexing.one_hot, because="positions are integers")
not_differentiable(indexing.where_true, because="it returns positions")
