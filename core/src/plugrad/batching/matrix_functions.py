"""Batching rules of functions of the matrices of the last two axes."""

from plugrad.kernels import matrix_functions
from plugrad.registry.batching import broadcasting, leading, register_batching

register_batching(matrix_functions.square_root, leading)
register_batching(matrix_functions.sylvester_solve, broadcasting)
