"""Test rows of factorizations: factors that are not unique are multiplied, and compared with the matrix."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import decomposition
from plugrad.tensor.tensor import Tensor
from plugrad.testing.rows import Array, Input, Row, arbitrary_numbers, numbers

MATRIX_DTYPES = ("float32", "float64", "complex64", "complex128")


def adjoint(x: Array) -> Array:
    """Return the conjugate transpose of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def well_conditioned(*shape: int) -> Input:
    """Return an input of well-conditioned matrices: random ones plus a diagonal."""
    inner = arbitrary_numbers(*shape)
    diagonal = 4 * np.eye(shape[-2], shape[-1]) * np.arange(1, shape[-1] + 1)
    return replace(inner, draw=lambda *given: (inner.draw(*given) + diagonal).astype(given[2]))


def with_separated_eigenvalues(*shape: int) -> Input:
    """Return an input of matrices with real, well-separated eigenvalues."""
    inner = well_conditioned(*shape)
    diagonal = 8 * np.eye(shape[-1]) * np.arange(1, shape[-1] + 1)
    return replace(inner, draw=lambda *given: (inner.draw(*given) + diagonal).astype(given[2]))


def positive_definite(*shape: int) -> Input:
    """Return an input of Hermitian, positive definite matrices."""
    inner = well_conditioned(*shape)

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
        x = inner.draw(rng, shape, dtype) / 4
        return (x @ adjoint(x) + np.eye(shape[-1])).astype(dtype)

    return replace(inner, draw=draw)


def hermitian_part(x: Tensor) -> Tensor:
    """Return the symmetric part of a matrix, which kernels for Hermitian matrices may read as a whole."""
    return (x + x.mT) * 0.5


def gram_matrix(x: Array) -> Array:
    """Return the Gram matrix of the columns, which is the identity if they are orthonormal."""
    return adjoint(x) @ x


def rebuild_from_eigh(values: Array, vectors: Array) -> list[Array]:
    """Return the eigenvalues, the matrix that the factors give, and the Gram matrix of the eigenvectors."""
    return [values, vectors @ (values[..., None] * adjoint(vectors)), gram_matrix(vectors)]


def rebuild_from_svd(u: Array, s: Array, vh: Array) -> list[Array]:
    """Return the singular values, the matrix that the factors give, and the Gram matrices of both factors."""
    k = s.shape[-1]
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    return [s, product, gram_matrix(u), gram_matrix(adjoint(vh))]


def rebuild_from_qr(q: Array, r: Array) -> list[Array]:
    """Return the matrix that the factors give, the Gram matrix of Q, and the part of R that must be 0."""
    return [q @ r, gram_matrix(q), np.tril(r, -1)]


def triangular_part(matrix: Array, lower: bool, unit_diagonal: bool) -> Array:
    """Return a triangle of a matrix, with ones on the diagonal if `unit_diagonal`."""
    kept = np.tril(matrix) if lower else np.triu(matrix)
    eye = np.eye(matrix.shape[-1], dtype=bool)
    return np.where(eye, 1, kept) if unit_diagonal else kept


def rebuild_from_lu(lower: Array, upper: Array, permutation: Array) -> list[Array]:
    """Return the matrix that the factors give, the parts of them that must be 0 or 1, and the sorted permutation."""
    product = np.zeros((*lower.shape[:-1], upper.shape[-1]), lower.dtype)
    places = np.clip(permutation, 0, permutation.shape[-1] - 1).astype(
        np.int64
    )  # wrong ones differ when sorted
    np.put_along_axis(product, places[..., None], lower @ upper, axis=-2)
    return [product, np.triu(lower), np.tril(upper, -1), np.sort(permutation)]


def rebuild_from_eig(values: Array, vectors: Array) -> list[Array]:
    """Return the matrix that the factors give, and the lengths of the eigenvectors."""
    lengths = np.sqrt(np.sum(np.abs(vectors) ** 2, axis=-2))
    return [vectors * values[..., None, :] @ np.linalg.inv(vectors), lengths]


def identity_like(x: Array, n: int) -> Array:
    """Return identity matrices of size n, as many as there are matrices in x."""
    return np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n))


KERNELS_OF_ONE_INPUT: list[tuple[Kernel[..., Any], Callable[..., Any], Callable[..., Input]]] = [
    (decomposition.cholesky, np.linalg.cholesky, positive_definite),
    (decomposition.inverse, np.linalg.inv, well_conditioned),
    (decomposition.determinant, np.linalg.det, well_conditioned),
    (decomposition.log_determinant, lambda x: list(np.linalg.slogdet(x)), well_conditioned),
]
"""Kernels of one matrix, each with NumPy's function and the function that makes its input."""

TEST_ROWS = [
    *(
        Row(
            kernel,
            reference,
            [domain(*shape)],
            dtypes=MATRIX_DTYPES,
            tolerance_factor=4,
            is_edge=0 in shape,
            prepare_input=hermitian_part if kernel is decomposition.cholesky else None,
        )
        for kernel, reference, domain in KERNELS_OF_ONE_INPUT
        for shape in [(3, 3), (2, 4, 4), (1, 1), (0, 2, 2)]
    ),
    *(
        Row(
            decomposition.solve,
            np.linalg.solve,
            [well_conditioned(*matrix), arbitrary_numbers(*rhs)],
            dtypes=MATRIX_DTYPES,
            tolerance_factor=4,
        )
        for matrix, rhs in [((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), ((2, 1, 2, 2), (3, 2, 4))]
    ),
    *(
        Row(
            decomposition.eigh,
            lambda x: [np.linalg.eigvalsh(x), x, identity_like(x, x.shape[-1])],
            [positive_definite(*shape)],
            canonicalize=rebuild_from_eigh,
            dtypes=MATRIX_DTYPES,
            tolerance_factor=8,
            prepare_input=hermitian_part,
        )
        for shape in [(3, 3), (2, 4, 4)]
    ),
    *(
        Row(
            decomposition.svd,
            lambda x, full=full: [
                np.linalg.svd(x, compute_uv=False),
                x,
                identity_like(x, x.shape[-2] if full else min(x.shape[-2:])),
                identity_like(x, x.shape[-1] if full else min(x.shape[-2:])),
            ],
            [numbers(shape=shape)],
            {"full_matrices": full},
            canonicalize=rebuild_from_svd,
            dtypes=MATRIX_DTYPES,
            tolerance_factor=8,
            is_smooth=not full,
        )
        for shape in [(4, 3), (2, 3, 5)]
        for full in (False, True)
    ),
    *(
        Row(
            decomposition.qr,
            lambda x, full=full: [
                x,
                identity_like(x, x.shape[-2] if full else min(x.shape[-2:])),
                np.zeros((*x.shape[:-2], x.shape[-2] if full else min(x.shape[-2:]), x.shape[-1])),
            ],
            [numbers(shape=shape)],
            {"full_matrices": full},
            canonicalize=rebuild_from_qr,
            dtypes=MATRIX_DTYPES,
            tolerance_factor=8,
            is_smooth=not full,
        )
        for shape in [(4, 3), (2, 3, 5)]
        for full in (False, True)
    ),
    *(
        Row(
            decomposition.lu,
            lambda x: [
                x,
                np.broadcast_to(
                    np.eye(x.shape[-2], min(x.shape[-2:])), (*x.shape[:-1], min(x.shape[-2:]))
                ),
                np.zeros((*x.shape[:-2], min(x.shape[-2:]), x.shape[-1])),
                np.broadcast_to(np.arange(x.shape[-2], dtype=np.int32), x.shape[:-1]),
            ],
            [well_conditioned(*shape)],
            canonicalize=rebuild_from_lu,
            dtypes=MATRIX_DTYPES,
            tolerance_factor=8,
            is_edge=0 in shape,
        )
        for shape in [(3, 3), (2, 4, 3), (2, 5), (0, 2, 2)]
    ),
    *(
        Row(
            decomposition.triangular_solve,
            lambda matrix, rhs, lower=lower, unit=unit: np.linalg.solve(
                triangular_part(matrix, lower, unit), rhs
            ),
            [well_conditioned(*matrix), arbitrary_numbers(*rhs)],
            {"lower": lower, "unit_diagonal": unit},
            dtypes=MATRIX_DTYPES,
            tolerance_factor=8,
        )
        for matrix, rhs in [((3, 3), (3, 2)), ((2, 1, 2, 2), (3, 2, 4))]
        for lower in (False, True)
        for unit in (False, True)
    ),
    *(
        Row(
            decomposition.eig,
            lambda x: [x, np.ones(x.shape[:-1])],
            [with_separated_eigenvalues(*shape)],
            canonicalize=rebuild_from_eig,
            dtypes=MATRIX_DTYPES,
            tolerance_factor=16,
            is_edge=0 in shape,
        )
        for shape in [(3, 3), (2, 4, 4), (1, 2, 2), (0, 2, 2)]
    ),
]
