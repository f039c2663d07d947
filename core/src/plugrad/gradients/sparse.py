"""Gradients of the sparse kernels: dy goes back to the entries and rows from which the result was made."""

from collections.abc import Sequence

from plugrad.kernels import creation, indexing, sparse
from plugrad.ops.binary import equal, maximum, where
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.specs import Spec


def _default_gradient(dy: Sequence[Tensor], outs: Sequence[Tensor]) -> Tensor:
    """Return dy of the added entries, and 0 for the original ones; the tape sums it."""
    places = outs[3]
    owners = indexing.unsorted_segment_sum(
        creation.ones_like(places), places, num_segments=outs[1].size
    )
    return where(equal(owners, 0), dy[1], 0)


def _segment_sum_gradient(
    dy: Tensor, data_spec: Spec, indices: Tensor, segment_ids: Tensor
) -> Tensor:
    """Return, for each row, the sum of dy over the segments in which it is listed."""
    count = data_spec.shape[0]
    rows = where(indices < 0, indices + count, indices)
    return indexing.unsorted_segment_sum(
        indexing.gather(dy, segment_ids, axis=0), rows, num_segments=count
    )


def _segment_mean_gradient(
    dy: Tensor, data_spec: Spec, indices: Tensor, segment_ids: Tensor
) -> Tensor:
    """Return, for each row, the sum of dy divided by the size of the segment, over its segments."""
    ones = creation.ones_like(indexing.gather(dy, segment_ids, axis=0))
    counts = indexing.unsorted_segment_sum(ones, segment_ids, num_segments=dy.shape[0])
    return _segment_sum_gradient(dy / maximum(counts, 1), data_spec, indices, segment_ids)


gradient(
    sparse.sparse_fill_empty_rows,
    values=lambda dy, outs: indexing.gather(dy[1], outs[3], axis=0),
    default_value=_default_gradient,
)
gradient(sparse.sparse_segment_sum, data=_segment_sum_gradient)
gradient(sparse.sparse_segment_mean, data=_segment_mean_gradient)

not_differentiable(sparse.sparse_reshape, because="coordinates are integers")
