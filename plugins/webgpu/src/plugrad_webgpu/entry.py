"""The backend as core sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from plugrad.extend import Backend, BackendUnavailable, Memory, Probe, as_dtype, bool_, string
from plugrad_webgpu.elements import DTYPES, require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.extend import DType, KernelTable
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.device import Device


class WebGpuBackend(Backend):
    """Arrays in the memory of one GPU, computed by WGSL shaders."""

    name: ClassVar[str] = "webgpu"

    def __init__(self) -> None:
        self._device: Device | None = None

    @property
    def opened(self) -> Device:
        """The device, once it is open.

        Raises:
            BackendUnavailable: it is not open, or closed.
        """
        if self._device is None:
            raise BackendUnavailable("webgpu: the device is not open; select the backend again")
        return self._device

    def probe(self) -> Probe:
        """Return the adapters; never raise."""
        try:
            from plugrad_webgpu.adapters import INSTALL_HINT, adapters, describe

            found = tuple(describe(adapter, i) for i, adapter in enumerate(adapters()))
        except Exception as failure:  # a broken driver or library must not break listing backends
            return Probe(False, f"wgpu cannot start: {failure}")
        if not found:
            return Probe(False, f"no adapter with compute shaders was found; {INSTALL_HINT}")
        return Probe(True, "", found)

    def open(self, device: str) -> KernelTable:
        """Open an adapter: ``""`` for the best one, ``"0"``, ``"low-power"``, or ``"name=part of its name"``."""
        try:
            from plugrad_webgpu.adapters import choose, open_device
        except Exception as failure:  # the library is missing or does not load
            raise BackendUnavailable(f"webgpu: wgpu does not load: {failure}") from failure

        from plugrad_webgpu.kernels import table

        adapter, index = choose(device)
        try:
            self._device = open_device(adapter)
        except RuntimeError as failure:
            raise BackendUnavailable(
                f"webgpu: {adapter.info['device']} cannot be opened: {failure}; try another device"
            ) from failure
        self.device = str(index)
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return float32, int32, uint32 and bool, and strings, which are on the host."""
        return DTYPES | {string}

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return a copy of a host array on the device; of strings, on the host.

        Raises:
            UnsupportedDtype: the device has no such dtype.
        """
        dtype = as_dtype(array.dtype)
        if dtype is string:
            return array.copy()
        require(dtype, DTYPES)
        if array.size == 1:
            # A fill is part of the batch, in order; an upload might have to submit the batch first.
            from plugrad_webgpu.copying import filled

            return filled(self.opened, array.shape, array.item(), dtype)
        words = array.astype(np.uint32) if dtype == bool_ else array
        return self.opened.upload(words, words.nbytes, array.shape, dtype)

    def to_numpy(self, array: GpuArray | NDArray[Any]) -> NDArray[Any]:
        """Return the values in a new host array, waiting for them; strings are on the host anyway."""
        if isinstance(array, np.ndarray):
            return array.view()
        stored = np.uint32 if array.dtype == bool_ else array.dtype
        values = np.empty(array.shape, stored)
        if math.prod(array.shape):
            self.opened.download(array, values, values.nbytes)
        return values.astype(np.bool_) if array.dtype == bool_ else values

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self.opened.synchronize()

    def memory(self) -> Memory:
        """Return what arrays use, in whole buffers, and what the pool keeps."""
        return self.opened.pool.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise OutOfMemory."""
        self.opened.pool.limit = limit

    def close(self) -> None:
        """Submit what is recorded and let go of the device; live arrays keep their buffers."""
        if self._device is not None:
            self._device.synchronize()
            self._device.pool.trim()
            self._device = None


def backend() -> WebGpuBackend:
    """Return the backend, not yet opened: what the entry point names."""
    return WebGpuBackend()
