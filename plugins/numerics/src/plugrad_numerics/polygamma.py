"""Derivatives of the digamma function of any order."""

from __future__ import annotations

from fractions import Fraction
from math import factorial, inf, pi
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError
from plugrad_numerics import double_double as dd
from plugrad_numerics.gamma_functions import digamma, trigamma
from plugrad_numerics.tables import call_elementwise, evaluate_polynomial

if TYPE_CHECKING:
    from plugrad import Tensor

MAX_POLYGAMMA_ORDER: Final = 100
"""The largest order; beyond, factorials exceed float64."""
MIN_REFINED_ARGUMENT: Final = -16
"""The argument above which results of float64 are computed in double-double arithmetic."""
BERNOULLI_NUMBERS: Final = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798),
    *(-174611 / 330, 854513 / 138, -236364091 / 2730, 8553103 / 6, -23749461029 / 870),
)
"""Bernoulli numbers of the even indices from 2 on."""


def polygamma(n: int, x: Any) -> Tensor:
    """The derivative of order n of `digamma`; infinite at 0 and at negative whole numbers.

    >>> special.polygamma(2, [1.0, 2.5])
    tensor([-2.4041138 , -0.23620406], dtype=float32)

    A sum of powers is continued by an asymptotic series (DLMF 5.15.1, 5.15.8); negative numbers are reflected
    (5.15.6), in float64 only those below -16. The tests find values of float64 numbers from -5 on within 4 units in
    the last place of mpmath for n from 2 to 60. Below -16 errors grow with n, and near roots.

    Args:
        n: the order, an integer from 0 to 100. It has no gradient.
        x: real numbers of any shape.

    Raises:
        ArgumentError: n is not such an integer.
        DTypeError: x holds complex numbers or strings.
    """
    if type(n) is not int or not 0 <= n <= MAX_POLYGAMMA_ORDER:
        raise ArgumentError(
            f"polygamma: n={n!r:.80} must be an integer from 0 to {MAX_POLYGAMMA_ORDER}"
        )
    if n < 2:
        return trigamma(x) if n else digamma(x)
    return call_elementwise(
        "polygamma", lambda x: _polygamma(n, x), x, refine=lambda x: _refine_polygamma(n, x)
    )


def _polygamma(n: int, x: Tensor) -> Tensor:
    is_negative = x < 0
    is_pole = (x <= 0) & (x == plugrad.floor(x))
    safe = plugrad.where(is_pole, 0.25, x)
    found = (-1) ** (n + 1) * _positive_polygamma(n, plugrad.where(is_negative, 1 - safe, safe))
    part = plugrad.where(is_negative, safe - plugrad.round(safe), 0.25)
    part = plugrad.where(part == 0, 0.25, part)
    is_far = plugrad.abs(part) > 0.25  # from a pole; at half numbers the cotangent is exactly 0
    far = plugrad.tan(pi * (0.5 - plugrad.abs(part))) * plugrad.sign(part)
    cotangent = plugrad.where(is_far, far, 1 / plugrad.tan(pi * part))
    turned = pi ** (n + 1) * evaluate_polynomial(_cotangent_derivative(n), cotangent)
    found = plugrad.where(is_negative, (-1) ** n * found - turned, found)
    return plugrad.where(is_pole, (-1) ** (n + 1) * inf, found)


def _cotangent_derivative(n: int) -> list[int]:
    """Return the n-th derivative of the cotangent, as the coefficients of a polynomial in the cotangent."""
    found = [0, 1]
    for _ in range(n):
        slopes = [k * c for k, c in enumerate(found)][1:]
        found = [0] * (len(slopes) + 2)
        for k, c in enumerate(slopes):
            found[k] -= c
            found[k + 2] -= c
    return found


def _asymptotic_min(n: int) -> int:
    """Return the smallest x at which the asymptotic series of order n is accurate."""
    return n + 12


def _asymptotic_series(n: int, inverse: Tensor) -> Tensor:
    """Return the asymptotic series in ``inverse = 1 / x`` without its first term, which is 1."""
    ratios: list[float] = []
    ratio = 1.0
    for k, b in enumerate(BERNOULLI_NUMBERS, 1):
        ratio *= (n + 2 * k - 2) * (n + 2 * k - 1) / ((2 * k - 1) * (2 * k))
        ratios.append(b * ratio)
    return inverse * (n / 2 + inverse * evaluate_polynomial(ratios, inverse * inverse))


def _positive_polygamma(n: int, x: Tensor) -> Tensor:
    # The factorial is shared among the factors, because float32 has none above that of 34.
    scale = factorial(n) ** (1 / (n + 1))
    is_low = x < _asymptotic_min(n)
    inverse = 1 / plugrad.where(is_low, x + _asymptotic_min(n), x)
    found = (scale * inverse) ** n * (scale / n * (1 + _asymptotic_series(n, inverse)))
    for k in reversed(range(_asymptotic_min(n))):
        found = found + plugrad.where(is_low, scale / (x + k), 0) ** (n + 1)
    return found


def _refine_polygamma(n: int, x: Tensor) -> Tensor:
    is_low = x < _asymptotic_min(n)
    x = plugrad.where((x > MIN_REFINED_ARGUMENT) & (x < 1e100), x, plugrad.nan)
    count = _asymptotic_min(n) - MIN_REFINED_ARGUMENT
    one, zero = (dd.from_number(plugrad.full_like(x, v)) for v in (1, 0))
    shifted = dd.two_sum(x, plugrad.where(is_low, float(count), 0.0))
    inverse = dd.divide(one, shifted)
    factor = dd.add_number(dd.from_number(_asymptotic_series(n, inverse.high)), 1.0)
    found = dd.multiply(dd.power(inverse, n), factor)
    found = dd.multiply(found, dd.from_fraction(Fraction(1, n)))
    for k in reversed(range(count)):
        term = dd.power(dd.divide(one, dd.two_sum(x, float(k))), n + 1)
        found = dd.add(found, dd.where(is_low, term, zero))
    found = dd.multiply(found, dd.from_fraction(Fraction(factorial(n))))
    return (-1) ** (n + 1) * found.value
