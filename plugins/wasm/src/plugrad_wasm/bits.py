"""Values as the functions of C take them: as bit patterns, where elements are only moved, or as numbers."""

from __future__ import annotations

from ctypes import c_float
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import INTEGER, float32, uint64

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import DType, Scalar
    from plugrad_wasm.memory import LinearMemory, WasmArray


FILL_EXPORTS: Final = {size: f"fill_{size}" for size in (1, 2, 4, 8, 16)}
"""The exports that fill arrays whose elements have so many bytes."""


@lru_cache(maxsize=1024)
def _scalar_to_int64_bits(value: Scalar, dtype: DType, spelling: str) -> tuple[int, ...]:
    with np.errstate(over="ignore", invalid="ignore"):
        pattern = np.asarray(value).astype(dtype)[None].view(f"u{min(dtype.itemsize, 8)}")
    return tuple(pattern.astype(np.uint64).view(np.int64).tolist())


def scalar_to_int64_bits(value: Scalar, dtype: DType) -> tuple[int, ...]:
    """Return the bits of a number as the signed 64-bit integers that a call takes: two for complex128.

    >>> from plugrad.extend import float32
    >>> scalar_to_int64_bits(1.0, float32) == (0x3F800000,)
    True
    """
    # Equal keys share an entry of the cache, and -0.0 == 0.0.
    return _scalar_to_int64_bits(value, dtype, "" if value else str(value))


def fill(memory: LinearMemory, shape: tuple[int, ...], dtype: DType, value: Scalar) -> WasmArray:
    """Return an array filled with `value`."""
    out = memory.empty(shape, dtype)
    run = memory.store.exports_holding_gil[FILL_EXPORTS[dtype.itemsize]]
    run(out.address, out.size, *scalar_to_int64_bits(value, dtype))
    return out


def round_to_float32(value: float) -> float:
    """Round a number to float32; out of range it becomes infinity.

    >>> round_to_float32(1e300), round_to_float32(0.1)
    (inf, 0.10000000149011612)
    """
    return c_float(value).value  # NumPy's takes ten times as long


def attribute_converter(dtype: DType) -> Callable[[float], float]:
    """Return the function that converts an attribute to the number that exports expect for a dtype."""
    if dtype is uint64:  # beyond 2^63, its bits are those of a negative number
        return lambda value: scalar_to_int64_bits(int(value), dtype)[0]
    return int if dtype in INTEGER else round_to_float32 if dtype is float32 else float
