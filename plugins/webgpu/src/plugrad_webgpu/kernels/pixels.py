"""Conversion from and to pixels: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import pixels
from plugrad_webgpu.declare import table

table.update(host_implementations(pixels), on_host=True)
