"""Factorizations of matrices: what core has for every backend, which is NumPy already."""

from plugrad.extend import host_bodies
from plugrad.kernels import decomposition
from plugrad_cpu.declare import table

table.update(host_bodies(decomposition))
