"""Square roots of matrices and Sylvester's equation, by Schur's form in double precision."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError
from plugrad.host.decomposition import NOT_FACTORED_MESSAGE, call_lapack
from plugrad.kernels import matrix_functions

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
DOUBLE_EPSILON: Final = float(np.finfo(np.float64).eps)
"""The distance from 1 to the next double."""
BLOCK_ROWS: Final = 32
"""The most rows of a triangular system that LAPACK solves, which does not know that it is triangular."""


def square_root(input: Array) -> Array:
    """Return the principal square roots (Björck and Hammarling, 1983).

    Raises:
        ArgumentValueError: the eigenvalues could not be found.
    """
    if not input.size:
        return input.copy()
    n = input.shape[-1]
    triangle, unitary, values = _schur("MatrixSquareRoot", input)
    sizes = np.linalg.norm(triangle, axis=(-2, -1))[:, None]
    limit = n * np.finfo(input.dtype).eps * sizes  # up to which numbers may be what was rounded
    diagonal = np.einsum("bii->bi", triangle)
    diagonal[(np.real(diagonal) < 0) & (np.abs(diagonal) <= limit)] = 0
    with np.errstate(all="ignore"):
        found = unitary @ _triangular_root(triangle, limit) @ _conjugate_transpose(unitary)
    if input.dtype.kind != "c":
        is_negative = np.any((np.real(values) < -limit) & (np.imag(values) == 0), -1)
        found = np.where(is_negative[:, None, None], np.nan, np.real(found))
    return found.reshape(input.shape).astype(input.dtype)


def sylvester_solve(a: Array, b: Array, rhs: Array) -> Array:
    """Return X, where a @ X + X @ b = rhs (Bartels and Stewart, 1972).

    Raises:
        ArgumentValueError: the eigenvalues could not be found.
    """
    rows, columns = rhs.shape[-2:]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], rhs.shape[:-2])
    a, b, full = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b, rhs))
    if not full.size:
        return full.copy()
    left, u, _ = _schur("SylvesterSolve", a)
    right, v, _ = _schur("SylvesterSolve", b)
    with np.errstate(all="ignore"):
        turned = _conjugate_transpose(u) @ full.reshape(-1, rows, columns) @ v
        found = (
            u @ _solve_triangles(left, right, turned, np.zeros((1, 1))) @ _conjugate_transpose(v)
        )
    found = found if rhs.dtype.kind == "c" else np.real(found)
    return found.reshape(full.shape).astype(rhs.dtype)


def _triangular_root(x: Array, zero_limit: Array) -> Array:
    """Return the square roots of upper triangular matrices, by columns, or by halves of large ones."""
    n = x.shape[-1]
    found = np.zeros_like(x)
    if n <= BLOCK_ROWS:
        for j in range(n):
            root = found[:, j, j] = np.sqrt(x[:, j, j])
            found[:, :j, j] = _solve_shifted(found[:, :j, :j], root, x[:, :j, j], zero_limit)
        return found
    first, last = slice(0, n // 2), slice(n // 2, n)
    for half in (first, last):
        found[:, half, half] = _triangular_root(x[:, half, half], zero_limit)
    found[:, first, last] = _solve_triangles(
        found[:, first, first], found[:, last, last], x[:, first, last], zero_limit
    )
    return found


def _solve_triangles(a: Array, b: Array, rhs: Array, zero_limit: Array) -> Array:
    """Return X, where a X + X b = rhs for upper triangular matrices, by columns, or by halves of many rows."""
    rows, columns = rhs.shape[-2:]
    found = np.empty_like(rhs)
    if rows <= BLOCK_ROWS:
        for j in range(columns):
            known = (found[:, :, :j] @ b[:, :j, j, None])[..., 0]
            found[:, :, j] = _solve_shifted(a, b[:, j, j], rhs[:, :, j] - known, zero_limit)
        return found
    first, last = slice(0, rows // 2), slice(rows // 2, rows)
    found[:, last] = _solve_triangles(a[:, last, last], b, rhs[:, last], zero_limit)
    rest = rhs[:, first] - a[:, first, last] @ found[:, last]
    found[:, first] = _solve_triangles(a[:, first, first], b, rest, zero_limit)
    return found


def _solve_shifted(triangle: Array, shift: Array, rhs: Array, zero_limit: Array) -> Array:
    """Return x, where (triangle + shift) x = rhs; for a 0 on the diagonal, 0 if 0 = rhs up to the limit, else NaN."""
    matrix = triangle + shift[:, None, None] * np.eye(triangle.shape[-1])
    diagonal = np.einsum("bii->bi", matrix)
    is_singular = diagonal == 0
    diagonal += is_singular
    found = np.linalg.solve(matrix, rhs[..., None])[..., 0]
    return np.where(is_singular, np.where(np.abs(found) <= zero_limit, 0, np.nan), found)


def _conjugate_transpose(x: Array) -> Array:
    """Return the conjugate transpose of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def _schur(kernel_name: str, input: Array) -> tuple[Array, Array, Array]:
    """Return triangular T and unitary U, where input = U T Uᴴ, and the eigenvalues, in double precision.

    Eigenvectors made orthogonal give them at once, unless some of them nearly coincide.
    """
    n = input.shape[-1]
    x = input.reshape(-1, n, n).astype(np.complex128 if input.dtype.kind == "c" else np.float64)
    values, vectors = call_lapack(kernel_name, NOT_FACTORED_MESSAGE, np.linalg.eig, x)
    unitary = np.linalg.qr(vectors)[0].astype(np.complex128)
    triangle = _conjugate_transpose(unitary) @ x @ unitary
    sizes = np.linalg.norm(x, axis=(-2, -1))
    rests = np.linalg.norm(np.tril(triangle, -1), axis=(-2, -1))
    for k in np.flatnonzero(rests > 8 * n * DOUBLE_EPSILON * sizes):
        _make_triangular(kernel_name, triangle[k], unitary[k], sizes[k])
    return np.triu(triangle), unitary, values


def _make_triangular(
    kernel_name: str, x: Array, unitary_matrix: Array, frobenius_norm: float
) -> None:
    """Make x triangular in place by QR steps with Wilkinson's shifts, and rotate the unitary matrix in the same way."""
    end, steps = len(x), 0
    while end > 1:
        if np.linalg.norm(x[end - 1, : end - 1]) <= DOUBLE_EPSILON * frobenius_norm:
            end -= 1
            continue
        steps += 1
        if steps > 30 * len(x):
            raise ArgumentValueError(
                f"{kernel_name}: a matrix of shape {x.shape} {NOT_FACTORED_MESSAGE}"
            )
        shifts = np.linalg.eigvals(x[end - 2 : end, end - 2 : end])
        shift = shifts[np.abs(shifts - x[end - 1, end - 1]).argmin()]
        q = np.linalg.qr(x[:end, :end] - shift * np.eye(end))[0]
        x[:end] = _conjugate_transpose(q) @ x[:end]
        x[:, :end] = x[:, :end] @ q
        unitary_matrix[:, :end] = unitary_matrix[:, :end] @ q


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    matrix_functions.square_root: square_root,
    matrix_functions.sylvester_solve: sylvester_solve,
}
"""By kernel, the NumPy function that computes it."""
