"""Conversion from and to pictures: implementations of the core, which are written in NumPy."""

from plugrad.extend import host_implementations
from plugrad.kernels import pixels
from plugrad_cpu.declare import table

table.update(host_implementations(pixels))
