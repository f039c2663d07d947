"""The webgpu backend: the class that plugrad opens and calls."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakSet

import numpy as np

from plugrad.extend import (
    KERNELS,
    Backend,
    BackendUnavailable,
    DeviceLost,
    Memory,
    Probe,
    as_dtype,
    float16,
    is_interruption,
    known_bfloat16,
    string,
)
from plugrad_webgpu.device.listing import INSTALL_HINT, describe_adapter, list_adapters
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.shaders.elements import SHADER_DTYPES, STORED_DTYPES, require_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray
    from wgpu import GPUDevice

    from plugrad.extend import DType, Graph, Implementation, KernelTable, Shaped
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.device.listing import Adapter
    from plugrad_webgpu.memory.buffers import GpuArray


class WebGpuBackend(Backend):
    """Arrays in GPU memory, computed by WGSL shaders."""

    name: ClassVar[str] = "webgpu"
    """The name by which programs choose the backend."""
    is_asynchronous: ClassVar[bool] = True
    """Whether calls return before their results are computed."""

    _transfers: ModuleType
    """The module `plugrad_webgpu.memory.transfers`, which is imported when a device is opened."""

    def __init__(self) -> None:
        self._device: Device | None = None

    @property
    def active_device(self) -> Device:
        """The opened device.

        Raises:
            BackendUnavailable: it is not open, or closed.
        """
        if self._device is None:
            raise BackendUnavailable("webgpu: the device is not open; select the backend again")
        return self._device

    @property
    def is_open(self) -> bool:
        """Whether the device is open."""
        return self._device is not None

    @property
    def gpu_device(self) -> GPUDevice:
        """The wgpu-py device, for other users of wgpu."""
        return self.active_device.wgpu_device

    def probe(self) -> Probe:
        """Return the adapters; never raise."""
        try:
            found: Sequence[Adapter] | None = list_adapters()
            if found is None:
                # It imports wgpu, which may be missing, and which `import plugrad_webgpu` must not load.
                from plugrad_webgpu.device.adapters import list_usable_adapters

                found = list_usable_adapters()
            devices = tuple(describe_adapter(adapter, i) for i, adapter in enumerate(found))
        except Exception as failure:  # a broken driver or library must not break listing backends
            if is_interruption(failure):
                raise
            return Probe(False, f"wgpu cannot start: {failure}")
        if not devices:
            return Probe(False, f"no adapter with compute shaders was found; {INSTALL_HINT}")
        return Probe(True, "", devices)

    def open(self, device: str) -> KernelTable:
        """Open a device and return the kernels.

        Args:
            device: ``""`` for the best device, an index such as ``"0"``, ``"high-performance"``,
                ``"low-power"``, or ``"name=part of its name"``.

        Raises:
            BackendUnavailable: there is no such device, or it cannot be opened.
        """
        try:
            # It imports wgpu, as above.
            from plugrad_webgpu.device.adapters import open_device
        except Exception as failure:  # the library is missing or does not load
            if is_interruption(failure):
                raise
            raise BackendUnavailable(f"webgpu: wgpu does not load: {failure}") from failure

        # The kernels of all families take longer to import than the rest of the package, which is
        # all that the author of a kernel needs. A program on another backend only probes.
        from plugrad_webgpu.memory import transfers
        from plugrad_webgpu.narrow import table_with_narrow_dtypes

        most = self._max_host_elements()
        _release_closed_devices()
        self._device, self.device = open_device(device)
        self._device.hosting.most = most
        self._transfers = transfers
        opened_backends.add(self)
        return table_with_narrow_dtypes()

    def _max_host_elements(self) -> int:
        """Return the largest number of elements of an array that is kept on the host.

        Raises:
            BackendUnavailable: the setting is negative.
        """
        most = self.options.get("host_elements", 0)
        if most < 0:
            raise BackendUnavailable(
                f"webgpu cannot keep arrays of {most} elements on the host; set webgpu.host_elements, or "
                "PLUGRAD_WEBGPU_HOST_ELEMENTS, to the most elements of such an array, or to 0 to keep none there"
            )
        return most

    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes of arrays on the device, and string, whose arrays are on the host."""
        return SHADER_DTYPES | {float16, string} | known_bfloat16()

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return a copy of a host array on the device; arrays of strings stay on the host.

        Raises:
            UnsupportedDtype: the device does not support the dtype.
        """
        dtype = as_dtype(array.dtype)
        if dtype is string:
            return array.copy()
        require_dtype(dtype, STORED_DTYPES)
        device = self.active_device
        return self._transfers.upload(device, array, dtype)

    def to_numpy(self, array: GpuArray | NDArray[Any]) -> NDArray[Any]:
        """Return the values in a new host array, waiting for them; strings are on the host already."""
        if isinstance(array, np.ndarray):
            return array.view()
        device = self.active_device
        return self._transfers.download(device, array)

    def read(self, arrays: Iterable[GpuArray]) -> Generator[NDArray[Any]]:
        """Yield flat parts of the values of arrays; the next part is transferred while the program uses one."""
        device = self.active_device
        return self._transfers.read(device, arrays)

    def wrap_implementation(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation that also accepts half-precision inputs."""
        from plugrad_webgpu.halves import with_halves  # not at the top, as in `open`
        from plugrad_webgpu.narrow import configs_by_kernel_name

        own, contract = configs_by_kernel_name().get(kernel_name), KERNELS.get(kernel_name)
        is_own = own is not None and own.kernel_func is function
        return function if is_own or contract is None else with_halves(contract, function)

    def with_bfloat16(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation that also accepts bfloat16; on the host it computes in float32."""
        from plugrad_webgpu.halves import with_halves  # as above
        from plugrad_webgpu.narrow import configs_by_kernel_name

        own, contract = configs_by_kernel_name().get(kernel_name), KERNELS.get(kernel_name)
        if own is None or contract is None or not own.on_host:
            return function
        return with_halves(contract, function)

    def compile(self, graph: Graph) -> Callable[..., list[Any]] | None:
        """Return a function that encodes the recorded dispatches of a graph, or None if all values are on the host."""
        # Few programs are compiled.
        from plugrad_webgpu.recording.graphs import record_graph

        device = self.active_device
        if all(device.hosting.has_room(spec.shape) for spec in graph.specs.values()):
            return None
        return record_graph(graph, device, self._compile_body)

    def fuse_calls(self, graph: Graph) -> Graph:
        """Return the graph with matrix products and convolutions fused with the following bias and activation."""
        from plugrad_webgpu.recording.epilogues import attach_epilogues  # as above

        return attach_epilogues(graph)

    def specialize(
        self,
        kernel_name: str,
        function: Implementation,
        specs: Sequence[Shaped | None],
        attrs: Mapping[str, Any],
        free: Sequence[int],
    ) -> Implementation | None:
        """Return a faster version of an implementation for fixed shapes, or None; it does not reuse `free` inputs."""
        from plugrad_webgpu.recording.specialize import specialize  # as above

        return specialize(kernel_name, function, specs, attrs, self.active_device)

    def _compile_body(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return a function that runs a graph: on the device, or else step by step."""
        from plugrad.extend import compile_replay  # as above

        return self.compile(graph) or compile_replay(graph)

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self.active_device.synchronize()

    def memory(self) -> Memory:
        """Return the memory of the arrays, in whole buffers, and the bytes that the pool keeps free."""
        return self.active_device.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Limit memory to `limit` bytes, beyond which allocations raise OutOfMemory; None removes the limit."""
        self.active_device.pool.limit = limit

    def lose_device(self) -> None:
        """Destroy the wgpu device, for tests."""
        self.active_device.wgpu_device.destroy()

    def handle_interruption(self, *, is_deferrable: bool) -> str:
        """Abandon the device if an interruption may have left a batch incomplete; return the reason, or an empty text.

        What a handler of signals raises waits for the end of what may not be cut, and what a trace function raises does
        not.
        """
        was_cut = uninterruptible.reset()
        if is_deferrable and not was_cut:
            return ""
        if self._device is not None and not self._device.is_abandoned:
            lock = self._device.abandon(lambda: DeviceLost(f"webgpu: {INTERRUPTED_WORK_REASON}"))
            _interrupted_devices.append(self._device)
            while lock._is_owned():  # its release was cut off, and other threads wait for it
                lock.release()
        return INTERRUPTED_WORK_REASON

    def close(self) -> None:
        """Submit the recorded work and release the device; live arrays keep their buffers."""
        device, self._device = self._device, None
        if device is not None:
            if not device.is_abandoned:
                with suppress(DeviceLost):  # nothing is left of it
                    device.synchronize()
            _closed_devices.append(device)
            _release_closed_devices()


INTERRUPTED_WORK_REASON: Final = (
    "an exception that another thread, or a trace function, raised has cut its work in two"
)
"""The reason why a device is abandoned, in error messages."""
_interrupted_devices: Final[list[Device]] = []
"""Devices that were interrupted: they are never released, because some of their objects may be released already."""
_closed_devices: Final[list[Device]] = []
"""The closed devices whose buffers were used by arrays when last checked."""
_uncollected_devices: Final[WeakSet[Device]] = WeakSet()
"""Closed devices without buffers that the garbage collector has not freed yet."""
MAX_UNCOLLECTED_DEVICES: Final = 3
"""The number of devices, of 4 MB each, that need not be collected before another one is opened."""


def _release_closed_devices() -> None:
    """Release buffers of closed devices; forget the devices without buffers and those of the parent process."""
    for device in list(_closed_devices):
        if device.is_abandoned or not device.release_unused():
            _closed_devices.remove(device)
            _uncollected_devices.add(device)
    if len(_uncollected_devices) > MAX_UNCOLLECTED_DEVICES:
        gc.collect()


opened_backends: Final[WeakSet[WebGpuBackend]] = WeakSet()
"""All backends that have been opened; some may be closed."""


def backend() -> WebGpuBackend:
    """Return the backend, not yet open: the entry point names this function."""
    return WebGpuBackend()
