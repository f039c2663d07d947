"""Conversion from and to pictures: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import pixels
from plugrad_wasm.declare import table

table.update(host_implementations(pixels), on_host=True)
