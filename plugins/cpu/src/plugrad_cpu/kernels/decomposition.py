"""Factorizations of matrices: implementations of the core, which are written in NumPy."""

from plugrad.extend import host_implementations
from plugrad.kernels import decomposition
from plugrad_cpu.declare import table

table.update(host_implementations(decomposition))
