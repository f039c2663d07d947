"""bfloat16 on cpu: arrays with the dtype of `ml_dtypes`, moved as they are and computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import Kernel, compute_in_float32, known_bfloat16
from plugrad.kernels import binary, creation, indexing, movement, rearrangement, scatter, unary

if TYPE_CHECKING:
    from plugrad.extend import DType, Implementation
    from plugrad_cpu.declare import Array

STORED: Final[frozenset[str]] = frozenset(
    kernel.name
    for kernel in (
        *(value for family in (movement, rearrangement) for value in vars(family).values()),
        *(creation.fill, creation.ones_like, creation.zeros_like),
        *(indexing.gather, indexing.gather_nd, indexing.one_hot, scatter.tensor_scatter_update),
        *(binary.next_after, unary.cast, unary.identity),
    )
    if isinstance(kernel, Kernel)
)
"""The kernels that take arrays of bfloat16 as they are: they move elements, convert them, or look at their bits."""


def with_bfloat16(
    kernel: Kernel[..., object], function: Implementation, cast: Implementation
) -> Implementation:
    """Return an implementation that also takes bfloat16: it is moved as it is, and computed in float32."""
    if kernel.name in STORED:
        return function
    return compute_in_float32(kernel, function, cast, known_bfloat16())


def round_to_bfloat16(x: Array, dtype: DType) -> Array:
    """Return numbers of any real dtype in bfloat16, rounded once, half to even.

    NumPy's cast rounds to float32 first, which is harmless if that result is odd where it is not exact.
    """
    if x.dtype.itemsize < 4 or x.dtype == np.float32:  # float32 holds them
        return x.astype(dtype.numpy)
    exact = x.astype(np.float64, copy=False)
    y = exact.astype(np.float32)
    bits = y.view(np.uint32)
    wide = y.astype(np.float64)
    inexact = (wide != exact) & ~np.isnan(exact)
    bits[...] = np.where(inexact, (bits - (np.abs(wide) > np.abs(exact))) | 1, bits)
    return y.astype(dtype.numpy)
