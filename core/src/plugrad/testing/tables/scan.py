"""Sums and products up to each element."""

import numpy as np

from plugrad.kernels import scan
from plugrad.testing.rows import Array, Row, numbers

SHAPE = (2, 5, 3)


def scanned(x: Array, join: np.ufunc, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return what has been joined so far, one element after the other."""
    x = np.moveaxis(x, axis, 0)
    result = np.empty_like(x)
    so_far = np.full(x.shape[1:], join.identity, x.dtype)
    for i in reversed(range(len(x))) if reverse else range(len(x)):
        following = join(so_far, x[i]).astype(x.dtype)
        result[i] = so_far if exclusive else following
        so_far = following
    return np.moveaxis(result, 0, axis)


ROWS = [
    Row(
        kernel,
        lambda x, options=options: scanned(x, *options),
        [numbers(0.5, 2, shape=shape)],
        {"axis": axis, "exclusive": exclusive, "reverse": reverse},
        is_edge=0 in shape,
    )
    for kernel, join in [(scan.cumsum, np.add), (scan.cumprod, np.multiply)]
    for shape, axis, exclusive, reverse in [
        (SHAPE, 1, False, False),
        (SHAPE, 0, True, False),
        (SHAPE, 2, False, True),
        (SHAPE, 1, True, True),
        ((2, 0, 3), 1, False, False),
    ]
    for options in [(join, axis, exclusive, reverse)]
]
