"""Ragged tensors: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import ragged
from plugrad_webgpu.declare import table

table.update(host_bodies(ragged), on_host=True)
