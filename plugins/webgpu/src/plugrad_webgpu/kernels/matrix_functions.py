"""Functions of square matrices: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import matrix_functions
from plugrad_webgpu.declare import table

table.update(host_bodies(matrix_functions), on_host=True)
