"""Batching rules of functions of the matrices of the last two axes."""

from plugrad.kernels import matrix_functions
from plugrad.registry.batching import (
    register_batching,
    run_with_broadcast_axes,
    run_with_leading_axis,
)

register_batching(matrix_functions.square_root, run_with_leading_axis)
register_batching(matrix_functions.sylvester_solve, run_with_broadcast_axes)
