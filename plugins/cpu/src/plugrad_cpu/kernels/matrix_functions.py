"""Functions of square matrices: implementations of the core, which are written in NumPy."""

from plugrad.extend import host_bodies
from plugrad.kernels import matrix_functions
from plugrad_cpu.declare import table

table.update(host_bodies(matrix_functions))
