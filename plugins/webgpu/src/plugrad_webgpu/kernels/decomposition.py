"""Factorizations of matrices: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import decomposition
from plugrad_webgpu.declare import table

table.update(host_bodies(decomposition), on_host=True)
