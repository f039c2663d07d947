"""Scans: NumPy's accumulations, with results in the dtype of the input."""

import numpy as np

from plugrad.kernels import scan
from plugrad_cpu.declare import Array, accumulation_dtype, table

FLOAT32_SCAN_MAX_ELEMENTS = 1024
"""The maximum elements of an axis along which float32 is added in single precision."""
BLOCK_ELEMENTS = 65_536
"""The number of elements added at a time, whose sums in double precision stay in the cache."""


@table.implements(scan.cumsum)
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the running sums along an axis."""
    return _scan(np.add, x, axis, exclusive, reverse)


@table.implements(scan.cumprod)
def cumprod(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the running products along an axis."""
    return _scan(np.multiply, x, axis, exclusive, reverse)


def _scan(combine: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the running results of a NumPy ufunc, such as `np.add`, along an axis."""
    if reverse:
        return np.flip(_scan(combine, np.flip(x, axis), axis, exclusive, False), axis)
    if exclusive:
        shifted = np.full_like(x, combine.identity)
        lead = (slice(None),) * axis
        shifted[(*lead, slice(1, None))] = x[(*lead, slice(None, -1))]
        x = shifted
    if combine is np.add and x.dtype.char in "efF" and x.shape[axis] > FLOAT32_SCAN_MAX_ELEMENTS:
        return _cumsum_in_float64(x, axis)
    return combine.accumulate(x, axis, dtype=accumulation_dtype(x.dtype)).astype(
        x.dtype, copy=False
    )


def _cumsum_in_float64(x: Array, axis: int) -> Array:
    """Return the running sums along a long axis, added in double precision: a float32 sum of ones stops at 2^24."""
    sums = np.empty_like(x)
    wide = np.result_type(x.dtype, np.float64)
    lead = (slice(None),) * axis
    step = max(64, x.shape[axis] * BLOCK_ELEMENTS // max(x.size, 1))
    total = np.zeros((), wide)
    for start in range(0, x.shape[axis], step):
        part = (*lead, slice(start, start + step))
        running = np.add.accumulate(x[part], axis, dtype=wide)
        running += total
        total = running[(*lead, slice(-1, None))]
        sums[part] = running
    return sums
