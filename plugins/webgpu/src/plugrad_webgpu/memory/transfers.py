"""Transfers of whole arrays between the host and a device."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import as_dtype, uint32
from plugrad_webgpu.memory.buffers import host_values_or_none, reinterpret
from plugrad_webgpu.memory.copying import full
from plugrad_webgpu.shaders.elements import COMPUTE_DTYPES_BY_DTYPE, HALF_DTYPES, stored_nbytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import CommandRecorder, GpuArray


def upload(device: CommandRecorder, array: NDArray[Any], dtype: DType) -> GpuArray:
    """Return a copy of a host array of a supported dtype, on the device unless it is small."""
    if dtype not in HALF_DTYPES:
        if device.hosting.has_room(array.shape):
            return device.hosting.wrap_values(array.flatten(), array.shape, dtype)
        if array.size == 1:
            # A fill is part of the batch, in order; an upload might have to submit the batch first.
            return full(device, array.shape, array.item(), dtype)
    words = as_words_on_device(array, dtype)
    return device.upload(words, words.nbytes, array.shape, dtype)


def as_words_on_device(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return the values of a host array as the device stores them, in whole words of 32 bits."""
    if dtype not in HALF_DTYPES:
        return array.astype(COMPUTE_DTYPES_BY_DTYPE.get(dtype, dtype), copy=False)
    words = np.zeros(stored_nbytes(array.shape, dtype) // 4, np.uint32)
    words.view(np.uint16)[: array.size] = array.reshape(-1).view(np.uint16)
    return words


def download(device: CommandRecorder, array: GpuArray) -> NDArray[Any]:
    """Return the values of an array in a new host array, waiting for them."""
    hosted = host_values_or_none(array)
    if hosted is not None:
        return device.hosting.read_values(hosted, array.shape)
    if array.dtype in HALF_DTYPES:
        words = np.empty(stored_nbytes(array.shape, array.dtype) // 4, np.uint32)
        device.download(reinterpret(array, words.shape, uint32), words, words.dtype)
        return words.view(array.dtype.numpy)[: prod(array.shape)].reshape(array.shape)
    values = np.empty(array.shape, array.dtype)
    device.download(array, values, np.dtype(COMPUTE_DTYPES_BY_DTYPE.get(array.dtype, array.dtype)))
    return values


def read(device: CommandRecorder, arrays: Iterable[GpuArray]) -> Generator[NDArray[Any]]:
    """Yield the values of arrays of one dtype in flat parts; each part is valid until the next one."""
    given = list(arrays)
    if any(array.dtype in HALF_DTYPES for array in given):  # each begins in a word of its own
        for array in given:
            yield from _read_half_floats(device, array)
        return
    for is_hosted, group in groupby(given, lambda array: host_values_or_none(array) is not None):
        if is_hosted:
            for array in group:
                yield download(device, array).reshape(-1)
            continue
        with closing(device.read(list(group))) as parts:
            for memory in parts:
                dtype = given[0].dtype
                values = np.frombuffer(memory, COMPUTE_DTYPES_BY_DTYPE.get(dtype, dtype))
                yield values.astype(dtype, copy=False)


def _read_half_floats(device: CommandRecorder, array: GpuArray) -> Generator[NDArray[Any]]:
    """Yield the values of an array of float16 or bfloat16 in flat parts."""
    left, count = prod(array.shape), stored_nbytes(array.shape, array.dtype) // 4
    with closing(device.read([reinterpret(array, (count,), uint32)])) as parts:
        for memory in parts:
            values = np.frombuffer(memory, np.uint16).view(array.dtype.numpy)[:left]
            left -= values.size
            yield values


def run_on_host(body: Callable[..., Any], x: GpuArray, **attributes: Any) -> Any:
    """Run a function of host arrays, and return its results on the device."""
    device = x.buffer.device

    def store_values(values: NDArray[Any]) -> GpuArray:
        return upload(device, np.asarray(values, order="C"), as_dtype(values.dtype))

    result = body(download(device, x), **attributes)
    return tuple(map(store_values, result)) if isinstance(result, tuple) else store_values(result)
