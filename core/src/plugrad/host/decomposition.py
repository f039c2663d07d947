"""Factorizations through NumPy, which takes them from LAPACK."""

from functools import partial
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError
from plugrad.kernels import decomposition

Array = NDArray[Any]
INDEFINITE_MESSAGE = (
    "is not positive definite; a small multiple of eye({n}) added to a semidefinite one makes it so"
)
SINGULAR_MESSAGE = (
    "is singular or not finite; linalg.pinv gives the Moore-Penrose inverse of a singular one"
)
NOT_FACTORED_MESSAGE = "has no factors that could be found; its elements must be finite"


def cholesky(input: Array) -> Array:
    """Return the lower triangular factors.

    Raises:
        ArgumentValueError: a matrix is not positive definite.
    """
    return np.asarray(_call_lapack("Cholesky", INDEFINITE_MESSAGE, np.linalg.cholesky, input))


def inverse(input: Array) -> Array:
    """Return the inverse matrices.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(_call_lapack("MatrixInverse", SINGULAR_MESSAGE, np.linalg.inv, input))


def solve(matrix: Array, rhs: Array) -> Array:
    """Return the solutions.

    Raises:
        ArgumentValueError: a matrix is singular.
    """
    return np.asarray(_call_lapack("MatrixSolve", SINGULAR_MESSAGE, np.linalg.solve, matrix, rhs))


def determinant(input: Array) -> Array:
    """Return the determinants."""
    with np.errstate(all="ignore"):
        return _propagate_nan(np.linalg.det(input), input)


def log_determinant(input: Array) -> list[Array]:
    """Return signs and logarithms."""
    with np.errstate(all="ignore"):
        sign, log = np.linalg.slogdet(input)
    return [_propagate_nan(sign, input), _propagate_nan(log, input)]


def _propagate_nan(found: Array, input: Array) -> Array:
    """Set the results of matrices that hold NaN to NaN, because LAPACK may overlook one."""
    return np.where(np.isnan(input).any((-2, -1)), np.nan, found)


def eigh(input: Array) -> list[Array]:
    """Return eigenvalues and eigenvectors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    return _factor_batch("Eigh", np.linalg.eigh, input)


def svd(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return the three factors.

    Raises:
        ArgumentValueError: the method does not converge.
    """
    return _factor_batch("Svd", partial(np.linalg.svd, full_matrices=full_matrices), input)


def qr(input: Array, *, full_matrices: bool) -> list[Array]:
    """Return both factors."""
    return list(np.linalg.qr(input, mode="complete" if full_matrices else "reduced"))


def _factor_batch(name: str, function: Any, input: Array) -> list[Array]:
    """Factor each matrix; the batch axes are flattened, because NumPy refuses 64 axes."""
    batch, matrix = input.shape[:-2], input.shape[-2:]
    found = _call_lapack(name, NOT_FACTORED_MESSAGE, function, input.reshape(prod(batch), *matrix))
    return [x.reshape(*batch, *x.shape[1:]) for x in found]


def _call_lapack(name: str, trouble: str, function: Any, *arrays: Array) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*arrays)
    except np.linalg.LinAlgError:
        raise ArgumentValueError(
            f"{name}: a matrix of shape {arrays[0].shape[-2:]} {trouble.format(n=arrays[0].shape[-1])}"
        ) from None


BODIES: Final[dict[Kernel[..., Any], Any]] = {
    decomposition.cholesky: cholesky,
    decomposition.inverse: inverse,
    decomposition.solve: solve,
    decomposition.determinant: determinant,
    decomposition.log_determinant: log_determinant,
    decomposition.eigh: eigh,
    decomposition.svd: svd,
    decomposition.qr: qr,
}
