"""Test rows of matrix products and of the diagonals of matrices."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from itertools import product
from typing import Any

import numpy as np

import plugrad
from plugrad.kernels import linalg
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    NUMBER_DTYPES,
    Array,
    Row,
    arbitrary_numbers,
    fixed_values,
)

TRANSPOSE_FLAGS = list(product((False, True), repeat=2))
"""All pairs of flags: whether the left and whether the right matrix is transposed."""
EINSUM_CASES: list[Any] = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bij,bjk->bki", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (5,), (5,)),
    ("ij,kl->il", (3, 4), (2, 5)),  # a summed letter of its own in both operands
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("i,j,k->kij", (2,), (3,), (4,)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("i,->i", (3,), ()),
    ("ab,bc->ca", (0, 3), (3, 2)),
]
"""An equation and the shapes of the inputs of each case."""


def band_part(x: Array, lower: Array, upper: Array) -> Array:
    """Keep `lower` diagonals below and `upper` above the main one, all if negative; set the others to 0."""
    below = np.arange(x.shape[-2])[:, None] - np.arange(x.shape[-1])
    kept = ((below <= lower) | (lower < 0)) & ((-below <= upper) | (upper < 0))
    return np.where(kept, x, np.zeros((), x.dtype))


def diagonal(x: Array) -> Array:
    """Return the elements whose first half of coordinates equals the second."""
    shape = x.shape[: x.ndim // 2]
    size = int(np.prod(shape))
    return np.diag(x.reshape(size, size)).reshape(shape)


def transpose_shape_if(shape: tuple[int, ...], is_transposed: bool) -> tuple[int, ...]:
    """Return a shape with the last two sizes exchanged if `is_transposed`."""
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


TEST_ROWS = [
    *(
        Row(
            linalg.matmul,
            lambda a, b, ta=ta, tb=tb: (
                (a.swapaxes(-1, -2) if ta else a) @ (b.swapaxes(-1, -2) if tb else b)
            ),
            [
                arbitrary_numbers(*transpose_shape_if(a, ta)),
                arbitrary_numbers(*transpose_shape_if(b, tb)),
            ],
            {"transpose_a": ta, "transpose_b": tb},
            is_edge=0 in (*a, *b),
        )
        for a, b, flags in [
            ((3, 5), (5, 7), TRANSPOSE_FLAGS),
            ((2, 1, 3, 5), (4, 5, 7), TRANSPOSE_FLAGS),
            ((1, 1), (1, 1), TRANSPOSE_FLAGS[:1]),
            ((1, 5), (5, 1), TRANSPOSE_FLAGS[:1]),
            ((3, 1), (1, 7), TRANSPOSE_FLAGS[:1]),
            ((2, 3, 5), (2, 5, 7), TRANSPOSE_FLAGS[:1]),
            ((2, 3, 5), (5, 7), TRANSPOSE_FLAGS[:1]),
            ((3, 5), (2, 5, 7), TRANSPOSE_FLAGS[:1]),
            ((17, 33), (33, 9), TRANSPOSE_FLAGS[:1]),
            ((0, 3), (3, 2), TRANSPOSE_FLAGS[:1]),
            ((2, 0), (0, 3), TRANSPOSE_FLAGS[:1]),
        ]
        for ta, tb in flags
    ),
    Row(  # 0 times infinity is no number
        linalg.matmul,
        np.matmul,
        [fixed_values([[0, 1], [1, 1]]), fixed_values([[np.inf, 1], [1, np.nan]])],
        {"transpose_a": False, "transpose_b": False},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
    ),
    *(
        Row(
            linalg.einsum,
            lambda *xs, e=equation: np.asarray(np.einsum(e, *xs)),
            [arbitrary_numbers(*shape) for shape in shapes],
            {"equation": equation},
            op=lambda xs, *, equation: plugrad.einsum(equation, *xs),
            is_edge=any(0 in shape for shape in shapes),
        )
        for equation, *shapes in EINSUM_CASES
    ),
    *(
        Row(
            linalg.band_part,
            band_part,
            [arbitrary_numbers(*shape), fixed_values(lower, "int32"), fixed_values(upper, "int32")],
            dtypes=NUMBER_DTYPES,
            is_edge=0 in shape,
        )
        for shape in [(4, 5), (5, 3), (2, 3, 3), (1, 1), (0, 3)]
        for lower, upper in [(0, 0), (1, 2), (-1, 0), (0, -1), (-1, -1), (5, 1)]
    ),
    *(
        Row(
            linalg.diag,
            lambda x: np.diag(x.reshape(-1)).reshape(x.shape * 2),
            [arbitrary_numbers(*shape)],
            dtypes=NUMBER_DTYPES,
            is_edge=0 in shape,
        )
        for shape in [(3,), (2, 3), (), (0,)]
    ),
    *(
        Row(linalg.diag_part, diagonal, [arbitrary_numbers(*shape)], dtypes=NUMBER_DTYPES)
        for shape in [(3, 3), (1, 1), (2, 3, 2, 3)]
    ),
]
