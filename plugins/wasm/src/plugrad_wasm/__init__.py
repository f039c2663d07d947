"""The wasm backend of plugrad: C kernels in WebAssembly, through wasmtime.

Importing this package does not import wasmtime. `backend` is what plugrad calls; `elementwise`
makes kernels for this backend out of an expression.
"""

from plugrad_wasm.backend import WasmBackend
from plugrad_wasm.custom import elementwise

__all__ = ["WasmBackend", "backend", "elementwise"]


def backend() -> WasmBackend:
    """Return a backend that is not open yet."""
    return WasmBackend()
