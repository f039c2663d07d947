"""Sorting and searching: implementations of the core, which run on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import sorting
from plugrad_wasm.declare import table

table.update(host_bodies(sorting), on_host=True)
