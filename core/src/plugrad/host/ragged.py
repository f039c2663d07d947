"""Ragged tensors: the concatenated values of all rows, and splits, which say where rows begin."""

import math
from sys import maxsize
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError, OutOfMemory, ShapeError, TensorIndexError
from plugrad.host import format_values
from plugrad.kernels import ragged

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
MAX_RAGGED_VALUES = 2**31 - 1  # the largest int32 split
"""The most values that the result of `ragged_range` may have."""


def ragged_range(starts: Array, limits: Array, deltas: Array) -> tuple[Array, Array]:
    """Return the splits and the values of a range in each row.

    Raises:
        ArgumentValueError: a delta is 0, or a range is infinite or has too many values.
    """
    if not deltas.all():
        raise ArgumentValueError(f"RaggedRange: deltas={format_values(deltas)} must not be 0")
    exact = np.float64 if starts.dtype.kind == "f" else np.int64
    first, last, step = np.broadcast_arrays(
        *(np.atleast_1d(x).astype(exact) for x in (starts, limits, deltas))
    )
    with np.errstate(all="ignore"):
        is_float = exact is np.float64
        sizes = np.ceil((last - first) / step) if is_float else -((first - last) // step)
    sizes = np.maximum(sizes, 0)
    # As floats, because the sum of a few sizes may exceed int64.
    if not sizes.sum(dtype=np.float64) <= MAX_RAGGED_VALUES:
        raise ArgumentValueError(
            f"RaggedRange: the ranges from {format_values(starts)} to {format_values(limits)} by "
            f"{format_values(deltas)} have more than {MAX_RAGGED_VALUES} values"
        )
    lengths = sizes.astype(np.int64)
    splits = _splits_from_lengths(lengths)
    steps: Array = np.arange(int(splits[-1])) - np.repeat(splits[:-1], lengths)
    values: Array = np.repeat(first, lengths) + steps * np.repeat(step, lengths)
    return splits.astype(np.int32), values.astype(starts.dtype)


def ragged_gather(
    params_dense_values: Array,
    indices: Array,
    *params_nested_splits: Array,
    output_ragged_rank: int,
) -> tuple[Array, ...]:
    """Return the splits and the values of the rows at `indices`.

    Raises:
        ArgumentValueError: splits decrease, or are out of range for the values or rows that they split.
        TensorIndexError: an index is out of range.
    """
    params_nested_splits = tuple(splits.astype(np.int64) for splits in params_nested_splits)
    counts = [max(0, len(splits) - 1) for splits in params_nested_splits[1:]]
    for splits, count in zip(
        params_nested_splits, [*counts, len(params_dense_values)], strict=True
    ):
        _check_splits("RaggedGather", splits, count)
    rows = len(params_nested_splits[0]) - 1
    places = indices.reshape(-1).astype(np.int64)
    wrong = (places < 0) | (places >= rows)
    if wrong.any():
        worst = int(wrong.argmax())
        raise TensorIndexError(
            f"RaggedGather: index {places[worst]} at position {worst} is not in [0, {rows}), the range of the rows"
        )
    found: list[Array] = [
        np.arange(math.prod(indices.shape[:axis]) + 1) * indices.shape[axis]
        for axis in range(1, indices.ndim)
    ]
    for splits in params_nested_splits:
        begins, ends = splits[places], splits[places + 1]
        lengths = ends - begins
        found.append(_splits_from_lengths(lengths))
        places = np.arange(int(found[-1][-1])) + np.repeat(begins - found[-1][:-1], lengths)
    if not indices.ndim:
        del found[0]  # the splits of the one row
    return *[splits.astype(np.int32) for splits in found], params_dense_values[places]


def ragged_tensor_to_tensor(
    shape: Array,
    values: Array,
    default_value: Array,
    *row_partition_tensors: Array,
    row_partition_types: tuple[str, ...],
) -> Array:
    """Return the dense tensor with the rows of a ragged one, padded with the default value.

    Raises:
        ArgumentValueError: a partition decreases, or does not fit the rows before it.
        ShapeError: `shape` does not fit the values, or the partitions are for another number of values.
    """
    # Differences of unsigned numbers would not be negative.
    row_partition_tensors = tuple(x.astype(np.int64) for x in row_partition_tensors)
    has_count = row_partition_types[0] == "FIRST_DIM_SIZE"
    first = row_partition_tensors[0]
    rows = [int(first) if has_count else len(first) - 1]
    owners: list[Array] = []
    for kind, partition in zip(
        row_partition_types[has_count:], row_partition_tensors[has_count:], strict=True
    ):
        owners.append(_row_of_each_element(kind, partition, rows[-1]))
        rows.append(len(owners[-1]))
    if rows[-1] != len(values):
        raise ShapeError(
            f"RaggedTensorToTensor: the partitions are for {rows[-1]} values, but there are {len(values)}"
        )
    longest = [int(np.bincount(owner).max(initial=0)) for owner in owners]
    sizes = _infer_sizes(shape, [rows[0], *longest], values.shape[1:])
    flat = np.arange(rows[0])
    is_inside = flat < sizes[0]
    for owner, size in zip(owners, sizes[1:], strict=True):
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)  # in its row
        is_inside = is_inside[owner] & (place < size)
        flat = flat[owner] * size + place
    if math.prod((*sizes, *values.shape[1:], values.itemsize)) > maxsize:
        raise OutOfMemory(
            f"RaggedTensorToTensor: a result of shape={format_values(shape)} has more bytes than can be addressed"
        )
    dense = np.broadcast_to(default_value, (math.prod(sizes), *values.shape[1:])).copy()
    dense[flat[is_inside]] = values[is_inside]
    return dense.reshape(*sizes, *values.shape[1:])


def _row_of_each_element(partition_type: str, partition: Array, row_count: int) -> Array:
    """Return the row index of each element, in ascending order."""
    if partition_type == "ROW_SPLITS":
        _check_splits("RaggedTensorToTensor", partition, None)
        if len(partition) != row_count + 1 or partition[0]:
            raise ArgumentValueError(
                f"RaggedTensorToTensor: the splits {format_values(partition)} must begin with 0, "
                "and there must be one more "
                f"than the {row_count} rows before them"
            )
        return np.repeat(np.arange(row_count), np.diff(partition))
    owners = partition.astype(np.intp)
    if owners.size and (owners[0] < 0 or owners[-1] >= row_count or (np.diff(owners) < 0).any()):
        raise ArgumentValueError(
            f"RaggedTensorToTensor: the row ids {format_values(partition)} must be in [0, "
            f"{row_count}), the range of the rows "
            "before them, and not decrease"
        )
    return owners


def _infer_sizes(
    shape: Array, ragged_sizes: list[int], element_shape: tuple[int, ...]
) -> list[int]:
    """Return the sizes of the ragged axes, from `ragged_sizes` where `shape` has -1."""
    wanted: list[int] = (
        shape.tolist() if shape.ndim else [int(shape)] * len((*ragged_sizes, *element_shape))
    )
    fits = all(
        n in (-1, m) for n, m in zip(wanted[len(ragged_sizes) :], element_shape, strict=True)
    )
    if not fits or min(wanted) < -1 or (not shape.ndim and wanted[0] != -1):
        raise ShapeError(
            f"RaggedTensorToTensor: shape={format_values(shape)} must be -1, or have a size or -1 for each of "
            f"{len(ragged_sizes)} axes and then {element_shape}, the shape of one value"
        )
    return [m if n < 0 else n for n, m in zip(wanted, ragged_sizes, strict=False)]


def _check_splits(kernel_name: str, splits: Array, value_count: int | None) -> None:
    """Check that splits are 0 or more, do not decrease, and do not exceed `value_count`."""
    if (
        not len(splits)
        or splits[0] < 0
        or (np.diff(splits) < 0).any()
        or (value_count is not None and splits[-1] > value_count)
    ):
        limit = (
            ""
            if value_count is None
            else f", and not exceed {value_count}, the number of elements to split"
        )
        raise ArgumentValueError(
            f"{kernel_name}: the splits {format_values(splits)} must be one or more numbers of at least 0, "
            f"not decrease{limit}"
        )


def _splits_from_lengths(lengths: Array) -> Array:
    """Return the splits of rows with these lengths: the positions where rows begin and end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    ragged.ragged_range: ragged_range,
    ragged.ragged_gather: ragged_gather,
    ragged.ragged_tensor_to_tensor: ragged_tensor_to_tensor,
}
"""By kernel, the NumPy function that computes it."""
