"""Factorizations of matrices: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import decomposition
from plugrad_wasm.declare import table

table.update(host_implementations(decomposition), on_host=True)
