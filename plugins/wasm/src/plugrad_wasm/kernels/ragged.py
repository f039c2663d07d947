"""Ragged tensors: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import ragged
from plugrad_wasm.declare import table

table.update(host_implementations(ragged), on_host=True)
