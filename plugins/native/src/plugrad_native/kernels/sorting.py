"""The largest elements of rows: a selection by the first bits of the elements, and a radix sort of what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.kernels import sorting
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    INT32,
    INTEGERS,
    MAX_ELEMENTS,
    UINT64,
    as_contiguous,
    exports,
    table,
)

if TYPE_CHECKING:
    from plugrad_native.declare import Array

ARGSORT = exports("argsort", "float16", "float32", "float64", *INTEGERS)

numpy_top_k: Final = numpy_implementation(sorting.top_k)


@table.implements(sorting.top_k)
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the largest elements along the last axis and their positions."""
    run = ARGSORT.get(x.dtype)
    if run is None or k < 2 or not 0 < x.size < MAX_ELEMENTS:  # NumPy's argmax is fast
        return numpy_top_k(x, k=k, sorted=sorted)
    count = x.shape[-1]
    places = empty((*x.shape[:-1], k), INT32)
    run(
        as_contiguous(x),
        places,
        x.size // count,
        count,
        k,
        True,
        sorted,
        empty((2 * count,), UINT64),
    )
    if x.ndim == 1:
        return x.take(places), places
    return np.take_along_axis(x, places, -1), places
