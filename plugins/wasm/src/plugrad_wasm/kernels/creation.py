"""Kernels that make tensors. Those without inputs get the backend as their first argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from plugrad.extend import float32, float64, int32, int64
from plugrad.kernels import creation
from plugrad_wasm.bits import fill as filled
from plugrad_wasm.declare import select_export, table
from plugrad_wasm.dtypes import as_supported_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.extend import DType, Scalar
    from plugrad_wasm.memory import LinearMemory, WasmArray


FLOAT_DTYPES: Final = (float32, float64)
"""The dtypes of floats for which there are exports."""
RANGE_DTYPES: Final = (*FLOAT_DTYPES, int32, int64)
"""The dtypes of ranges that an export computes; others are computed on the host."""


class HasLinearMemory(Protocol):
    """The part of a backend that kernels without inputs need."""

    linear_memory: LinearMemory
    """The memory in which arrays are allocated."""


@table.implements(creation.fill)
def fill(
    backend: HasLinearMemory, *, shape: tuple[int, ...], value: Scalar, dtype: DType
) -> WasmArray:
    """Return an array filled with one value."""
    return filled(backend.linear_memory, shape, dtype, value)


@table.implements(creation.zeros_like)
def zeros_like(x: WasmArray) -> WasmArray:
    """Return zeros."""
    return filled(x.memory, x.shape, x.dtype, 0)


@table.implements(creation.ones_like)
def ones_like(x: WasmArray) -> WasmArray:
    """Return ones."""
    return filled(x.memory, x.shape, x.dtype, 1)


@table.implements(creation.range)
def range(
    backend: HasLinearMemory, *, start: float, stop: float, step: float, dtype: DType
) -> WasmArray:
    """Return start, start + step, … up to but excluding stop."""
    count: int = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape[0]
    dtype = as_supported_dtype(dtype)
    is_whole = isinstance(start, int) and isinstance(step, int)
    if dtype in (FLOAT_DTYPES if not is_whole else RANGE_DTYPES):
        convert = float if dtype in FLOAT_DTYPES else int
        out = backend.linear_memory.empty((count,), dtype)
        select_export(out, f"ramp_{dtype}", count)(
            out.address, count, convert(start), convert(step)
        )
        return out
    # Integers stay integers; anything else is computed in double precision.
    values: NDArray[np.generic] = start + step * np.arange(count)
    return backend.linear_memory.from_numpy(values.astype(dtype), dtype)


@table.implements(creation.linspace)
def linspace(
    backend: HasLinearMemory, *, start: float, stop: float, num: int, dtype: DType
) -> WasmArray:
    """Return `num` equally spaced values from `start` to `stop`, both included."""
    dtype = as_supported_dtype(dtype)
    return backend.linear_memory.from_numpy(np.linspace(start, stop, num).astype(dtype), dtype)
