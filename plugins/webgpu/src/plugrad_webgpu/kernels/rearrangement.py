"""Shapes that are values: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import rearrangement
from plugrad_webgpu.declare import table

table.update(host_bodies(rearrangement), on_host=True)
