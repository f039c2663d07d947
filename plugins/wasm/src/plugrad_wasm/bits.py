"""Values as C functions take them: as bit patterns, if elements are only moved, or else as numbers."""

from __future__ import annotations

from ctypes import c_float
from functools import lru_cache
from math import copysign
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import INTEGER, float32, uint64
from plugrad_wasm.dtypes import as_supported_dtype
from plugrad_wasm.memory import HOST_COPY_MAX_BYTES, WasmArray, measure_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import DType, Scalar
    from plugrad_wasm.memory import LinearMemory


FILL_EXPORTS: Final = {size: f"fill_{size}" for size in (1, 2, 4, 8, 16)}
"""The export that fills arrays, by the bytes of an element."""


def spell_zeros(value: Scalar) -> str:
    """Return a key that differs between equal numbers with other signs of zeros.

    >>> spell_zeros(1.5), spell_zeros(0.0), spell_zeros(-0.0), spell_zeros(complex(1, -0.0))
    ('', '', '-0.0', '(1-0j)')
    """
    is_plain = (value and not isinstance(value, complex)) or (
        type(value) is float and copysign(1, value) > 0
    )
    return "" if is_plain else str(value)  # str takes long


@lru_cache(maxsize=1024)
def _scalar_to_int64_bits(value: Scalar, dtype: DType, spelling: str) -> tuple[int, ...]:
    """Return the bits of a number; `spelling` is that of `spell_zeros`."""
    with np.errstate(over="ignore", invalid="ignore"):
        pattern = np.asarray(value).astype(dtype)[None].view(f"u{min(dtype.itemsize, 8)}")
    return tuple(pattern.astype(np.uint64).view(np.int64).tolist())


def scalar_to_int64_bits(value: Scalar, dtype: DType) -> tuple[int, ...]:
    """Return the bits of a number as the signed 64-bit integers that a call takes: two for complex128.

    >>> from plugrad.extend import float32
    >>> scalar_to_int64_bits(1.0, float32) == (0x3F800000,)
    True
    """
    return _scalar_to_int64_bits(value, dtype, spell_zeros(value))


class FillPlan(NamedTuple):
    """How an array is filled with one value: by a copy of bytes, or else by an export."""

    dtype: DType
    """The dtype of the array."""
    size: int
    """The number of elements."""
    capacity: int
    """The bytes of the array's block."""
    nbytes: int
    """The bytes of the elements."""
    filled: bytes | None
    """The bytes of all elements of a small array, or None if an exported function fills the array."""
    export: str
    """The name of the exported function that fills a larger array."""
    bits: tuple[int, ...]
    """The bits of the value, as 64-bit integers."""


@lru_cache(maxsize=1024)
def _plan_fill(shape: tuple[int, ...], dtype: DType, value: Scalar, spelling: str) -> FillPlan:
    """Return how arrays of a shape and dtype are filled with a value; `spelling` is that of `spell_zeros`."""
    dtype = as_supported_dtype(dtype)
    size, capacity = measure_block(shape, dtype.itemsize)
    nbytes = size * dtype.itemsize
    bits = _scalar_to_int64_bits(value, dtype, spelling)
    filled = None
    if nbytes <= HOST_COPY_MAX_BYTES:
        pattern = np.array(bits, np.int64).tobytes()[: dtype.itemsize]
        filled = pattern * size
    return FillPlan(dtype, size, capacity, nbytes, filled, FILL_EXPORTS[dtype.itemsize], bits)


def fill(
    linear_memory: LinearMemory, shape: tuple[int, ...], dtype: DType, value: Scalar
) -> WasmArray:
    """Return an array in linear memory, filled with `value`.

    Raises:
        UnsupportedDtype: arrays cannot have the dtype.
    """
    plan = _plan_fill(shape, dtype, value, spell_zeros(value))
    dtype, size, capacity, nbytes, filled, export, bits = plan
    out = WasmArray(linear_memory, shape, dtype, size, capacity)
    host = linear_memory.host
    if filled is None or host is None:
        linear_memory.store.exports_holding_gil[export](out.address, size, *bits)
    else:
        host[out.address : out.address + nbytes] = filled
    return out


def round_to_float32(value: float) -> float:
    """Round a number to float32; out of range it becomes infinity.

    >>> round_to_float32(1e300), round_to_float32(0.1)
    (inf, 0.10000000149011612)
    """
    return c_float(value).value  # NumPy's takes ten times as long


def attribute_converter(dtype: DType) -> Callable[[float], float]:
    """Return a function that converts a kernel's attribute to the number that exports for a dtype take."""
    if dtype is uint64:  # beyond 2^63, its bits are those of a negative number
        return lambda value: scalar_to_int64_bits(int(value), dtype)[0]
    return int if dtype in INTEGER else round_to_float32 if dtype is float32 else float
