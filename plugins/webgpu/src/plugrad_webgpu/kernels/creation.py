"""Kernels that make arrays. Those without inputs get the backend in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.kernels import creation
from plugrad_webgpu.copying import filled
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import DTYPES, require

if TYPE_CHECKING:
    from plugrad.extend import DType, Scalar, Shape
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.entry import WebGpuBackend


@table.implements(creation.fill)
def fill(backend: WebGpuBackend, *, shape: Shape, value: Scalar, dtype: DType) -> GpuArray:
    """Return `value` everywhere."""
    require(dtype, DTYPES)
    return filled(backend.opened, tuple(shape), value.real, dtype)


@table.implements(creation.zeros_like)
def zeros_like(x: GpuArray) -> GpuArray:
    """Return zeros in the shape and dtype of an array."""
    return filled(x.buffer.device, x.shape, 0, x.dtype)


@table.implements(creation.ones_like)
def ones_like(x: GpuArray) -> GpuArray:
    """Return ones in the shape and dtype of an array."""
    return filled(x.buffer.device, x.shape, 1, x.dtype)


# The two below are made on the host: multiplying out steps in float32 would lose the last digits,
# and they are read from memory many times for each time that they are made.


@table.implements(creation.range)
def range(
    backend: WebGpuBackend, *, start: float, stop: float, step: float, dtype: DType
) -> GpuArray:
    """Return start, start + step and so on, without stop."""
    count: int = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape[0]
    values = start + step * np.arange(count, dtype=np.float64)
    return backend.from_numpy(values.astype(dtype))


@table.implements(creation.linspace)
def linspace(
    backend: WebGpuBackend, *, start: float, stop: float, num: int, dtype: DType
) -> GpuArray:
    """Return `num` values from start to stop, both included."""
    return backend.from_numpy(np.linspace(start, stop, num).astype(dtype))
