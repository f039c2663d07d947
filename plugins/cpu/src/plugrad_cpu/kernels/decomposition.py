"""Factorizations through NumPy, which takes them from LAPACK."""

from typing import Any

import numpy as np

from plugrad.extend import ArgumentValueError
from plugrad.kernels import decomposition
from plugrad_cpu.declare import Array, table


@table.implements(decomposition.cholesky)
def cholesky(input: Array) -> Array:
    """Return the lower triangular factors.

    Raises:
        ArgumentValueError: a matrix is not positive definite.
    """
    return _solved("Cholesky", "is not positive definite", np.linalg.cholesky, input)


@table.implements(decomposition.inverse)
def inverse(input: Array) -> Array:
    """Return the inverse matrices.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return _solved("MatrixInverse", "is singular", np.linalg.inv, input)


@table.implements(decomposition.solve)
def solve(matrix: Array, rhs: Array) -> Array:
    """Return the solutions.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return _solved("MatrixSolve", "is singular", np.linalg.solve, matrix, rhs)


@table.implements(decomposition.determinant)
def determinant(input: Array) -> Array:
    """Return the determinants."""
    return np.asarray(np.linalg.det(input))


@table.implements(decomposition.log_determinant)
def log_determinant(input: Array) -> list[Array]:
    """Return signs and logarithms."""
    sign, log = np.linalg.slogdet(input)
    return [np.asarray(sign), np.asarray(log)]


@table.implements(decomposition.eigh)
def eigh(input: Array) -> list[Array]:
    """Return eigenvalues and eigenvectors."""
    return list(np.linalg.eigh(input))


@table.implements(decomposition.svd)
def svd(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return the three factors."""
    return list(np.linalg.svd(input, full_matrices=full_matrices))


@table.implements(decomposition.qr)
def qr(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return both factors."""
    return list(np.linalg.qr(input, mode="complete" if full_matrices else "reduced"))


def _solved(name: str, trouble: str, function: Any, *arrays: Array) -> Array:
    try:
        return np.asarray(function(*arrays))
    except np.linalg.LinAlgError:
        raise ArgumentValueError(
            f"{name}: a matrix of shape {arrays[0].shape[-2:]} {trouble}"
        ) from None
