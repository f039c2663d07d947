"""The wasm backend of plugrad: C kernels in WebAssembly, through wasmtime.

Importing this package does not import wasmtime. plugrad calls `backend`; `elementwise` makes a kernel
for this backend from an expression.
"""

from plugrad_wasm.backend import WasmBackend
from plugrad_wasm.custom import elementwise

__all__ = ["WasmBackend", "backend", "elementwise"]


def backend() -> WasmBackend:
    """Return a backend that has not been opened."""
    return WasmBackend()
