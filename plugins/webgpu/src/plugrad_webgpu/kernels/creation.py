"""Kernels that create arrays; kernels without inputs receive the backend instead."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from plugrad.kernels import creation
from plugrad_webgpu.declare import table
from plugrad_webgpu.memory.buffers import host_values_or_none
from plugrad_webgpu.memory.copying import full
from plugrad_webgpu.memory.transfers import upload
from plugrad_webgpu.shaders.elements import SHADER_DTYPES, require_dtype

if TYPE_CHECKING:
    from plugrad.extend import DType, Scalar, Shape
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.memory.buffers import GpuArray


class DeviceOwner(Protocol):
    """The part of the backend that kernels without inputs use: its opened device."""

    @property
    def active_device(self) -> Device:
        """The opened device of the backend."""
        ...


@table.implements(creation.fill)
def fill(backend: DeviceOwner, *, shape: Shape, value: Scalar, dtype: DType) -> GpuArray:
    """Return an array filled with `value`."""
    require_dtype(dtype, SHADER_DTYPES)
    device, shape = backend.active_device, tuple(shape)
    made = device.hosting.full if device.hosting.has_room(shape) else partial(full, device)
    return made(shape, value, dtype)


@table.implements(creation.zeros_like)
def zeros_like(x: GpuArray) -> GpuArray:
    """Return zeros in the shape and dtype of an array."""
    return _full_like(x, 0)


@table.implements(creation.ones_like)
def ones_like(x: GpuArray) -> GpuArray:
    """Return ones in the shape and dtype of an array."""
    return _full_like(x, 1)


def _full_like(x: GpuArray, value: int) -> GpuArray:
    """Return an array filled with `value` in the shape and dtype of x."""
    device = x.buffer.device
    made = partial(full, device) if host_values_or_none(x) is None else device.hosting.full
    return made(x.shape, value, x.dtype)


# The host computes the next two: products of steps in float32 would lose the last digits, and such
# arrays are read far more often than they are created.


@table.implements(creation.range)
def range(
    backend: DeviceOwner, *, start: float, stop: float, step: float, dtype: DType
) -> GpuArray:
    """Return start, start + step, … up to but excluding stop."""
    require_dtype(dtype, SHADER_DTYPES)
    count: int = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape[0]
    values = start + step * np.arange(count, dtype=np.int64)
    return upload(backend.active_device, values.astype(dtype), dtype)


@table.implements(creation.linspace)
def linspace(
    backend: DeviceOwner, *, start: Scalar, stop: Scalar, num: int, dtype: DType
) -> GpuArray:
    """Return `num` equally spaced values from start to stop, both included."""
    require_dtype(dtype, SHADER_DTYPES)
    return upload(backend.active_device, np.linspace(start, stop, num).astype(dtype), dtype)
