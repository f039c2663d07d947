"""Shapes as values: implementations of the core, which run on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import rearrangement
from plugrad_wasm.declare import table

table.update(host_bodies(rearrangement), on_host=True)
