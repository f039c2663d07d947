"""Gradients of the sorting kernels: dy goes to the elements that were selected. Positions have none."""

from collections.abc import Mapping
from typing import Any

from plugrad.kernels import creation, indexing, movement, sorting
from plugrad.ops.indexing import take_along_axis
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Spec


def _sort_gradient(dy: Tensor, x: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    """Gradient of sort: each element of x gets dy at its sorted position."""
    axis = attrs["axis"]
    # argsort of argsort(x) gives the place of each element of x among the sorted elements.
    ranks = sorting.argsort(sorting.argsort(x, **attrs), axis=axis)
    return take_along_axis(dy, ranks, axis=axis)


def _top_k_gradient(dy: list[Tensor], outs: list[Tensor], x_spec: Spec) -> Tensor:
    """Gradient of top_k: dy scattered to the positions of the selected elements."""
    *lead, length = x_spec.shape
    rows = count_elements(tuple(lead))
    positions = movement.reshape(outs[1], shape=(rows, outs[1].shape[-1]))
    starts = movement.reshape(_arange_like(rows, positions), shape=(rows, 1)) * length
    scattered = indexing.unsorted_segment_sum(
        movement.reshape(dy[0], shape=(dy[0].size,)),
        movement.reshape(positions + starts, shape=(dy[0].size,)),
        num_segments=rows * length,
    )
    return movement.reshape(scattered, shape=x_spec.shape)


def _unique_gradient(dy: list[Tensor], outs: list[Tensor], x_spec: Spec, axis: int) -> Tensor:
    """Gradient of unique: dy of each unique slice goes to its first occurrence."""
    which = outs[1]
    order = sorting.argsort(which, axis=0)
    grouped = indexing.gather(which, order, axis=0)
    first = indexing.gather(
        order, sorting.lower_bound(grouped, _arange_like(dy[0].shape[axis], which)), axis=0
    )
    perm = (axis, *(i for i in range(dy[0].ndim) if i != axis))
    scattered = indexing.unsorted_segment_sum(
        movement.transpose(dy[0], perm=perm), first, num_segments=x_spec.shape[axis]
    )
    return movement.transpose(scattered, perm=tuple(perm.index(i) for i in range(len(perm))))


def _arange_like(n: int, like: Tensor) -> Tensor:
    """Return the integers from 0 to ``n - 1`` on the backend of another tensor."""
    return creation.range.on(like.backend, start=0, stop=n, step=1, dtype=int32)


gradient(sorting.sort, x=_sort_gradient)
gradient(sorting.top_k, x=_top_k_gradient)
gradient(sorting.unique, x=_unique_gradient)

not_differentiable(
    sorting.argsort,
    sorting.search_sorted,
    sorting.lower_bound,
    sorting.upper_bound,
    because="they return positions",
)
