"""Matrix products inside other kernels: by NumPy, or by a function that a kernel pack sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_cpu.declare import Array

COMPILED_MIN_PRODUCTS: Final = 9_000
"""How many elements the two factors must have, multiplied, for the function of a pack to be used."""


class MatrixProducts:
    """Products over the last two axes."""

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
"""Multiplies matrices for other kernels, by NumPy or by the function that a kernel pack has set."""
