"""Matrix products inside other kernels: by NumPy, or by a function that a kernel pack sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_cpu.declare import Array

COMPILED_MIN_PRODUCTS: Final = 9_000
"""The minimum product of the two factors' numbers of elements for which a pack's function is used."""


class MatrixProducts:
    """The function that multiplies matrices over the last two axes; a kernel pack can replace NumPy's."""

    def __init__(self) -> None:
        """Use NumPy."""
        self.compiled: Callable[[Array, Array], Array] | None = None
        """What multiplies large matrices; a pack may set it."""

    def __call__(self, a: Array, b: Array) -> Array:
        """Return the products of matrices, of any strides."""
        if self.compiled and a.size * b.size > COMPILED_MIN_PRODUCTS:
            return self.compiled(a, b)
        return a.dot(b) if a.ndim == b.ndim == 2 else np.matmul(a, b)


multiply_matrices: Final = MatrixProducts()
"""The function by which other kernels multiply matrices: NumPy's, or one that a kernel pack has set."""
