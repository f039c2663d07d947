"""Batching rules of kernels that factor and invert the matrices of the last two axes."""

from plugrad.kernels import decomposition
from plugrad.registry.batching import broadcasting, leading, register_batching

register_batching(decomposition.cholesky, leading)
register_batching(decomposition.inverse, leading)
register_batching(decomposition.solve, broadcasting)
register_batching(decomposition.determinant, leading)
register_batching(decomposition.log_determinant, leading)
register_batching(decomposition.eigh, leading)
register_batching(decomposition.svd, leading)
register_batching(decomposition.qr, leading)
register_batching(decomposition.lu, leading)
register_batching(decomposition.triangular_solve, broadcasting)
register_batching(decomposition.eig, leading)
