"""Scans: NumPy's accumulations, with results in the dtype of the input."""

import numpy as np

from plugrad.kernels import scan
from plugrad_cpu.declare import Array, roomy, table


@table.implements(scan.cumsum)
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the running sums."""
    return _scanned(np.add, x, axis, exclusive, reverse)


@table.implements(scan.cumprod)
def cumprod(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the running products."""
    return _scanned(np.multiply, x, axis, exclusive, reverse)


def _scanned(combine: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    if reverse:
        return np.flip(_scanned(combine, np.flip(x, axis), axis, exclusive, False), axis)
    if exclusive:
        shifted = np.full_like(x, combine.identity)
        lead = (slice(None),) * axis
        shifted[(*lead, slice(1, None))] = x[(*lead, slice(None, -1))]
        x = shifted
    return combine.accumulate(x, axis, dtype=roomy(x.dtype)).astype(x.dtype, copy=False)
