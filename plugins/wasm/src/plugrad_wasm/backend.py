"""The backend object: one store, its memory, and the kernels that run in it."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugrad.extend import (
    DATA_MOVEMENT_KERNELS,
    KERNELS,
    Backend,
    BackendUnavailable,
    DeviceInfo,
    DType,
    KernelTable,
    Memory,
    Probe,
    bool_,
    compute_host_value,
    compute_in_float32,
    get_kernel,
    known_bfloat16,
    string,
)
from plugrad_wasm.deferred import LazyImplementation
from plugrad_wasm.dtypes import ARRAY_DTYPES, as_supported_dtype
from plugrad_wasm.families import bfloat16_kernels, kernel_table
from plugrad_wasm.memory import WasmArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.extend import Graph, Implementation, Shape, Shaped
    from plugrad_wasm.memory import LinearMemory

DEVICE_INFO: Final = DeviceInfo("0", "WebAssembly in this process")
"""The name and the description of the one device."""


def count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


NEEDS_GIL_MESSAGE: Final = (
    "the wasm backend needs Python's lock (GIL), which this interpreter runs without: use it from one thread, or start "
    "Python with PYTHON_GIL=1, or compute on the cpu backend"
)
"""The error message for a Python without the GIL: only that lock keeps short calls and the memory's lists apart."""


ALL_DTYPES: Final = ARRAY_DTYPES | {string}
"""The dtypes of arrays in linear memory, and string."""


@cache
def array_dtypes_with(extra: frozenset[DType]) -> frozenset[DType]:
    """Return the dtypes of arrays in linear memory, string, and the dtypes in `extra`."""
    return ALL_DTYPES | extra


class WasmBackend(Backend):
    """Tensors in the linear memory of a WebAssembly instance, kernels in its sandbox."""

    name: ClassVar[str] = "wasm"
    """The name of the backend."""
    linear_memory: LinearMemory
    """The linear memory in which arrays lie."""

    def probe(self) -> Probe:
        """Return whether wasmtime and the compiled module are installed; nothing else is needed."""
        if find_spec("wasmtime") is None:
            return Probe(False, "wasmtime is not installed; run: pip install 'wasmtime>=50,<51'")
        if not any(Path(__file__).parent.glob("*.wasm")):
            return Probe(False, "the module is not built; run: python plugins/wasm/hatch_build.py")
        return Probe(True, devices=(DEVICE_INFO,))

    def open(self, device: str) -> KernelTable:
        """Compile the module and return its kernels; the one device is called ``"0"``."""
        if device not in ("", DEVICE_INFO.name):
            raise BackendUnavailable(
                f"the wasm backend has one device, '0', not {device!r}; leave the device out"
            )
        try:
            from plugrad_wasm.module import Store
        except ImportError as failure:
            raise BackendUnavailable(
                f"wasmtime cannot be imported ({failure}); run: pip install 'wasmtime>=50,<51'"
            ) from failure
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            warnings.warn(NEEDS_GIL_MESSAGE, RuntimeWarning, stacklevel=2)
        self.linear_memory = Store(self.threads()).memory
        self.device: str = DEVICE_INFO.name
        return kernel_table()

    def threads(self) -> int:
        """The maximum number of threads that compute.

        Raises:
            BackendUnavailable: the option is not positive.
        """
        threads = self.options.get("threads")
        if threads is None:
            return count_processors()
        if threads < 1:
            raise BackendUnavailable(
                f"the wasm backend cannot compute in {threads} threads; set wasm.threads, or "
                "PLUGRAD_WASM_THREADS, to 1 or more, or leave it out"
            )
        return threads

    def wrap_implementation(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return the imported implementation in place of a lazy one, which would import its module on first use."""
        return function.function if isinstance(function, LazyImplementation) else function

    def with_bfloat16(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation that also accepts bfloat16; many elementwise kernels have exports for it."""
        contract = KERNELS.get(kernel_name)
        if contract is None or kernel_name in DATA_MOVEMENT_KERNELS | bfloat16_kernels():
            return function
        return compute_in_float32(contract, function, self._cast, known_bfloat16())

    def _cast(self, x: WasmArray, *, dtype: DType) -> WasmArray:
        """Return an array in another dtype, by the kernel `Cast`."""
        return self.functions["Cast"](x, dtype=dtype)

    def compile(self, graph: Graph) -> Callable[..., list[Any]] | None:
        """Return a function that runs a graph as programs in the sandbox, or None."""
        from plugrad_wasm.programs.compile import compile_graph

        return compile_graph(graph, self.linear_memory)

    def fuse_calls(self, graph: Graph) -> Graph:
        """Return the graph with a bias and an activation fused with the matrix product or convolution before them."""
        from plugrad_wasm.programs.compile import fuse_calls

        return fuse_calls(graph, self.linear_memory)

    def host_value(
        self, function: Callable[[], Any], shape: Shape, dtype: DType
    ) -> WasmArray | NDArray[Any]:
        """Return the value of a host function as an array in linear memory, without checks of shape and dtype."""
        if dtype is bool_ or dtype not in ARRAY_DTYPES or self.is_closed or self.lost:
            return super().host_value(function, shape, dtype)
        values = compute_host_value(function, shape, dtype)
        return self.linear_memory.from_numpy(values, dtype)

    def specialize(
        self,
        kernel_name: str,
        function: Implementation,
        specs: Sequence[Shaped | None],
        attrs: Mapping[str, Any],
        free: Sequence[int],
    ) -> Implementation | None:
        """Return a faster version of an implementation for fixed shapes, which may reuse inputs at `free` positions."""
        from plugrad_wasm.programs.specialize import specialize

        config = get_kernel(kernel_name, self.name)
        own = None if config is None or config.on_host else config.kernel_func
        if not isinstance(own, LazyImplementation) or own.function is not function:
            return None
        return specialize(kernel_name, function, specs, attrs, free, self.linear_memory)

    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes of arrays, including strings; a kernel may accept fewer."""
        others = known_bfloat16()
        return array_dtypes_with(others) if others else ALL_DTYPES

    def from_numpy(self, array: NDArray[Any]) -> WasmArray | NDArray[Any]:
        """Return a copy of `array` in linear memory; strings stay on the host."""
        if array.dtype.kind == "T":
            return array.copy()
        return self.linear_memory.from_numpy(array, as_supported_dtype(array.dtype))

    def to_numpy(self, array: WasmArray | NDArray[Any]) -> NDArray[Any]:
        """Return a copy on the host; strings, which are on the host already, are returned as a view."""
        return self.linear_memory.to_numpy(array) if isinstance(array, WasmArray) else array.view()

    def synchronize(self) -> None:
        """Return at once, because every call returns after it has finished."""

    def memory(self) -> Memory:
        """Return the number and bytes of arrays, counted in whole blocks, and the size of linear memory."""
        return self.linear_memory.memory_usage()

    def set_memory_limit(self, limit: int | None) -> None:
        """Refuse allocations that would raise the arrays' memory above `limit` bytes."""
        self.linear_memory.set_limit(limit)

    def close(self) -> None:
        """Release the instance; live arrays keep it alive."""
        del self.linear_memory
