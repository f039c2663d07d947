"""Functions of square matrices: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import matrix_functions
from plugrad_wasm.declare import table

table.update(host_implementations(matrix_functions), on_host=True)
