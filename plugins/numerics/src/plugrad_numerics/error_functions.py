"""The error function's relatives, and the normal distribution."""

from __future__ import annotations

from math import inf, nan, pi, sqrt
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import float64
from plugrad_numerics.tables import (
    call_elementwise,
    evaluate_first_matching,
    evaluate_table,
    product_rounding_error,
)

if TYPE_CHECKING:
    from plugrad import Tensor

SQRT_HALF_ROUNDING_ERROR = -4.833646656726457e-17
"""The square root of 1/2 minus its float64."""


def erfcx(x: Any) -> Tensor:
    """The scaled complementary error function ``exp(x**2) * erfc(x)``, which does not underflow.

    >>> special.erfcx([0.0, 100.0])
    tensor([1.        , 0.00564161], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("erfcx", erfcx_values, x)


def erfcx_values(x: Tensor) -> Tensor:
    """Return the scaled complementary error function in the dtype of x."""
    size = plugrad.abs(x)
    y = 4 / (4 + size)
    positive = plugrad.where(
        size < 1, evaluate_table("erfcx_near_0", size), y * evaluate_table("erfcx", y)
    )
    below = plugrad.where(x < 0, x, 0)
    return plugrad.where(x < 0, 2 * _exp_square(below, 1) - positive, positive)


def _exp_square(x: Tensor, sign: int) -> Tensor:
    """Return exp(sign * x * x), accurate although the rounded square is not."""
    x = plugrad.clip(x, -40.0, 40.0)
    high = plugrad.stop_gradient(plugrad.round(x * 64) / 64)
    rest = (x - high) * (x + high)
    return plugrad.exp(sign * high * high) * plugrad.exp(sign * rest)


def erfc(x: Any) -> Tensor:
    """The complementary error function ``1 - erf(x)``, exact also for large x.

    >>> special.erfc([0.0, 3.0])
    tensor([1.0000000e+00, 2.2090497e-05], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("erfc", _erfc, x)


def _erfc(x: Tensor) -> Tensor:
    is_large = x > 0.5
    large = plugrad.where(is_large, x, 0.5)
    tail = erfcx_values(large) * _exp_square(large, -1)
    return plugrad.where(is_large, tail, 1 - plugrad.erf(plugrad.where(is_large, 0, x)))


def erfinv(x: Any) -> Tensor:
    """The inverse of the error function; NaN outside of -1 to 1.

    >>> special.erfinv([0.0, 0.5])
    tensor([0.        , 0.47693628], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("erfinv", _erfinv, x)


def _erfinv(x: Tensor) -> Tensor:
    size = plugrad.abs(x)
    is_central = size <= 0.75
    central = plugrad.where(is_central, x, 0)
    inner = central * evaluate_table("erfinv", central * central)
    outside = plugrad.where(is_central | (size >= 1), 0.75, size)
    outer = _erfinv_tail((1 - outside) * (1 + outside))
    outer = plugrad.sign(x) * plugrad.where(size == 1, inf, outer)
    return plugrad.where(is_central, inner, plugrad.where(size > 1, nan, outer))


def _erfinv_tail(product: Tensor) -> Tensor:
    """Return erfinv(x) for ``product = 1 - x * x``."""
    w = plugrad.sqrt(-plugrad.log(product))
    return w * evaluate_first_matching(
        ("erfinv_tail", w < 6.125, w), ("erfcinv_tail", w >= 6.125, w)
    )


def erfcinv(x: Any) -> Tensor:
    """The number whose complementary error function is x: inf at 0, -inf at 2, and NaN outside of 0 to 2.

    >>> special.erfcinv([1.0, 0.5])
    tensor([0.        , 0.47693628], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("erfcinv", _erfcinv, x)


def _erfcinv(x: Tensor) -> Tensor:
    is_central = plugrad.abs(1 - x) <= 0.75
    inner = _erfinv(plugrad.where(is_central, 1 - x, 0))
    near = plugrad.where(x > 1, 2 - x, x)
    near = plugrad.where(is_central | (near <= 0), 0.25, near)
    outer = plugrad.where(x > 1, -1.0, 1.0) * _erfinv_tail(near * (2 - near))
    outer = plugrad.where(x == 0, inf, plugrad.where(x == 2, -inf, outer))
    return plugrad.where(is_central, inner, plugrad.where((x < 0) | (x > 2), nan, outer))


def ndtr(x: Any) -> Tensor:
    """The distribution function of the standard normal distribution.

    >>> special.ndtr([0.0, 1.96])
    tensor([0.5      , 0.9750021], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("ndtr", _ndtr, x)


def _ndtr(x: Tensor) -> Tensor:
    z = x * -sqrt(0.5)
    found = _erfc(z)
    if x.dtype == float64:
        # Large x would magnify the rounding of the product and of the root, so its first-order effect comes back.
        lost = product_rounding_error(x, -sqrt(0.5), z) - x * SQRT_HALF_ROUNDING_ERROR
        density = _exp_square(plugrad.where(plugrad.isfinite(lost), z, 40), -1)
        change = density * plugrad.where(plugrad.isfinite(lost), lost, 0) * (2 / sqrt(pi))
        found = found - plugrad.stop_gradient(change)
    return 0.5 * found


def log_ndtr(x: Any) -> Tensor:
    """The logarithm of `ndtr`, which does not underflow.

    >>> special.log_ndtr([0.0, -100.0])
    tensor([-6.9314718e-01, -5.0055244e+03], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("log_ndtr", _log_ndtr, x)


def _log_ndtr(x: Tensor) -> Tensor:
    is_low = x < -1
    low = plugrad.where(is_low, x, -1)
    tail = plugrad.log(erfcx_values(low * -sqrt(0.5)) * 0.5) - low * low / 2
    return plugrad.where(is_low, tail, plugrad.log1p(-_ndtr(plugrad.where(is_low, 0, -x))))


def ndtri(p: Any) -> Tensor:
    """The quantiles of the standard normal distribution, the inverse of `ndtr`; NaN outside of 0 to 1.

    >>> special.ndtri([0.5, 0.975])
    tensor([0.       , 1.9599644], dtype=float32)

    Raises:
        DTypeError: p holds complex numbers or strings.
    """
    return call_elementwise("ndtri", lambda p: 0 - sqrt(2) * _erfcinv(2 * p), p)
