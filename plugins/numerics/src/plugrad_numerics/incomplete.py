"""Incomplete gamma and beta functions, regularized, by series and continued fractions of a fixed length."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad_numerics.exact_incomplete import refine_betainc, refine_gammainc
from plugrad_numerics.gamma_functions import betaln_values, gammaln_values
from plugrad_numerics.tables import call_elementwise
from plugrad_numerics.uniform_expansion import (
    MIN_UNIFORM_ORDER,
    scaled_incomplete_gamma_tail,
    uses_uniform_expansion,
)

if TYPE_CHECKING:
    from plugrad import Tensor

CONTINUED_FRACTION_TERMS: Final = 120
"""How many terms of a series, or levels of a continued fraction: enough for gamma parameters up to 200."""
NONZERO_DIVISOR_MIN: Final = 1e-30
"""The divisor with which a continued fraction starts in place of 0."""


def gammainc(a: Any, x: Any) -> Tensor:
    """The regularized lower incomplete gamma function of a above 0 and x from 0 on; NaN elsewhere.

    >>> special.gammainc(2.0, 1.0)
    tensor(0.26424113, dtype=float32)

    A series is summed for x below a + 1, a continued fraction computed beyond (DLMF 8.11.4, 8.9.2). From a = 200 on,
    and for x within a quarter of a, it is Temme's uniform expansion (DLMF 8.12). In float64 the terms with most
    weight are computed in double-double arithmetic: the tests find values within 4 units in the last place of mpmath
    for a from 1e-6 to 3e5.

    Raises:
        DTypeError: a or x holds complex numbers or strings.
    """
    return _call_incomplete_gamma("gammainc", 0, a, x)


def gammaincc(a: Any, x: Any) -> Tensor:
    """The regularized upper incomplete gamma function, ``1 - gammainc(a, x)`` without cancellation.

    >>> special.gammaincc(2.0, 1.0)
    tensor(0.7357589, dtype=float32)

    Raises:
        DTypeError: a or x holds complex numbers or strings.
    """
    return _call_incomplete_gamma("gammaincc", 1, a, x)


def _call_incomplete_gamma(op: str, result_index: int, a: Any, x: Any) -> Tensor:
    """Return the lower (`result_index` 0) or the upper (1) incomplete gamma function."""
    return call_elementwise(
        op,
        lambda a, x: gammainc_values(a, x)[result_index],
        a,
        x,
        refine=lambda a, x: refine_gammainc(a, x)[result_index],
    )


def gammainc_values(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower and the upper incomplete gamma function, differentiable, in the dtype of a."""
    a, x = plugrad.broadcast_arrays(a, x)
    is_inside = (a > 0) & (x > 0) & (x < inf)
    safe_a, safe_x = plugrad.where(is_inside, a, 1), plugrad.where(is_inside, x, 1)
    is_low = safe_x < safe_a + 1
    scale = plugrad.exp(safe_a * plugrad.log(safe_x) - safe_x - gammaln_values(safe_a))
    small = plugrad.where(is_low, safe_x, 1)
    numbers = plugrad.arange(1, CONTINUED_FRACTION_TERMS, dtype=a.dtype, device=a.device)

    def add_series_term(carry: Any, n: Tensor) -> Any:
        """Return term n and the sum up to it, as a round of a scan."""
        term, total = carry
        term = term * (small / (safe_a + n))
        return (term, total + term), None

    (_, total), _ = plugrad.scan(add_series_term, (1 / safe_a, 1 / safe_a), numbers)
    large = plugrad.where(is_low, safe_a + 2, safe_x)

    def add_fraction_level(carry: Any, n: Tensor) -> Any:  # the method of Lentz
        b, c, d, fraction = carry
        numerator = n * (safe_a - n)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        return (b, c, d, fraction * (d * c)), None

    b = large + 1 - safe_a
    (_, _, _, fraction), _ = plugrad.scan(
        add_fraction_level, (b, b * 0 + 1 / NONZERO_DIVISOR_MIN, 1 / b, 1 / b), numbers
    )
    lower = plugrad.where(is_low, scale * total, 1 - scale * fraction)
    upper = plugrad.where(is_low, 1 - scale * total, scale * fraction)
    is_near = uses_uniform_expansion(safe_a, safe_x)  # where 120 terms are not enough
    far_a = plugrad.where(is_near, safe_a, MIN_UNIFORM_ORDER)
    tail, exponent = scaled_incomplete_gamma_tail(
        far_a, plugrad.where(is_near, safe_x, MIN_UNIFORM_ORDER)
    )
    tail = tail * plugrad.exp(-exponent)
    is_upper = safe_x >= safe_a
    lower = plugrad.where(is_near, plugrad.where(is_upper, 1 - tail, tail), lower)
    upper = plugrad.where(is_near, plugrad.where(is_upper, tail, 1 - tail), upper)
    is_valid = (a > 0) & (x >= 0)
    edge = plugrad.where(is_valid, plugrad.where(x == 0, 0.0, 1.0), nan)
    return plugrad.where(is_inside, lower, edge), plugrad.where(is_inside, upper, 1 - edge)


def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The regularized incomplete beta function of a and b above 0 and x from 0 to 1; NaN elsewhere.

    >>> special.betainc(2.0, 3.0, 0.5)
    tensor(0.6875, dtype=float32)

    A continued fraction (DLMF 8.17.22) is computed. In float64 it has 480 terms, of which the first are computed in
    double-double arithmetic: the tests find values within 4 units in the last place of mpmath for a and b from 0.05
    to 500, and it is enough up to 1e5. In float32, and for gradients, it has 238 terms: enough up to 1e4.

    Raises:
        DTypeError: a, b or x holds complex numbers or strings.
    """
    return call_elementwise("betainc", _betainc, a, b, x, refine=refine_betainc)


def _betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    a, b, x = plugrad.broadcast_arrays(a, b, x)
    is_inside = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    a_, b_, x_ = (plugrad.where(is_inside, z, other) for z, other in ((a, 1), (b, 1), (x, 0.5)))
    is_turned = x_ > (a_ + 1) / (a_ + b_ + 2)
    p, q = plugrad.where(is_turned, b_, a_), plugrad.where(is_turned, a_, b_)
    z = plugrad.where(is_turned, 1 - x_, x_)
    scale = plugrad.exp(p * plugrad.log(z) + q * plugrad.log1p(-z) - betaln_values(p, q))
    d = 1 / (1 - (p + q) * z / (p + 1))

    def add_fraction_level(carry: Any, m: Tensor) -> Any:  # the method of Lentz
        c, d, fraction = carry
        even = m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        fraction = fraction * (d * c)
        odd = -(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        return (c, d, fraction * (d * c)), None

    numbers = plugrad.arange(1, CONTINUED_FRACTION_TERMS, dtype=a.dtype, device=a.device)
    (_, _, fraction), _ = plugrad.scan(add_fraction_level, (d * 0 + 1, d, d), numbers)
    found = scale * fraction / p
    found = plugrad.where(is_turned, 1 - found, found)
    is_valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    edge = plugrad.where(is_valid, plugrad.where(x == 0, 0.0, 1.0), nan)
    return plugrad.where(is_inside, found, edge)
