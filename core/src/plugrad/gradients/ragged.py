"""Gradients of the ragged kernels. Applying a kernel to the positions of values shows where each value went."""

from collections.abc import Sequence

from plugrad.kernels import creation, indexing, movement, ragged, sorting, unary
from plugrad.ops.binary import less, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.shapes import size_of
from plugrad.types.specs import Spec


def _positions(count: int, like: Tensor) -> Tensor:
    """Return the integers from 0 to ``count - 1`` on the backend of another tensor."""
    attrs = {"start": 0, "stop": count, "step": 1, "dtype": int32}
    return creation.range.on(like.backend, **attrs)


def _gathered_back(
    dy: Sequence[Tensor],
    params_dense_values_spec: Spec,
    indices: Tensor,
    params_nested_splits: Sequence[Tensor],
    output_ragged_rank: int,
) -> Tensor:
    """Return, for each value, the sum of dy over the places to which it was gathered."""
    count = params_dense_values_spec.shape[0]
    *_, places = ragged.ragged_gather(
        _positions(count, dy[-1]),
        indices,
        *params_nested_splits,
        output_ragged_rank=output_ragged_rank,
    )
    return indexing.unsorted_segment_sum(dy[-1], places, num_segments=count)


def _places(
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return the position of the value at each place of the dense tensor, and -1 in the gaps."""
    if shape.ndim:
        axes = ragged.ragged_rank(row_partition_types) + 1
        shape = movement.slice(shape, begin=(0,), size=(axes,))
    gap = creation.fill.on(shape.backend, shape=(), value=-1, dtype=int32)
    return ragged.ragged_tensor_to_tensor(
        shape,
        _positions(values_spec.shape[0], shape),
        gap,
        *row_partition_tensors,
        row_partition_types=row_partition_types,
    )


def _of_values(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return, for each value, dy at its place; 0 for values that were truncated."""
    places = _places(shape, values_spec, row_partition_tensors, row_partition_types)
    return indexing.unsorted_segment_sum(dy, places, num_segments=values_spec.shape[0])


def _of_default(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return dy in the gaps, which the tape sums to the shape of the default value."""
    places = _places(shape, values_spec, row_partition_tensors, row_partition_types)
    mask = movement.reshape(less(places, 0), shape=places.shape + (1,) * (dy.ndim - places.ndim))
    return where(mask, dy, 0)


def _rows(outs: Sequence[Tensor]) -> Tensor:
    """Return the number of the row of each value."""
    splits, values = outs
    places = _positions(size_of(values.shape), values)
    return sorting.upper_bound(splits, places) - 1


def _of_starts(dy: Sequence[Tensor], outs: Sequence[Tensor]) -> Tensor:
    """Return dy summed over each row: value k of a row is ``start + k * delta``."""
    return indexing.unsorted_segment_sum(dy[1], _rows(outs), num_segments=outs[0].size - 1)


def _of_deltas(dy: Sequence[Tensor], outs: Sequence[Tensor]) -> Tensor:
    """Return dy times the number k of the step, summed over each row."""
    rows = _rows(outs)
    steps = _positions(rows.size, rows) - indexing.gather(outs[0], rows, axis=0)
    parts = dy[1] * unary.cast(steps, dtype=dy[1].dtype)
    return indexing.unsorted_segment_sum(parts, rows, num_segments=outs[0].size - 1)


gradient(ragged.ragged_gather, params_dense_values=_gathered_back)
gradient(ragged.ragged_tensor_to_tensor, values=_of_values, default_value=_of_default)
# A limit only determines the number of values, which does not change smoothly.
gradient(ragged.ragged_range, starts=_of_starts, deltas=_of_deltas)
