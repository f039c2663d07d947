"""Unary kernels: one NumPy expression each. NumPy's functions keep the dtype and propagate NaN."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.extend import DType, bool_
from plugrad.kernels import unary
from plugrad_cpu.declare import Array, roomy, table


def erf(x: Array) -> Array:
    """Return the error function; in double precision it is computed element by element, which is slow."""
    if x.dtype == np.float64:
        return np.asarray(_erf(x))
    m = np.minimum(np.abs(x, dtype=np.float32), 4)  # where erf has reached 1
    small = m + m * np.polyval(ERF_BELOW_1, m * m)
    large = 1 - np.exp(np.polyval(LOG_ERFC_ABOVE_1, m))
    return np.copysign(np.where(m < 1, small, large), x, dtype=np.float32).astype(x.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])
# Polynomials with the least relative error of erf in single precision, the highest power first. The
# other backends use the same ones.
ERF_BELOW_1 = np.array(
    [
        7.853846909711137e-5,
        -8.010189048945904e-4,
        5.18832728266716e-3,
        -2.6853810995817184e-2,
        1.128358542919159e-1,
        -3.761262595653534e-1,
        1.283791670955126e-1,
    ],
    np.float32,
)
LOG_ERFC_ABOVE_1 = np.array(
    [
        -2.1697873307857662e-5,
        4.414757713675499e-4,
        -4.205300472676754e-3,
        2.5210382416844368e-2,
        -1.084221675992012e-1,
        -6.332163214683533e-1,
        -1.1295803785324097,
        1.8847515457309783e-4,
    ],
    np.float32,
)


def rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a rounding that leaves integers unchanged; NumPy's may turn them into floats."""
    return lambda x: x if x.dtype.kind in "iu" else function(x)


def identity(x: Array) -> Array:
    """Return the array itself: tensors do not change."""
    return x


table.update(
    {
        unary.identity: identity,
        unary.abs: np.abs,
        unary.negative: np.negative,
        unary.square: np.square,
        unary.sign: np.sign,
        unary.reciprocal: np.reciprocal,
        unary.sqrt: np.sqrt,
        unary.rsqrt: lambda x: 1 / np.sqrt(x),
        unary.ceil: rounding(np.ceil),
        unary.floor: rounding(np.floor),
        unary.round: rounding(np.rint),
        unary.trunc: rounding(np.trunc),
        unary.exp: np.exp,
        unary.expm1: np.expm1,
        unary.log: np.log,
        unary.log1p: np.log1p,
        unary.log2: np.log2,
        unary.log10: np.log10,
        unary.sin: np.sin,
        unary.cos: np.cos,
        unary.tan: np.tan,
        unary.asin: np.arcsin,
        unary.acos: np.arccos,
        unary.atan: np.arctan,
        unary.sinh: np.sinh,
        unary.cosh: np.cosh,
        unary.tanh: np.tanh,
        unary.asinh: np.arcsinh,
        unary.acosh: np.arccosh,
        unary.atanh: np.arctanh,
        unary.erf: erf,
        unary.is_finite: np.isfinite,
        unary.is_inf: np.isinf,
        unary.is_nan: np.isnan,
        unary.sign_bit: np.signbit,
        unary.logical_not: np.logical_not,
    }
)


@table.implements(unary.step)
def step(x: Array, *, alpha: float) -> Array:
    """Return 1 where x > 0, else alpha; NaN stays NaN."""
    if alpha == 0:
        return np.sign(np.maximum(x, 0))
    return np.where(np.isnan(x), x, np.where(x > 0, 1, x.dtype.type(alpha))).astype(x.dtype)


@table.implements(unary.clip_by_value)
def clip_by_value(x: Array, *, clip_value_min: float, clip_value_max: float) -> Array:
    """Return x within the bounds, which may exceed the limits of an integer dtype."""
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        clip_value_min = min(max(clip_value_min, limits.min), limits.max)
        clip_value_max = min(max(clip_value_max, limits.min), limits.max)
    return np.clip(x, clip_value_min, clip_value_max).astype(x.dtype, copy=False)


@table.implements(unary.cast)
def cast(x: Array, *, dtype: DType) -> Array:
    """Return x in another dtype."""
    if x.dtype.kind == "c" and dtype.kind != "complex" and dtype is not bool_:
        x = np.real(x)
    if x.dtype.kind == "f" and dtype.is_integer:
        return truncated(x, dtype.numpy)
    return x.astype(dtype.numpy)


def truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats as integers: fractions are cut off, values out of range saturate, and NaN becomes 0.

    NumPy's cast leaves the last two cases undefined, so the range is checked first.
    """
    x = x.astype(roomy(x.dtype), copy=False)  # the limits exceed the range of float16
    limits = np.iinfo(dtype)
    least, above = float(limits.min), float(limits.max) + 1  # 0 or powers of two, and so exact
    if least <= x.min(initial=0) and x.max(initial=0) < above:
        return x.astype(dtype)
    y = np.asarray(np.clip(x, least, np.nextafter(x.dtype.type(above), 0)))
    np.copyto(y, 0, where=np.isnan(x))
    y = y.astype(dtype)
    np.copyto(y, limits.max, where=x >= above)
    return y
