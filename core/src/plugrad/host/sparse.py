"""Sparse tensors: coordinates, values and a dense shape."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError, ShapeError, TensorIndexError
from plugrad.host import format_values
from plugrad.kernels import sparse

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def sparse_fill_empty_rows(
    indices: Array, values: Array, dense_shape: Array, default_value: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the entries by row, with one for each empty row; which rows were empty; the entries' new positions.

    Raises:
        TensorIndexError: an entry is in a row that does not exist.
    """
    rows, count = indices[:, 0].astype(np.intp), int(dense_shape[0])
    wrong = (rows < 0) | (rows >= count)
    if wrong.any():
        entry = int(wrong.argmax())
        raise TensorIndexError(
            f"SparseFillEmptyRows: indices[{entry}, 0] = {rows[entry]} is not in [0, {count}), the row numbers of "
            "dense_shape"
        )
    is_empty = np.bincount(rows, minlength=count) == 0
    filled = np.zeros((int(is_empty.sum()), indices.shape[1]), indices.dtype)
    filled[:, 0] = np.flatnonzero(is_empty)
    order = np.argsort(np.concatenate([rows, filled[:, 0]]), kind="stable")
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    defaults = np.broadcast_to(default_value, (len(filled),))
    return (
        np.concatenate([indices, filled])[order].astype(np.int32),
        np.concatenate([values, defaults])[order],
        is_empty,
        places[: len(rows)],
    )


def sparse_reshape(
    input_indices: Array, input_shape: Array, new_shape: Array
) -> tuple[Array, Array]:
    """Return the coordinates in the new shape, and this shape with its -1 replaced.

    Raises:
        ShapeError: the new shape holds another number of elements, or is not a shape.
    """
    old: list[int] = input_shape.tolist()
    new: list[int] = new_shape.tolist()
    size, rest = math.prod(old), math.prod(n for n in new if n != -1)
    if new.count(-1) > 1 or any(n < -1 for n in new):
        raise ShapeError(
            f"SparseReshape: new_shape={new} must have sizes of 0 or more, and at most one -1"
        )
    if -1 in new and rest:
        new[new.index(-1)] = size // rest
    if -1 in new or math.prod(new) != size:
        raise ShapeError(
            f"SparseReshape: the {size} elements of shape {old} do not fit new_shape={new_shape.tolist()}"
        )
    flat = input_indices.astype(np.int64) @ _row_major_strides(old)
    sizes = np.maximum(np.array(new, np.int64), 1)
    return (
        (flat[:, None] // _row_major_strides(new) % sizes).astype(np.int32),
        np.array(new, np.int32),
    )


def _row_major_strides(shape: list[int]) -> Array:
    """Return, for each axis, the distance between neighbours along it in row-major order."""
    return np.array([max(1, math.prod(shape[i + 1 :])) for i in range(len(shape))], np.int64)


def sparse_segment_sum(data: Array, indices: Array, segment_ids: Array) -> Array:
    """Return the sums of the segments."""
    return _sum_segments("SparseSegmentSum", data, indices, segment_ids)


def sparse_segment_mean(data: Array, indices: Array, segment_ids: Array) -> Array:
    """Return the averages of the segments."""
    sums = _sum_segments("SparseSegmentMean", data, indices, segment_ids)
    counts = np.bincount(segment_ids.astype(np.intp), minlength=len(sums))
    counts = np.maximum(counts, 1).astype(sums.dtype)
    return sums / counts.reshape(-1, *[1] * (data.ndim - 1))


def _sum_segments(kernel_name: str, data: Array, indices: Array, segment_ids: Array) -> Array:
    """Return the sum of the selected rows of data in each segment."""
    wrong = (indices < -len(data)) | (indices >= len(data))
    if wrong.any():
        place = int(wrong.argmax())
        raise TensorIndexError(
            f"{kernel_name}: indices[{place}] = {indices[place]} is not in [{-len(data)}, {len(data)})"
        )
    if segment_ids.size and (segment_ids[0] < 0 or (segment_ids[1:] < segment_ids[:-1]).any()):
        raise ArgumentValueError(
            f"{kernel_name}: segment_ids={format_values(segment_ids)} must be 0 or more and not decrease"
        )
    segments = int(segment_ids[-1]) + 1 if segment_ids.size else 0
    sums = np.zeros((segments, *data.shape[1:]), data.dtype)
    if segments:
        used, starts = np.unique(segment_ids, return_index=True)
        sums[used] = np.add.reduceat(data[indices], starts, axis=0, dtype=data.dtype)
    return sums


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    sparse.sparse_fill_empty_rows: sparse_fill_empty_rows,
    sparse.sparse_reshape: sparse_reshape,
    sparse.sparse_segment_sum: sparse_segment_sum,
    sparse.sparse_segment_mean: sparse_segment_mean,
}
"""By kernel, the NumPy function that computes it."""
