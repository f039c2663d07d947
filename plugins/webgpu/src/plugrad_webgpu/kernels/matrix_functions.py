"""Functions of square matrices: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import matrix_functions
from plugrad_webgpu.declare import table

table.update(host_implementations(matrix_functions), on_host=True)
