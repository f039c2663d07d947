"""Linear equations and factors of real matrices. LAPACK has large ones, and says which are singular or not definite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import broadcast, count_elements
from plugrad.kernels import decomposition
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT32,
    FLOAT32_LANES,
    FLOAT64,
    FLOAT_DTYPES,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    table,
)

if TYPE_CHECKING:
    from plugrad_native.declare import Array, CFunction, CFunctionsByDtype

C_SOLVE: Final = find_c_functions("solve", *FLOAT_DTYPES)
"""The C functions that solve linear equations, by dtype."""
PANEL_COLUMNS: Final = 16
"""The number of columns that C eliminates at a time, as in csrc/lu.c; it pads matrices to a multiple of it."""
MAX_MATRIX_ROWS: Final = 512
"""The maximum rows of a matrix that C factors, as in csrc/lu.c."""
SOLVE_PRODUCTS_PER_ADDITION: Final = 16
"""How many multiplications of a solver take as long as one elementwise addition."""

numpy_inverse: Final = numpy_implementation(decomposition.inverse)
"""NumPy's implementation of the kernel `inverse`."""
numpy_solve: Final = numpy_implementation(decomposition.solve)
"""NumPy's implementation of the kernel `solve`."""


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


def solve_or_invert(matrix: Array, rhs: Array | None, result_columns: int) -> Array | None:
    """Return X, where ``matrix @ X = rhs``, or the inverse if `rhs` is None; None if C does not support the matrix.

    C supports no large or empty matrices, and stops at a pivot that is 0 or not finite.
    """
    batch, n = matrix.shape[:-2], matrix.shape[-1]
    run, count = C_SOLVE.get(matrix.dtype), count_elements(batch)
    is_served = (
        n <= MAX_MATRIX_ROWS
        and result_columns <= MAX_MATRIX_ROWS
        and count * n * result_columns > 0
    )
    if run is None or not is_served or count * n * max(n, result_columns) >= MAX_ELEMENTS:
        return None
    out, fails = empty((*batch, n, result_columns), matrix.dtype), np.zeros(1, INT32)
    places = (
        (as_contiguous(matrix), n * n),
        (None if rhs is None else as_contiguous(rhs), n * result_columns),
        (out, n * result_columns),
        (fails, 0),
    )
    rows, wide = (-(-size // PANEL_COLUMNS) * PANEL_COLUMNS for size in (n, result_columns))
    scratch = (rows * (rows + wide + FLOAT32_LANES) + FLOAT32_LANES) * (
        matrix.itemsize // FLOAT32.itemsize
    )
    work = count * rows * rows * (rows + wide) // SOLVE_PRODUCTS_PER_ADDITION
    parallel_for(run, places, count, n, result_columns, work=work, scratch_floats=scratch)
    return None if fails[0] else out


C_DETERMINANT: Final = find_c_functions("determinant", *FLOAT_DTYPES)
"""The C functions that compute determinants, by dtype."""
C_CHOLESKY: Final = find_c_functions("cholesky", *FLOAT_DTYPES)
"""The C functions that compute Cholesky factors, by dtype."""
C_QR: Final = find_c_functions("qr", *FLOAT_DTYPES)
"""The C functions of the QR decomposition, by dtype."""
C_TRIANGULAR_SOLVE: Final = find_c_functions("triangular_solve", *FLOAT_DTYPES)
"""The C functions that solve equations with triangular matrices, by dtype."""
MAX_SIDE_BY_SIDE_ROWS: Final = 32
"""The maximum rows and columns of matrices that C factors side by side, one in each lane of a vector."""
MAX_SINGLE_MATRIX_ROWS: Final = 16
"""The maximum rows and columns of a single matrix that C factors in no more time than LAPACK."""
MIN_LARGER_MATRICES: Final = 4
"""The minimum number of matrices with more than `MAX_SINGLE_MATRIX_ROWS` rows that C factors."""

numpy_determinant: Final = numpy_implementation(decomposition.determinant)
"""NumPy's implementation of the kernel `determinant`."""
numpy_log_determinant: Final = numpy_implementation(decomposition.log_determinant)
"""NumPy's implementation of the kernel `log_determinant`."""
numpy_cholesky: Final = numpy_implementation(decomposition.cholesky)
"""NumPy's implementation of the kernel `cholesky`."""
numpy_qr: Final = numpy_implementation(decomposition.qr)
"""NumPy's implementation of the kernel `qr`."""
numpy_triangular_solve: Final = numpy_implementation(decomposition.triangular_solve)
"""NumPy's implementation of the kernel `triangular_solve`."""


@table.implements(decomposition.determinant)
def determinant(input: Array) -> Array:
    """Return the determinants of square matrices."""
    found = find_binary_determinants(input)
    if found is None:
        return numpy_determinant(input)
    with np.errstate(all="ignore"):
        return np.asarray(np.ldexp(*found), input.dtype)


@table.implements(decomposition.log_determinant)
def log_determinant(input: Array) -> list[Array]:
    """Return the signs and the logarithms of the absolute values of determinants."""
    found = find_binary_determinants(input)
    if found is None:
        return numpy_log_determinant(input)
    fractions, exponents = found
    with np.errstate(all="ignore"):
        logarithms = np.log(np.abs(fractions)) + exponents * np.log(2.0)
    return [np.asarray(x, input.dtype) for x in (np.sign(fractions), logarithms)]


def find_binary_determinants(input: Array) -> tuple[Array, Array] | None:
    """Return determinants as fractions in float64 and exponents of 2, or None if C does not support the matrices."""
    batch, n = input.shape[:-2], input.shape[-1]
    if not is_side_by_side(C_DETERMINANT, input):
        return None
    fractions, exponents = empty(batch, FLOAT64), empty(batch, INT32)
    places = (as_contiguous(input), n * n), (fractions, 1), (exponents, 1)
    if not factor_side_by_side(
        C_DETERMINANT[input.dtype],
        places,
        n,
        products_per_matrix=n**3,
        scratch_numbers_per_matrix=n * n,
    ):
        return None
    return fractions + 0.0, exponents


@table.implements(decomposition.cholesky)
def cholesky(input: Array) -> Array:
    """Return the lower triangular factors L, where ``input = L Lᵀ``."""
    n = input.shape[-1]
    if is_side_by_side(C_CHOLESKY, input):
        out = empty(input.shape, input.dtype)
        places = (as_contiguous(input), n * n), (out, n * n)
        if factor_side_by_side(
            C_CHOLESKY[input.dtype],
            places,
            n,
            products_per_matrix=n**3,
            scratch_numbers_per_matrix=n * n,
        ):
            return out
    return numpy_cholesky(input)


@table.implements(decomposition.qr)
def qr(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return the factors Q and R of matrices."""
    *batch, rows, columns = input.shape
    width = rows if full_matrices else min(rows, columns)
    if is_side_by_side(C_QR, input):
        q = empty((*batch, rows, width), input.dtype)
        r = empty((*batch, width, columns), input.dtype)
        places = (as_contiguous(input), rows * columns), (q, rows * width), (r, width * columns)
        numbers = rows * columns + columns + width * max(rows, columns)
        work = 4 * rows * columns * max(width, columns)
        run = C_QR[input.dtype]
        if factor_side_by_side(
            run,
            places,
            rows,
            columns,
            width,
            products_per_matrix=work,
            scratch_numbers_per_matrix=numbers,
        ):
            return [q, r]
    return numpy_qr(input, full_matrices=full_matrices)


@table.implements(decomposition.triangular_solve)
def triangular_solve(matrix: Array, rhs: Array, *, lower: bool, unit_diagonal: bool) -> Array:
    """Return X, where ``matrix @ X = rhs`` for triangular matrices."""
    n, columns = rhs.shape[-2:]
    if not (is_side_by_side(C_TRIANGULAR_SOLVE, matrix) and 0 < rhs.size < MAX_ELEMENTS):
        return numpy_triangular_solve(matrix, rhs, lower=lower, unit_diagonal=unit_diagonal)
    batch = broadcast(matrix.shape[:-2], rhs.shape[:-2])
    matrix, rhs = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (matrix, rhs))
    out = empty(rhs.shape, rhs.dtype)
    places = (as_contiguous(matrix), n * n), (as_contiguous(rhs), n * columns), (out, n * columns)
    factor_side_by_side(
        C_TRIANGULAR_SOLVE[rhs.dtype],
        places,
        *(n, columns, int(lower), int(unit_diagonal)),
        products_per_matrix=n * n * columns,
        scratch_numbers_per_matrix=n * (n + columns),
    )
    return out


def is_side_by_side(functions: CFunctionsByDtype, x: Array) -> bool:
    """Return whether C functions factor a batch of matrices side by side, one in each lane of a vector."""
    *batch, rows, columns = x.shape
    is_many = count_elements(tuple(batch)) >= MIN_LARGER_MATRICES
    return (
        x.dtype in functions
        and max(rows, columns) <= (MAX_SIDE_BY_SIDE_ROWS if is_many else MAX_SINGLE_MATRIX_ROWS)
        and 0 < x.size < MAX_ELEMENTS
    )


def factor_side_by_side(
    c_function: CFunction,
    operands: tuple[tuple[Array, int], ...],
    *sizes_and_flags: int,
    products_per_matrix: int,
    scratch_numbers_per_matrix: int,
) -> bool:
    """Call a C function that factors a batch of matrices; return False if it leaves one of them to LAPACK.

    The function takes the arrays, a number that it sets if it fails, the number of matrices, the sizes and flags, and
    scratch memory. Each operand is an array with the number of elements of one matrix.
    """
    (x, size), *_ = operands
    fails, count = np.zeros(1, INT32), x.size // size
    parallel_for(
        c_function,
        (*operands, (fails, 0)),
        count,
        *sizes_and_flags,
        work=count * products_per_matrix // SOLVE_PRODUCTS_PER_ADDITION,
        part_size_multiple=FLOAT32_LANES * FLOAT32.itemsize // x.itemsize,
        scratch_floats=(scratch_numbers_per_matrix + 1) * FLOAT32_LANES,
    )
    return not fails[0]
