"""Sparse tensors: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import sparse
from plugrad_webgpu.declare import table

table.update(host_bodies(sparse), on_host=True)
