"""The wasm backend of plugrad: C kernels in WebAssembly, through wasmtime.

Importing this package does not import wasmtime. plugrad calls `backend`. `elementwise` makes a kernel
for this backend from an expression, `load_wasm_kernel` from a module; `HEADER` is for modules in C.
"""

from plugrad_wasm.backend import WasmBackend
from plugrad_wasm.custom import elementwise
from plugrad_wasm.sandbox import HEADER, load_wasm_kernel

__all__ = ["HEADER", "WasmBackend", "backend", "elementwise", "load_wasm_kernel"]


def backend() -> WasmBackend:
    """Return the wasm backend, which has not been opened."""
    return WasmBackend()
