"""NumPy versions of shaders, for small arrays that stay on the host: they give the same bits.

Kernels have bodies only for what is rounded once or not at all. Compilers of shaders may combine two roundings,
and GPUs differ in the last bits of quotients and square roots. Comparisons decide about zeros and NaN as in the
shaders; the functions of NumPy for that leave it to the processor which of two zeros they return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import BOOL, FLOATING, INTEGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from plugrad.extend import DType

    Array = NDArray[Any]
    """An array of NumPy."""
    HostFunction = Callable[..., Array]
    """A function of NumPy arrays and numbers that computes a kernel on the host."""


def floats_only(function: HostFunction) -> dict[DType, HostFunction]:
    """Return a dictionary with a NumPy function for float dtypes; the host does not compute others."""
    return dict.fromkeys(FLOATING, function)


def integers_only(function: HostFunction) -> dict[DType, HostFunction]:
    """Return a dictionary with a NumPy function for integer dtypes; the host does not compute others."""
    return dict.fromkeys(INTEGER, function)


def maximum(a: Array, b: Any) -> Array:
    """Return the larger elements; of equal zeros the second, and NaN where either is NaN."""
    return np.where((a > b) | (a != a), a, b)


def minimum(a: Array, b: Any) -> Array:
    """Return the smaller elements; of equal zeros the second, and NaN where either is NaN."""
    return np.where((a < b) | (a != a), a, b)


def clip(x: Array, lower: float, upper: float) -> Array:
    """Return x clipped to the range from lower to upper."""
    return minimum(maximum(x, lower), upper)


def step(x: Array, alpha: float) -> Array:
    """Return 1 where x > 0, else alpha; NaN stays NaN."""
    return np.where(x != x, x, np.where(x > 0, 1, alpha).astype(x.dtype))


def relu(x: Array) -> Array:
    """Return max(x, 0)."""
    return maximum(x, 0)


def relu6(x: Array) -> Array:
    """Return x clipped to [0, 6]."""
    return clip(x, 0, 6)


def relu6_gradient(dy: Array, y: Array) -> Array:
    """Return dy where y is between 0 and 6, else 0."""
    return np.where((y <= 0) | (y >= 6), 0, dy)


def leaky_relu(x: Array, alpha: Any) -> Array:
    """Return x where it is positive, else alpha times x."""
    return np.where(x > 0, x, alpha * x)


def make_cast(dtype: DType) -> dict[DType, HostFunction]:
    """Return a function that casts to a dtype: floats are truncated towards zero and saturate, and NaN becomes 0."""

    def cast(x: Array) -> Array:
        return x.astype(dtype)

    def cast_saturating(x: Array) -> Array:
        limits, exact = np.iinfo(dtype), x.astype(np.float64)
        within = np.where(np.isnan(x), 0, np.clip(exact, limits.min, limits.max)).astype(dtype)
        # The upper limit of int64 is a float that int64 does not have.
        return np.where(exact >= float(limits.max), dtype.numpy.type(limits.max), within)

    of_floats = cast_saturating if dtype.is_integer else cast
    return dict.fromkeys(INTEGER | BOOL, cast) | floats_only(of_floats)
