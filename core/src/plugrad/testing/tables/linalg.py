"""Products of matrices, and their diagonals."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import numpy as np

from plugrad.kernels import linalg
from plugrad.testing.rows import FLOATS, NUMBERS, Array, Row, of_shape, these


def band(x: Array, lower: Array, upper: Array) -> Array:
    """Return the diagonals of matrices from so many below to so many above; negative is all."""
    below = np.arange(x.shape[-2])[:, None] - np.arange(x.shape[-1])
    kept = ((below <= lower) | (lower < 0)) & ((-below <= upper) | (upper < 0))
    return np.where(kept, x, np.zeros((), x.dtype))


ROWS = [
    *(
        Row(
            linalg.matmul,
            lambda a, b, ta=ta, tb=tb: (
                (a.swapaxes(-1, -2) if ta else a) @ (b.swapaxes(-1, -2) if tb else b)
            ),
            [of_shape(*a), of_shape(*b)],
            {"transpose_a": ta, "transpose_b": tb},
            is_edge=0 in (*a, *b),
        )
        for a, b, ta, tb in [
            ((3, 4), (4, 5), False, False),
            ((4, 3), (4, 5), True, False),
            ((3, 4), (5, 4), False, True),
            ((4, 3), (5, 4), True, True),
            ((2, 3, 4), (2, 4, 5), False, False),
            ((2, 1, 3, 4), (6, 4, 5), False, False),
            ((17, 33), (33, 9), False, False),
            ((0, 3), (3, 2), False, False),
            ((2, 0), (0, 3), False, False),
        ]
    ),
    Row(  # 0 times infinity is no number
        linalg.matmul,
        np.matmul,
        [these([[0, 1], [1, 1]]), these([[np.inf, 1], [1, np.nan]])],
        {"transpose_a": False, "transpose_b": False},
        dtypes=FLOATS,
        is_edge=True,
    ),
    *(
        Row(
            linalg.einsum,
            lambda *xs, e=equation: np.einsum(e, *xs),
            [of_shape(*shape) for shape in shapes],
            {"equation": equation},
        )
        for equation, shapes in [
            ("ij,jk->ik", [(3, 4), (4, 5)]),
            ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)]),
            ("ij->ji", [(3, 4)]),
            ("ij->", [(3, 4)]),
            ("i,j,k->kij", [(2,), (3,), (4,)]),
        ]
    ),
    *(
        Row(
            linalg.band_part,
            band,
            [of_shape(2, 4, 5), these(lower, "int32"), these(upper, "int32")],
            dtypes=NUMBERS,
        )
        for lower, upper in [(1, 2), (0, 0), (-1, 1), (0, -1)]
    ),
    Row(linalg.diag, np.diag, [of_shape(4)], dtypes=NUMBERS),
    Row(
        linalg.diag,
        lambda x: np.diag(x.reshape(-1)).reshape(2, 3, 2, 3),
        [of_shape(2, 3)],
        dtypes=NUMBERS,
    ),
    Row(linalg.diag_part, np.diag, [of_shape(4, 4)], dtypes=NUMBERS),
    Row(
        linalg.diag_part,
        lambda x: np.diag(x.reshape(6, 6)).reshape(2, 3),
        [of_shape(2, 3, 2, 3)],
        dtypes=NUMBERS,
    ),
]
