"""Test rows of cumulative sums and products."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from itertools import product

import numpy as np

import plugrad
from plugrad.kernels import scan
from plugrad.tensor.tensor import Tensor
from plugrad.testing.rows import Array, Row, numbers

SCAN_FLAGS = list(product((False, True), repeat=2))
"""Pairs of flags: whether an element is left out of its own sum, and whether sums run backwards."""


def accumulate(x: Array, join: np.ufunc, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative results of the ufunc `join` along an axis, exclusive or reversed if asked."""
    x = np.moveaxis(x, axis, 0)
    result = np.empty_like(x)
    so_far = np.full(x.shape[1:], join.identity, x.dtype)
    for i in reversed(range(len(x))) if reverse else range(len(x)):
        following = join(so_far, x[i]).astype(x.dtype)
        result[i] = so_far if exclusive else following
        so_far = following
    return np.moveaxis(result, 0, axis)


def as_kernel_scan(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return an op as a function that keeps the dtype, which the op widens unless told."""
    return lambda x, **attrs: op(x, dtype=x.dtype, **attrs)


TEST_ROWS = [
    Row(
        kernel,
        lambda x, options=(join, axis, *way): accumulate(x, *options),
        [numbers(-2, 2, shape=shape)],
        {"axis": axis, "exclusive": way[0], "reverse": way[1]},
        is_edge=0 in shape,
        op=as_kernel_scan(op),
    )
    for kernel, op, join in [
        (scan.cumsum, plugrad.cumulative_sum, np.add),
        (scan.cumprod, plugrad.cumulative_prod, np.multiply),
    ]
    for shape, axis, ways in [
        ((4, 5), 0, SCAN_FLAGS),
        ((4, 5), 1, SCAN_FLAGS),
        ((7,), 0, SCAN_FLAGS[:1]),
        ((1,), 0, SCAN_FLAGS[:1]),
        ((3, 5, 2), 1, SCAN_FLAGS[-1:]),
        ((2, 1, 3, 2), 1, SCAN_FLAGS[:1]),
        ((0,), 0, SCAN_FLAGS[:1]),
        ((3, 0), 1, SCAN_FLAGS[:1]),
        ((2, 0, 3), 1, SCAN_FLAGS[:1]),
        ((2, 0, 3), 2, SCAN_FLAGS[:1]),
    ]
    for way in ways
]
