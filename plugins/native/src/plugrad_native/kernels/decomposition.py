"""Inverses and linear equations of real matrices. LAPACK has large ones, and says which are singular."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import broadcast, count_elements
from plugrad.kernels import decomposition
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT32,
    FLOAT32_LANES,
    FLOAT_DTYPES,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    table,
)

if TYPE_CHECKING:
    from plugrad_native.declare import Array

C_SOLVE: Final = find_c_functions("solve", *FLOAT_DTYPES)
PANEL_COLUMNS: Final = 16
MAX_MATRIX_ROWS: Final = 512
"""The multiple to which C pads rows and columns, and how many rows it takes, as in csrc/lu.c."""
SOLVE_PRODUCTS_PER_ADDITION: Final = 16
"""The number of products that take as long as one step such as an addition."""

numpy_inverse: Final = numpy_implementation(decomposition.inverse)
numpy_solve: Final = numpy_implementation(decomposition.solve)


@table.implements(decomposition.inverse)
def inverse(input: Array) -> Array:
    """Return the inverses of matrices."""
    found = solve_or_invert(input, None, input.shape[-1])
    return numpy_inverse(input) if found is None else found


@table.implements(decomposition.solve)
def solve(matrix: Array, rhs: Array) -> Array:
    """Return X, where ``matrix @ X = rhs``."""
    if matrix.shape[:-2] != rhs.shape[:-2]:
        batch = broadcast(matrix.shape[:-2], rhs.shape[:-2])
        matrix, rhs = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (matrix, rhs))
    found = solve_or_invert(matrix, rhs, rhs.shape[-1])
    return numpy_solve(matrix, rhs) if found is None else found


def solve_or_invert(matrix: Array, rhs: Array | None, columns: int) -> Array | None:
    """Return X, where ``matrix @ X = rhs``, or the inverse if `rhs` is None; None if C does not support the matrix.

    So it is if C is not made for the arrays, or meets a pivot that is 0 or not finite.
    """
    batch, n = matrix.shape[:-2], matrix.shape[-1]
    run, count = C_SOLVE.get(matrix.dtype), count_elements(batch)
    is_served = n <= MAX_MATRIX_ROWS and columns <= MAX_MATRIX_ROWS and count * n * columns > 0
    if run is None or not is_served or count * n * max(n, columns) >= MAX_ELEMENTS:
        return None
    out, fails = empty((*batch, n, columns), matrix.dtype), np.zeros(1, INT32)
    places = (
        (as_contiguous(matrix), n * n),
        (None if rhs is None else as_contiguous(rhs), n * columns),
        (out, n * columns),
        (fails, 0),
    )
    rows, wide = (-(-size // PANEL_COLUMNS) * PANEL_COLUMNS for size in (n, columns))
    scratch = (rows * (rows + wide + FLOAT32_LANES) + FLOAT32_LANES) * (
        matrix.itemsize // FLOAT32.itemsize
    )
    work = count * rows * rows * (rows + wide) // SOLVE_PRODUCTS_PER_ADDITION
    parallel_for(run, places, count, n, columns, work=work, scratch=scratch)
    return None if fails[0] else out
