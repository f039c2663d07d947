"""Sparse tensors: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import sparse
from plugrad_wasm.declare import table

table.update(host_implementations(sparse), on_host=True)
