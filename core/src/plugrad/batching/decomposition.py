"""Batching rules of kernels that factor and invert the matrices of the last two axes."""

from plugrad.kernels import decomposition
from plugrad.registry.batching import (
    register_batching,
    run_with_broadcast_axes,
    run_with_leading_axis,
)

register_batching(decomposition.cholesky, run_with_leading_axis)
register_batching(decomposition.inverse, run_with_leading_axis)
register_batching(decomposition.solve, run_with_broadcast_axes)
register_batching(decomposition.determinant, run_with_leading_axis)
register_batching(decomposition.log_determinant, run_with_leading_axis)
register_batching(decomposition.eigh, run_with_leading_axis)
register_batching(decomposition.svd, run_with_leading_axis)
register_batching(decomposition.qr, run_with_leading_axis)
register_batching(decomposition.lu, run_with_leading_axis)
register_batching(decomposition.triangular_solve, run_with_broadcast_axes)
register_batching(decomposition.eig, run_with_leading_axis)
