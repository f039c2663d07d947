"""Ragged tensors: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import ragged
from plugrad_webgpu.declare import table

table.update(host_implementations(ragged), on_host=True)
