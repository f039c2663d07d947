"""Unary kernels: one NumPy expression each. NumPy's functions keep the dtype and propagate NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.extend import DType, bool_
from plugrad.kernels import unary
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.halves import round_to_bfloat16
from plugrad_cpu.kernels.binary import NUMPY_WHERE_MAX_ELEMENTS, select
from plugrad_cpu.memory import empty_like


def expm1(x: Array) -> Array:
    """Return exp(x) - 1.

    Where a part of a complex number is NaN or infinite, NumPy makes both parts of the result NaN, also
    those that the standard defines. It gives -0 for the real part of -0, for which the standard asks for 0.
    """
    if x.dtype.kind != "c":
        return np.expm1(x)
    z: Any = x
    y: Any = np.asarray(np.expm1(z))
    y.real += 0  # makes 0 of -0
    if np.all(np.isfinite(y)):
        return y
    of_real: Any = np.empty_like(z)
    of_real.real, of_real.imag = np.expm1(z.real) + 0, z.imag
    np.copyto(y, np.exp(z) - 1, where=~np.isfinite(z.real))
    np.copyto(y, of_real, where=z.imag == 0)
    return y


def log1p(x: Array, out: Array | None = None) -> Array:
    """Return log(1 + x).

    Of a small complex number, NumPy's real part has no right digit. It is half the log1p of |1 + z|^2 - 1, which is
    x (2 + x) + y^2.
    """
    y = np.asarray(np.log1p(x, out=out))
    if x.dtype.kind == "c":
        real, imaginary = np.real(x), np.imag(x)
        size = np.abs(real) + np.abs(imaginary)
        np.log(x, out=y, where=size > 1e20)  # NumPy's log1p of the largest numbers is infinite
        small = size < 0.5
        part = np.multiply(real, 2 + real, out=np.zeros_like(real), where=small)
        part += np.square(imaginary, out=np.zeros_like(real), where=small)
        np.copyto(np.real(y), np.log1p(part) / 2, where=small)
    return y


def tanh(x: Array, out: Array | None = None) -> Array:
    """Return the hyperbolic tangent.

    Where the real part of a complex number is infinite, the imaginary part of the result is a zero. NumPy gives
    it the sign of sin(2 y), as C99 does. The standard of the array API asks for that of y.
    """
    y = np.asarray(np.tanh(x, out=out))
    if x.dtype.kind == "c":
        _write_signed_zeros(np.imag(y), np.imag(x), where=np.isinf(np.real(x)))
    return y


def tan(x: Array, out: Array | None = None) -> Array:
    """Return the tangent, which is -i tanh(i x)."""
    y = np.asarray(np.tan(x, out=out))
    if x.dtype.kind == "c":
        _write_signed_zeros(np.real(y), np.real(x), where=np.isinf(np.imag(x)))
    return y


def _write_signed_zeros(part: Any, signs: Any, where: Any) -> None:
    """Write zeros to a part of complex numbers, with the signs of another array, where a mask is True."""
    np.copysign(0, signs, out=part, where=where & ~np.isnan(signs))


def erf(x: Array) -> Array:
    """Return the error function of x, computed in blocks whose intermediate results stay in the cache."""
    formula = _erf_float64 if x.dtype == np.float64 else _erf_float32
    if x.size <= BLOCK_ELEMENTS:
        return formula(x)
    flat = x.reshape(-1)
    y = empty_like(flat)
    for start in range(0, x.size, BLOCK_ELEMENTS):
        y[start : start + BLOCK_ELEMENTS] = formula(flat[start : start + BLOCK_ELEMENTS])
    return y.reshape(x.shape)


def _erf_float32(x: Array) -> Array:
    """Return the error function of float32 numbers: a polynomial below 1, and 1 minus an exponential above."""
    m = np.minimum(np.abs(x, dtype=np.float32), 4)  # where erf has reached 1
    small = m + m * np.polyval(ERF_BELOW_1, m * m)
    large = 1 - np.exp(np.polyval(LOG_ERFC_ABOVE_1, m))
    return np.copysign(np.where(m < 1, small, large), x, dtype=np.float32).astype(x.dtype)


def _erf_float64(x: Array) -> Array:
    """Return the error function of float64 numbers: Cody, Math. Comp. 23 (1969), 631."""
    m = np.minimum(np.abs(x), 6)  # where erf has reached 1
    small = m * np.polyval(ERF_CODY_P, m * m) / np.polyval(ERF_CODY_Q, m * m)
    large = 1 - np.exp(-m * m) * np.polyval(ERFC_CODY_R, m) / np.polyval(ERFC_CODY_S, m)
    return np.copysign(np.where(m < 0.46875, small, large), x)


BLOCK_ELEMENTS = 16_384
"""The number of elements that a formula computes at a time, so that intermediate results stay in the cache."""
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
"""The coefficients of ``erf(x) / x - 1`` as a polynomial of ``x**2``, for absolute values below 1."""
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
"""The coefficients of ``log(1 - erf(x))`` as a polynomial of x, for absolute values from 1 on."""

ERF_CODY_P = [
    0.185777706184603153,
    3.16112374387056560,
    113.864154151050156,
    377.485237685302021,
    3209.37758913846947,
]
"""The coefficients of Cody's P for erf near 0, the highest power first."""
ERF_CODY_Q = [1, 23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062]
"""The coefficients of Cody's Q for erf near 0, the highest power first."""
ERFC_CODY_R = [
    2.15311535474403846e-8,
    0.564188496988670089,
    8.88314979438837594,
    66.1191906371416295,
    298.635138197400131,
    881.952221241769090,
    1712.04761263407058,
    2051.07837782607147,
    1230.33935479799725,
]
"""The coefficients of Cody's R for 1 - erf, the highest power first."""
ERFC_CODY_S = [
    1,
    15.7449261107098347,
    117.693950891312499,
    537.181101862009858,
    1621.38957456669019,
    3290.79923573345963,
    4362.61909014324716,
    3439.36767414372164,
    1230.33935480374942,
]
"""The coefficients of Cody's S for 1 - erf, the highest power first."""


def skip_integers(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a rounding function that returns integers unchanged, which NumPy's may turn into floats."""
    return lambda x: x if x.dtype.kind in "iu" else function(x)


def identity(x: Array) -> Array:
    """Return x itself."""
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
        unary.ceil: skip_integers(np.ceil),
        unary.floor: skip_integers(np.floor),
        unary.round: skip_integers(np.rint),
        unary.trunc: skip_integers(np.trunc),
        unary.exp: np.exp,
        unary.expm1: expm1,
        unary.log: np.log,
        unary.log1p: log1p,
        unary.log2: np.log2,
        unary.log10: np.log10,
        unary.sin: np.sin,
        unary.cos: np.cos,
        unary.tan: tan,
        unary.asin: np.arcsin,
        unary.acos: np.arccos,
        unary.atan: np.arctan,
        unary.sinh: np.sinh,
        unary.cosh: np.cosh,
        unary.tanh: tanh,
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
    if alpha == 0 and x.size <= NUMPY_WHERE_MAX_ELEMENTS:
        return np.sign(np.maximum(x, 0))
    if alpha == 0:
        y = np.greater(x, 0, out=empty_like(x))
    else:
        y = select(x > 0, np.ones_like(x, shape=()), np.asarray(alpha, x.dtype))
    if np.isnan(x.min(initial=0)):
        y[np.isnan(x)] = np.nan
    return y


@table.implements(unary.clip_by_value)
def clip_by_value(x: Array, *, clip_value_min: float, clip_value_max: float) -> Array:
    """Return x within the bounds, which may exceed the limits of an integer dtype."""
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        clip_value_min = min(max(clip_value_min, limits.min), limits.max)
        clip_value_max = min(max(clip_value_max, limits.min), limits.max)
    y = x.clip(clip_value_min, clip_value_max)
    return y if y.dtype is x.dtype else y.astype(x.dtype)


@table.implements(unary.cast)
def cast(x: Array, *, dtype: DType) -> Array:
    """Return x in another dtype."""
    if x.dtype.kind == "c" and dtype.kind != "complex" and dtype is not bool_:
        x = np.real(x)
    if (
        x.dtype.kind == "V" and dtype.kind != "floating"
    ):  # NumPy's casts of bfloat16 do not saturate
        x = x.astype(np.float32)
    if x.dtype.kind == "f" and dtype.is_integer:
        return saturating_cast(x, dtype)
    return round_to_bfloat16(x, dtype) if dtype.name == "bfloat16" else x.astype(dtype.numpy)


def saturating_cast(x: Array, dtype: DType) -> Array:
    """Return floats as integers: fractions are cut off, values out of range saturate, and NaN becomes 0.

    NumPy's cast leaves the last two cases undefined, so the range is checked first.
    """
    x = x.astype(accumulation_dtype(x.dtype), copy=False)  # the limits exceed the range of float16
    limits = dtype.info  # NumPy does not know those of integers that plugins bring
    least, above = float(limits.min), float(limits.max) + 1  # 0 or powers of two, and so exact
    if least <= x.min(initial=0) and x.max(initial=0) < above:
        return x.astype(dtype.numpy)
    y = np.asarray(np.clip(x, least, np.nextafter(x.dtype.type(above), 0)))
    np.copyto(y, 0, where=np.isnan(x))
    y = y.astype(dtype.numpy)
    np.copyto(y, limits.max, where=x >= above)
    return y


def absolute_of_halves(x: Array) -> Array:
    """Return the absolute values of float16 numbers: their bits without the sign."""
    return (x.view(np.uint16) & 0x7FFF).view(x.dtype)


table.replace(
    next(config for config in table if config.kernel_name == unary.abs.name)._replace(
        bfloat16_func=absolute_of_halves
    )
)
