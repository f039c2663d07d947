"""Test rows of the functions of square matrices, compared with eigenvectors and Kronecker products."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import numpy as np

from plugrad.kernels import matrix_functions
from plugrad.testing.rows import Array, Row, arbitrary_numbers
from plugrad.testing.tables.decomposition import (
    MATRIX_DTYPES,
    positive_definite,
    well_conditioned,
    with_separated_eigenvalues,
)


def square_root(x: Array) -> Array:
    """Return the real square roots of matrices with positive eigenvalues."""
    values, vectors = np.linalg.eig(x)
    found = (vectors * np.sqrt(values + 0j)[..., None, :]) @ np.linalg.inv(vectors)
    return found if np.iscomplexobj(x) else found.real


def sylvester_solve(a: Array, b: Array, rhs: Array) -> Array:
    """Return X, where a @ X + X @ b = rhs, from one system of linear equations for all elements of X."""
    rows, columns = rhs.shape[-2:]
    system = np.einsum("...ij,kl->...ikjl", a, np.eye(columns)) + np.einsum(
        "ij,...lk->...ikjl", np.eye(rows), b
    )
    size = rows * columns
    system = system.reshape(*system.shape[:-4], size, size)
    flat = rhs.reshape(*rhs.shape[:-2], size, 1)
    batch = np.broadcast_shapes(system.shape[:-2], rhs.shape[:-2])
    return np.linalg.solve(system, flat).reshape(*batch, rows, columns)


TEST_ROWS = [
    *(
        Row(
            matrix_functions.square_root,
            square_root,
            [draw(*shape)],
            dtypes=MATRIX_DTYPES,
            tolerance_factor=16,
            is_edge=0 in shape,
        )
        for draw, shape in [
            (with_separated_eigenvalues, (3, 3)),
            (positive_definite, (2, 4, 4)),
            (positive_definite, (1, 2, 2)),
            (with_separated_eigenvalues, (0, 2, 2)),
        ]
    ),
    *(
        Row(
            matrix_functions.sylvester_solve,
            sylvester_solve,
            [well_conditioned(*a), well_conditioned(*b), arbitrary_numbers(*rhs)],
            dtypes=MATRIX_DTYPES,
            tolerance_factor=16,
            is_edge=0 in a + b + rhs,
        )
        for a, b, rhs in [
            ((3, 3), (2, 2), (3, 2)),
            ((2, 1, 2, 2), (2, 2), (3, 2, 2)),
            ((1, 1), (3, 3), (1, 3)),
            ((2, 2), (0, 2, 2), (2, 2)),
        ]
    ),
]
