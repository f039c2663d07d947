"""Factorizations through NumPy, which takes them from LAPACK."""

from functools import partial
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError
from plugrad.kernels import decomposition
from plugrad.kernels.decomposition import COMPLEX_DTYPE_OF_DTYPE
from plugrad.types.dtype import as_dtype

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
INDEFINITE_MESSAGE = (
    "is not positive definite; a small multiple of eye({n}) added to a semidefinite one makes it so"
)
"""The end of the message for a matrix without a Cholesky factor."""
SINGULAR_MESSAGE = (
    "is singular or not finite; linalg.pinv gives the Moore-Penrose inverse of a singular one"
)
"""The end of the message for a matrix without an inverse."""
MAX_UNBLOCKED_COLUMNS: Final = 32
"""The number of columns that are eliminated, or of rows that are solved, one after the other."""
MAX_UNBLOCKED_TRIANGLE_ROWS: Final = 48
"""The number of rows of triangular matrices that LAPACK inverts as it inverts any other ones."""
NOT_FACTORED_MESSAGE = "has no factors that could be found; its elements must be finite"
"""The end of the message for a matrix for which LAPACK finds no factors."""


def cholesky(input: Array) -> Array:
    """Return the lower triangular factors L, where input = L Lᴴ.

    Raises:
        ArgumentValueError: a matrix is not positive definite.
    """
    return np.asarray(call_lapack("Cholesky", INDEFINITE_MESSAGE, np.linalg.cholesky, input))


def inverse(input: Array) -> Array:
    """Return the inverse matrices.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(call_lapack("MatrixInverse", SINGULAR_MESSAGE, _inverse, input))


def _inverse(input: Array) -> Array:
    """Return the inverse matrices; upper triangular ones, as in the gradient of Cholesky, by blocks."""
    is_triangular = not (
        input.shape[-1] <= MAX_UNBLOCKED_TRIANGLE_ROWS
        or input[..., -1, 0].any()
        or np.tril(input, -1).any()
    )
    return (_inverse_of_triangles if is_triangular else np.linalg.inv)(input)


def _inverse_of_triangles(input: Array) -> Array:
    """Return the inverses of upper triangular matrices: of ((a, b), (0, c)), those of a and c, and -inv(a) b inv(c)."""
    if input.shape[-1] <= MAX_UNBLOCKED_TRIANGLE_ROWS:
        return np.linalg.inv(input)
    half = input.shape[-1] // 2
    out = np.zeros_like(input)
    a = out[..., :half, :half] = _inverse_of_triangles(input[..., :half, :half])
    c = out[..., half:, half:] = _inverse_of_triangles(input[..., half:, half:])
    np.matmul(a @ input[..., :half, half:], -c, out=out[..., :half, half:])
    return out


def solve(matrix: Array, rhs: Array) -> Array:
    """Return X, where matrix @ X = rhs.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(call_lapack("MatrixSolve", SINGULAR_MESSAGE, np.linalg.solve, matrix, rhs))


def determinant(input: Array) -> Array:
    """Return the determinants."""
    with np.errstate(all="ignore"):
        return _propagate_nan(np.linalg.det(input), input)


def log_determinant(input: Array) -> list[Array]:
    """Return the signs and the logarithms of the absolute values of determinants."""
    with np.errstate(all="ignore"):
        sign, log = np.linalg.slogdet(input)
    return [_propagate_nan(sign, input), _propagate_nan(log, input)]


def _propagate_nan(results: Array, input: Array) -> Array:
    """Set the results of matrices that hold NaN to NaN, because LAPACK may overlook one."""
    return np.where(np.isnan(input).any((-2, -1)), np.nan, results)


def eigh(input: Array) -> list[Array]:
    """Return eigenvalues and eigenvectors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    return _factor_batch("Eigh", np.linalg.eigh, input)


def svd(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return U, the singular values, and Vᴴ.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    return _factor_batch("Svd", partial(np.linalg.svd, full_matrices=full_matrices), input)


def qr(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return Q and R."""
    return list(np.linalg.qr(input, mode="complete" if full_matrices else "reduced"))


def lu(input: Array) -> list[Array]:
    """Return L, U and the permutation of rows.

    Panels of columns are eliminated one column after the other, and what is to the right of a panel by two products,
    in which nearly all of the work is done.
    """
    *batch, rows, columns = input.shape
    least = min(rows, columns)
    x = np.array(input).reshape(prod(batch), rows, columns)
    order = np.broadcast_to(np.arange(rows, dtype=np.int32), (len(x), rows)).copy()
    every = np.arange(len(x))
    with np.errstate(all="ignore"):
        for start in range(0, least, MAX_UNBLOCKED_COLUMNS):
            end = min(start + MAX_UNBLOCKED_COLUMNS, least)
            for k in range(start, end):
                pivot = k + _pivot_sizes(x[:, k:, k]).argmax(-1)
                for exchanged in (x, order):
                    top = exchanged[:, k].copy()
                    exchanged[:, k] = exchanged[every, pivot]
                    exchanged[every, pivot] = top
                divisor = x[:, k, k, None]
                # A column of zeros needs no elimination.
                x[:, k + 1 :, k] = np.where(divisor == 0, 0, x[:, k + 1 :, k] / divisor)
                x[:, k + 1 :, k + 1 : end] -= x[:, k + 1 :, k, None] * x[:, k, None, k + 1 : end]
            if end < columns:
                panel, right = x[:, :, start:end], x[:, :, end:]
                solved = _substitute(panel[:, start:end], right[:, start:end], True, True)
                right[:, start:end] = solved
                right[:, end:] -= panel[:, end:] @ solved
    lower = np.tril(x[:, :, :least], -1) + np.eye(rows, least, dtype=x.dtype)
    upper = np.triu(x[:, :least])
    return [
        lower.reshape(*batch, rows, least),
        upper.reshape(*batch, least, columns),
        order.reshape(*batch, rows),
    ]


def _pivot_sizes(x: Array) -> Array:
    """Return the sizes that LAPACK compares for pivots: absolute values, or |re| + |im| of complex numbers."""
    return np.abs(np.real(x)) + np.abs(np.imag(x))


def triangular_solve(matrix: Array, rhs: Array, *, lower: bool, unit_diagonal: bool) -> Array:
    """Return X, where matrix @ X = rhs for triangular matrices."""
    with np.errstate(all="ignore"):
        return _substitute(matrix, rhs, lower, unit_diagonal)


def _substitute(matrix: Array, rhs: Array, lower: bool, unit_diagonal: bool) -> Array:
    """Solve a triangular system recursively by halves, small ones row by row."""
    n = matrix.shape[-1]
    if n > MAX_UNBLOCKED_COLUMNS:
        half = n // 2
        first, last = slice(0, half), slice(half, n)
        if not lower:
            first, last = last, first
        x = _substitute(matrix[..., first, first], rhs[..., first, :], lower, unit_diagonal)
        rest = rhs[..., last, :] - matrix[..., last, first] @ x
        y = _substitute(matrix[..., last, last], rest, lower, unit_diagonal)
        return np.concatenate((x, y) if lower else (y, x), axis=-2)
    batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    found = np.empty((*batch, *rhs.shape[-2:]), rhs.dtype)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        row = rhs[..., i, :] - (matrix[..., i, None, known] @ found[..., known, :])[..., 0, :]
        found[..., i, :] = row if unit_diagonal else row / matrix[..., i, i, None]
    return found


def eig(input: Array) -> list[Array]:
    """Return eigenvalues and eigenvectors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    dtype = COMPLEX_DTYPE_OF_DTYPE[
        as_dtype(input.dtype)
    ].numpy  # where all are real, NumPy gives real numbers
    return [x.astype(dtype, copy=False) for x in _factor_batch("Eig", np.linalg.eig, input)]


def _factor_batch(kernel_name: str, function: Any, input: Array) -> list[Array]:
    """Return the factors of each matrix; the batch is flat in between, because NumPy has a limit of 64 axes."""
    batch, matrix = input.shape[:-2], input.shape[-2:]
    found = call_lapack(
        kernel_name, NOT_FACTORED_MESSAGE, function, input.reshape(prod(batch), *matrix)
    )
    return [x.reshape(*batch, *x.shape[1:]) for x in found]


def call_lapack(kernel_name: str, failure_message: str, function: Any, *arrays: Array) -> Any:
    """Return the results of a function of `numpy.linalg` for arrays; `failure_message` ends the error if it fails.

    Raises:
        ArgumentValueError: the function fails; the message says why.
    """
    try:
        with np.errstate(all="ignore"):
            return function(*arrays)
    except np.linalg.LinAlgError:
        raise ArgumentValueError(
            f"{kernel_name}: a matrix of shape {arrays[0].shape[-2:]} {failure_message.format(n=arrays[0].shape[-1])}"
        ) from None


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    decomposition.cholesky: cholesky,
    decomposition.inverse: inverse,
    decomposition.solve: solve,
    decomposition.determinant: determinant,
    decomposition.log_determinant: log_determinant,
    decomposition.eigh: eigh,
    decomposition.svd: svd,
    decomposition.qr: qr,
    decomposition.lu: lu,
    decomposition.triangular_solve: triangular_solve,
    decomposition.eig: eig,
}
"""By kernel, the NumPy function that computes it."""
