"""Factorizations through NumPy, which takes them from LAPACK."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plugrad.errors import ArgumentValueError
from plugrad.kernels import decomposition

Array = NDArray[Any]
UNBOUNDED = "has no factors that could be found; its elements must be finite"


def cholesky(input: Array) -> Array:
    """Return the lower triangular factors.

    Raises:
        ArgumentValueError: a matrix is not positive definite.
    """
    return np.asarray(_solved("Cholesky", "is not positive definite", np.linalg.cholesky, input))


def inverse(input: Array) -> Array:
    """Return the inverse matrices.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(_solved("MatrixInverse", "is singular", np.linalg.inv, input))


def solve(matrix: Array, rhs: Array) -> Array:
    """Return the solutions.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(_solved("MatrixSolve", "is singular", np.linalg.solve, matrix, rhs))


def determinant(input: Array) -> Array:
    """Return the determinants."""
    return np.asarray(np.linalg.det(input))


def log_determinant(input: Array) -> list[Array]:
    """Return signs and logarithms."""
    sign, log = np.linalg.slogdet(input)
    return [np.asarray(sign), np.asarray(log)]


def eigh(input: Array) -> list[Array]:
    """Return eigenvalues and eigenvectors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    return list(_solved("Eigh", UNBOUNDED, np.linalg.eigh, input))


def svd(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return the three factors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    factors = partial(np.linalg.svd, full_matrices=full_matrices)
    return list(_solved("Svd", UNBOUNDED, factors, input))


def qr(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return both factors."""
    return list(np.linalg.qr(input, mode="complete" if full_matrices else "reduced"))


def _solved(name: str, trouble: str, function: Any, *arrays: Array) -> Any:
    try:
        return function(*arrays)
    except np.linalg.LinAlgError:
        raise ArgumentValueError(
            f"{name}: a matrix of shape {arrays[0].shape[-2:]} {trouble}"
        ) from None


BODIES = {
    decomposition.cholesky: cholesky,
    decomposition.inverse: inverse,
    decomposition.solve: solve,
    decomposition.determinant: determinant,
    decomposition.log_determinant: log_determinant,
    decomposition.eigh: eigh,
    decomposition.svd: svd,
    decomposition.qr: qr,
}
