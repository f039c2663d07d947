"""Linear algebra: BLAS through NumPy, which takes transposed views as they are."""

import numpy as np

from plugrad.kernels import linalg
from plugrad_cpu.declare import Array, table


@table.implements(linalg.matmul)
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the product of the last two axes."""
    return np.matmul(
        a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    )
