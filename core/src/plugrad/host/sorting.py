"""Sorting and searching with NumPy."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import sorting
from plugrad.kernels.sorting import Side
from plugrad.types.dtype import position_dtype

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Return the elements sorted along an axis."""
    y = _sort_by_counts(x)
    if y is None:
        is_for_radix = x.dtype.itemsize == 1 and x.shape[axis] >= RADIX_SORT_MIN_ELEMENTS
        kind = "stable" if is_for_radix else None
        y = _as_sortable(x)
        y = y.copy("K") if y is x else y  # NumPy's function takes twice as long for a few elements
        y.sort(axis, kind)
        y = y if y.dtype is x.dtype else y.astype(x.dtype)
    return np.flip(y, axis) if descending else y


RADIX_SORT_MIN_ELEMENTS: Final = 64
"""How many elements of one byte an axis must have for NumPy's radix sort to be faster than its default sort."""
COUNTING_SORT_MIN_ELEMENTS: Final = 4096
"""How many integers an array must have for counting each value to be faster than comparisons."""


def _sort_by_counts(x: Array) -> Array | None:
    """Return a vector of integers sorted by counting each value, or None if it is short or its range is wide."""
    if x.ndim != 1 or x.dtype.kind not in "iu" or x.size < COUNTING_SORT_MIN_ELEMENTS:
        return None
    least = x.min()
    if int(x.max()) - int(least) >= x.size:
        return None
    distances = (x - least).view(f"u{x.dtype.itemsize}")  # a signed difference may wrap
    counts = np.bincount(distances.astype(np.intp))
    return np.repeat(least + np.arange(counts.size).astype(x.dtype), counts)


def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """Return the indices that sort the elements along an axis."""
    dtype = position_dtype(x.shape[axis]).numpy
    return _argsort_axis(_as_sortable(x), axis, descending, stable).astype(dtype)


def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the k largest elements of the last axis and their indices."""
    places = _positions_of_largest(x, k)
    values = np.take_along_axis(x, places, -1)
    if sorted:
        order = _argsort_axis(_as_sortable(values), -1, descending=True, stable=True)
        values, places = (np.take_along_axis(part, order, -1) for part in (values, places))
    return values, places.astype(position_dtype(x.shape[-1]).numpy)


def _positions_of_largest(x: Array, k: int) -> Array:
    """Return the indices of the k largest elements in the order of x; of equal elements, the first.

    The k-th largest element comes from a partition: sorting all elements takes five times as long.
    """
    if k == 0:
        return np.zeros((*x.shape[:-1], 0), np.intp)
    if k == 1:
        return np.argmax(x, -1, keepdims=True)
    x = _as_sortable(x)
    least = np.partition(x, x.shape[-1] - k, -1)[..., x.shape[-1] - k, None]
    larger, equal = x > least, x == least
    if x.dtype.kind == "f":
        larger |= np.isnan(x) & ~np.isnan(least)
        equal |= np.isnan(x) & np.isnan(least)
    room = k - larger.sum(-1, keepdims=True)
    if (equal.sum(-1, keepdims=True) > room).any():
        equal &= equal.cumsum(-1) <= room
    return np.nonzero(larger | equal)[-1].reshape(*x.shape[:-1], k)


def _as_sortable(x: Array) -> Array:
    """Cast float16 to float32, because NumPy misplaces float16 NaN and infinities on some processors."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _argsort_axis(x: Array, axis: int, descending: bool, stable: bool) -> Array:
    """Return the indices that sort along an axis; ties keep their order if `stable`."""
    if descending:
        # Reversed before and after, so that equal elements keep their order.
        order = _argsort_axis(np.flip(x, axis), axis, False, stable)
        return x.shape[axis] - 1 - np.flip(order, axis)
    return np.argsort(x, axis, kind="stable" if stable else None)


def search_sorted(sorted_sequence: Array, values: Array, *, side: Side) -> Array:
    """Return the indices at which to insert values."""
    return _search_rows(sorted_sequence, values, side)


def lower_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the indices at which to insert values before equal elements."""
    return _search_rows(sorted_sequence, values, "left")


def upper_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the indices at which to insert values after equal elements."""
    return _search_rows(sorted_sequence, values, "right")


def _search_rows(sorted_sequence: Array, values: Array, side: Side) -> Array:
    """Return for each value the index at which to insert it into its row of the sorted sequence."""
    *lead, length = sorted_sequence.shape
    sequences = sorted_sequence.reshape(math.prod(lead), length)
    rows = values.reshape(math.prod(lead), values.shape[-1])
    positions = [np.searchsorted(s, row, side) for s, row in zip(sequences, rows, strict=True)]
    return np.array(positions, position_dtype(length + 1).numpy).reshape(values.shape)


def unique(x: Array, *, axis: int) -> tuple[Array, Array]:
    """Return the unique slices; elements are compared by value, so that NaN equals NaN, and -0.0 equals 0.0."""
    axis %= x.ndim
    count = x.shape[axis]
    slices = np.moveaxis(_as_sortable(x), axis, 0).reshape(
        count, math.prod(x.shape[:axis] + x.shape[axis + 1 :])
    )
    if slices.shape[1] == 1:
        _, first, which = np.unique(slices, return_index=True, return_inverse=True)
    else:
        _, numbers = np.unique(slices, return_inverse=True)
        _, first, which = np.unique(
            numbers.reshape(slices.shape), axis=0, return_index=True, return_inverse=True
        )
    order = np.argsort(first)
    rank = np.argsort(order)
    return np.take(x, first[order], axis), rank[which.reshape(-1)].astype(
        position_dtype(count).numpy
    )


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    sorting.sort: sort,
    sorting.argsort: argsort,
    sorting.top_k: top_k,
    sorting.search_sorted: search_sorted,
    sorting.lower_bound: lower_bound,
    sorting.upper_bound: upper_bound,
    sorting.unique: unique,
}
"""By kernel, the NumPy function that computes it."""
