"""Transfers of whole arrays between the host and a device."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import as_dtype
from plugrad_webgpu.memory.buffers import values_on_host
from plugrad_webgpu.memory.copying import filled
from plugrad_webgpu.shaders.elements import HELD

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray, Recorder


def uploaded(device: Recorder, array: NDArray[Any], dtype: DType) -> GpuArray:
    """Return a copy of a host array of a supported dtype, on the device unless it is small."""
    if device.hosting.has_room(array.shape):
        return device.hosting.hold(array.flatten(), array.shape, dtype)
    if array.size == 1:
        # A fill is part of the batch, in order; an upload might have to submit the batch first.
        return filled(device, array.shape, array.item(), dtype)
    words = array.astype(HELD[dtype]) if dtype in HELD else array
    return device.upload(words, words.nbytes, array.shape, dtype)


def downloaded(device: Recorder, array: GpuArray) -> NDArray[Any]:
    """Return the values of an array in a new host array, waiting for them."""
    hosted = values_on_host(array)
    if hosted is not None:
        return device.hosting.shown(hosted, array.shape)
    values = np.empty(array.shape, array.dtype)
    device.download(array, values, np.dtype(HELD.get(array.dtype, array.dtype)))
    return values


def read(device: Recorder, arrays: Iterable[GpuArray]) -> Generator[NDArray[Any]]:
    """Yield the values of arrays of one dtype in flat parts; each holds its values until the next is asked for."""
    given = list(arrays)
    with closing(device.read(given)) as parts:
        for memory in parts:
            dtype = given[0].dtype
            values = np.frombuffer(memory, HELD.get(dtype, dtype))
            yield values.astype(dtype, copy=False)


def on_host(body: Callable[..., Any], x: GpuArray, **attributes: Any) -> Any:
    """Return what a function of a host array gives, on the device: an array, or several."""
    device = x.buffer.device

    def stored(values: NDArray[Any]) -> GpuArray:
        return uploaded(device, np.asarray(values, order="C"), as_dtype(values.dtype))

    result = body(downloaded(device, x), **attributes)
    return tuple(map(stored, result)) if isinstance(result, tuple) else stored(result)
