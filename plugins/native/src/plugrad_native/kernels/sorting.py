"""The largest elements of rows: a selection by the first bits of the elements, and a radix sort of what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.kernels import sorting
from plugrad_native.declare import LIMIT, dense, exports, in_numpy, table

if TYPE_CHECKING:
    from plugrad_native.declare import Array

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ARGSORT = exports("argsort", "float16", "float32", "float64", *INTEGERS)

numpy_top_k = in_numpy(sorting.top_k)


@table.implements(sorting.top_k)
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the largest elements along the last axis and their positions."""
    run = ARGSORT.get(x.dtype)
    if run is None or k == 0 or not 0 < x.size < LIMIT:
        return numpy_top_k(x, k=k, sorted=sorted)
    count = x.shape[-1]
    places = np.empty((*x.shape[:-1], k), np.int32)
    run(dense(x), places, x.size // count, count, k, True, sorted, np.empty(2 * count, np.uint64))
    return np.take_along_axis(x, places, -1), places
