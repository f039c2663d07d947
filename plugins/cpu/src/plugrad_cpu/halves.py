"""bfloat16 on cpu: arrays with the dtype of `ml_dtypes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_cpu.declare import Array


def round_to_bfloat16(x: Array, dtype: DType) -> Array:
    """Return numbers of any real dtype in bfloat16, rounded once, half to even.

    NumPy's cast rounds to float32 first, which is harmless if that result is odd where it is not exact.
    """
    if x.dtype.itemsize < 4 or x.dtype == np.float32:  # float32 holds them
        return x.astype(dtype.numpy)
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        x = _round_to_odd(x)
    exact = np.asarray(x, np.float64)  # results of NumPy without axes are not arrays
    y = exact.astype(np.float32)
    bits = y.view(np.uint32)
    wide = y.astype(np.float64)
    inexact = (wide != exact) & ~np.isnan(exact)
    bits[...] = np.where(inexact, (bits - (np.abs(wide) > np.abs(exact))) | 1, bits)
    return y.astype(dtype.numpy)


def _round_to_odd(x: Array) -> Array:
    """Round large integers to 53 bits, which float64 holds; the lowest kept bit is set if any bit is cut off."""
    cut = x.dtype.type(0x7FF)
    is_large = (x >= 2**53) | ((x <= -(2**53)) if x.dtype.kind == "i" else False)
    odd = (x & ~cut) | ((x & cut) != 0).astype(x.dtype) << x.dtype.type(11)
    return np.where(is_large, odd, x)
