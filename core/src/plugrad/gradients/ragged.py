"""Gradients of the ragged kernels. Applying a kernel to the positions of values shows where each value went."""

from collections.abc import Sequence

from plugrad.kernels import creation, indexing, movement, ragged, sorting, unary
from plugrad.ops.binary import less, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Spec


def _arange_like(count: int, like: Tensor) -> Tensor:
    """Return the integers from 0 to ``count - 1`` on the backend of another tensor."""
    attrs = {"start": 0, "stop": count, "step": 1, "dtype": int32}
    return creation.range.on(like.backend, **attrs)


def _scatter_to_values(
    dy: Sequence[Tensor],
    params_dense_values_spec: Spec,
    indices: Tensor,
    params_nested_splits: Sequence[Tensor],
    output_ragged_rank: int,
) -> Tensor:
    """Sum for each value the elements of dy at all positions that it was gathered to."""
    count = params_dense_values_spec.shape[0]
    *_, places = ragged.ragged_gather(
        _arange_like(count, dy[-1]),
        indices,
        *params_nested_splits,
        output_ragged_rank=output_ragged_rank,
    )
    return indexing.unsorted_segment_sum(dy[-1], places, num_segments=count)


def _value_positions(
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return for each position of the dense tensor the index of its value, or -1 in the gaps."""
    if shape.ndim:
        axes = ragged.ragged_rank(row_partition_types) + 1
        shape = movement.slice(shape, begin=(0,), size=(axes,))
    gap = creation.fill.on(shape.backend, shape=(), value=-1, dtype=int32)
    return ragged.ragged_tensor_to_tensor(
        shape,
        _arange_like(values_spec.shape[0], shape),
        gap,
        *row_partition_tensors,
        row_partition_types=row_partition_types,
    )


def _values_gradient(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return for each value the element of dy at its position; 0 for truncated values."""
    places = _value_positions(shape, values_spec, row_partition_tensors, row_partition_types)
    return indexing.unsorted_segment_sum(dy, places, num_segments=values_spec.shape[0])


def _default_gradient(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Sequence[Tensor],
    row_partition_types: tuple[str, ...],
) -> Tensor:
    """Return dy at the padded positions, and 0 elsewhere."""
    places = _value_positions(shape, values_spec, row_partition_tensors, row_partition_types)
    mask = movement.reshape(less(places, 0), shape=places.shape + (1,) * (dy.ndim - places.ndim))
    return where(mask, dy, 0)


def _row_index_of_each_value(outs: Sequence[Tensor]) -> Tensor:
    """Return for each value of a ragged range the index of its row."""
    splits, values = outs
    places = _arange_like(count_elements(values.shape), values)
    return sorting.upper_bound(splits, places) - 1


def _starts_gradient(dy: Sequence[Tensor], outs: Sequence[Tensor]) -> Tensor:
    """Sum dy over each row, because value k of a row is ``start + k * delta``."""
    return indexing.unsorted_segment_sum(
        dy[1], _row_index_of_each_value(outs), num_segments=outs[0].size - 1
    )


def _deltas_gradient(dy: Sequence[Tensor], outs: Sequence[Tensor]) -> Tensor:
    """Return dy times the index k within the row, summed over each row."""
    rows = _row_index_of_each_value(outs)
    steps = _arange_like(rows.size, rows) - indexing.gather(outs[0], rows, axis=0)
    parts = dy[1] * unary.cast(steps, dtype=dy[1].dtype)
    return indexing.unsorted_segment_sum(parts, rows, num_segments=outs[0].size - 1)


gradient(ragged.ragged_gather, params_dense_values=_scatter_to_values)
gradient(ragged.ragged_tensor_to_tensor, values=_values_gradient, default_value=_default_gradient)
# A limit only determines the number of values, which does not change smoothly.
gradient(ragged.ragged_range, starts=_starts_gradient, deltas=_deltas_gradient)
