"""Incomplete gamma and beta functions in double-double arithmetic, without gradients."""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import plugrad
from plugrad_numerics import double_double as dd
from plugrad_numerics.double_double import DoubleDouble
from plugrad_numerics.uniform_expansion import (
    MIN_UNIFORM_ORDER,
    scaled_incomplete_gamma_tail,
    uses_uniform_expansion,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor

    Step: TypeAlias = Callable[[DoubleDouble, Tensor], DoubleDouble]
    """Returns the next outer value of a nested expression, from the inner one and the number of the term."""

CONTINUED_FRACTION_TERMS: Final = 240
"""How many terms of a series, or levels of a continued fraction, are computed."""
EXPN_TERMS: Final = 24
"""How many terms of the power series of the exponential integral are computed."""
EXPN_LOG_TERM_MAX_ORDER: Final = 60
"""The largest order whose logarithmic term is not negligible."""
EXPN_SERIES_MAX: Final = 0.5
"""The largest x for which the power series of the exponential integral is used."""
EULER_GAMMA: Final = Fraction("0.5772156649015328606065120900824024310421593")
CONTINUED_FRACTION_MAX_ORDER: Final = 800
"""The largest parameter of the gamma functions for which these terms are enough where x is near it."""
MAX_REFINED_ORDER: Final = 1e6
"""The largest parameter for which results are computed in double-double arithmetic."""
SERIES_TERMS_IN_DOUBLE_DOUBLE: Final = 40
"""How many of the terms are in double-double arithmetic; rounding in the others has little weight."""


def _evaluate_nested_terms(
    innermost_value: Tensor, step: Step, rounded_step: Callable[[Tensor, Tensor], Tensor]
) -> DoubleDouble:
    """Return a nested series or continued fraction, evaluated from the innermost term n = 240 outwards to n = 1."""

    def apply_rounded_step(inner: Tensor, n: Tensor) -> Any:
        """Return the next outer value in float64, as a round of a scan."""
        return rounded_step(inner, n), None

    def apply_step(inner: tuple[Tensor, Tensor], n: Tensor) -> Any:
        """Return the next outer value in double-double arithmetic, as a round of a scan."""
        return tuple(step(DoubleDouble(*inner), n)), None

    numbers = plugrad.arange(
        CONTINUED_FRACTION_TERMS, 0, -1, dtype=innermost_value.dtype, device=innermost_value.device
    )
    outer, _ = plugrad.scan(
        apply_rounded_step, innermost_value, numbers[:-SERIES_TERMS_IN_DOUBLE_DOUBLE]
    )
    pair, _ = plugrad.scan(
        apply_step, (outer, plugrad.zeros_like(outer)), numbers[-SERIES_TERMS_IN_DOUBLE_DOUBLE:]
    )
    return DoubleDouble(*pair)


def refine_gammainc(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower and the upper incomplete gamma function in extra precision; NaN outside of the domain."""
    a, x = plugrad.broadcast_arrays(a, x)
    is_inside = (a > 0) & (x > 0) & (x < 1e100) & (a < 1e100)
    safe_a, safe_x = plugrad.where(is_inside, a, 1.0), plugrad.where(is_inside, x, 1.0)
    is_low = safe_x < safe_a + 1
    a_pair, x_pair = dd.from_number(safe_a), dd.from_number(safe_x)
    log_gamma, product = dd.log_gamma_and_divisor(a_pair)
    exponent = dd.add(dd.multiply_number(dd.log(x_pair), safe_a), dd.negate(log_gamma))
    exponent = dd.add_number(exponent, -safe_x)
    scale = dd.exp_times(exponent, product)

    small = plugrad.where(is_low, safe_x, 1.0)  # the series of DLMF 8.11.4

    def add_series_term(inner: DoubleDouble, n: Tensor) -> DoubleDouble:
        """Return the nested series from term n on, given the one from the next term on."""
        share = dd.divide(dd.multiply_number(inner, small), dd.two_sum(safe_a, n))
        return dd.add_number(share, 1.0)

    total = _evaluate_nested_terms(
        plugrad.ones_like(safe_x),
        add_series_term,
        lambda inner, n: 1 + inner * small / (safe_a + n),
    )
    lower = dd.divide(dd.multiply(scale, total), a_pair)

    upper = dd.divide(
        scale, _upper_gamma_divisor(safe_a, plugrad.where(is_low, safe_a + 2, safe_x))
    )
    lower, upper = (
        dd.where(is_low, lower, dd.add_number(dd.negate(upper), 1.0)),
        dd.where(is_low, dd.add_number(dd.negate(lower), 1.0), upper),
    )
    is_near = uses_uniform_expansion(safe_a, safe_x) & (safe_a > CONTINUED_FRACTION_MAX_ORDER)
    near_a, near_x = (plugrad.where(is_near, z, MIN_UNIFORM_ORDER) for z in (safe_a, safe_x))
    quotient = dd.divide(dd.from_number(near_x), dd.from_number(near_a))
    exponent = dd.multiply_number(dd.log(quotient), near_a)
    exponent = dd.add(exponent, dd.two_sum(near_a, -near_x))
    factor, _ = scaled_incomplete_gamma_tail(near_a, near_x, dd.negate(exponent))
    tail = dd.multiply_number(dd.exp(exponent), factor)
    rest = dd.add_number(dd.negate(tail), 1.0)
    is_upper = near_x >= near_a
    lower = dd.where(is_near, dd.where(is_upper, rest, tail), lower).value
    upper = dd.where(is_near, dd.where(is_upper, tail, rest), upper).value
    is_inside = is_inside & (safe_a < MAX_REFINED_ORDER)
    nan = plugrad.nan
    return plugrad.where(is_inside, lower, nan), plugrad.where(is_inside, upper, nan)


def _upper_gamma_divisor(a: Any, x: Tensor) -> DoubleDouble:
    """Return the continued fraction d such that the upper gamma function is ``exp(-x) * x**a / d`` (DLMF 8.9.2)."""
    distance = dd.add_number(dd.two_sum(x, -a), 1.0)

    def add_fraction_level(inner: DoubleDouble, n: Tensor) -> DoubleDouble:
        """Return the continued fraction from level n on, given the one from the next level on."""
        quotient = dd.divide(dd.multiply_number(dd.two_sum(n, -a), n), inner)
        return dd.add(dd.add_number(distance, 2 * (n - 1)), dd.negate(quotient))

    return _evaluate_nested_terms(
        distance.high + 2 * CONTINUED_FRACTION_TERMS,
        add_fraction_level,
        lambda inner, n: distance.high + 2 * (n - 1) - n * (n - a) / inner,
    )


def refine_expn(n: int, x: Tensor) -> Tensor:
    """Return the exponential integral of order n >= 2 in extra precision; NaN outside of the domain."""
    x = plugrad.where((x > 0) & (x < 1e100), x, plugrad.nan)
    is_low = x < EXPN_SERIES_MAX
    large = plugrad.where(is_low, 1.0, x)
    high = dd.divide(dd.exp(dd.from_number(-large)), _upper_gamma_divisor(1.0 - n, large))
    small = plugrad.where(is_low, x, EXPN_SERIES_MAX)
    *terms, last = map(dd.from_fraction, expn_series(n))
    low = dd.multiply_number(last, small)
    for c in terms[:0:-1]:
        low = dd.multiply_number(dd.add(low, c), small)
    low = dd.add(low, terms[0])
    if n <= EXPN_LOG_TERM_MAX_ORDER:
        psi = sum((Fraction(1, k) for k in range(1, n)), -EULER_GAMMA)
        head = dd.add(dd.negate(dd.log(dd.from_number(small))), dd.from_fraction(psi))
        head = dd.multiply(head, dd.power(dd.from_number(-small), n - 1))
        low = dd.add(low, dd.multiply(head, dd.from_fraction(Fraction(1, factorial(n - 1)))))
    return dd.where(is_low, low, high).value


def expn_series(n: int) -> list[Fraction]:
    """Return the power series of the exponential integral of order n, without its logarithmic term (DLMF 8.19.8)."""
    return [
        Fraction(0) if k == n - 1 else Fraction((-1) ** k, factorial(k) * (n - 1 - k))
        for k in range(EXPN_TERMS)
    ]


def refine_betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the incomplete beta function in extra precision; NaN outside of the domain."""
    a, b, x = plugrad.broadcast_arrays(a, b, x)
    is_inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < 1e100) & (b < 1e100)
    a, b, x = (plugrad.where(is_inside, z, safe) for z, safe in ((a, 1.0), (b, 1.0), (x, 0.5)))
    is_turned = x > (a + 1) / (a + b + 2)
    rest = dd.two_sum(plugrad.ones_like(x), -x)
    p, q = plugrad.where(is_turned, b, a), plugrad.where(is_turned, a, b)
    z = dd.where(is_turned, rest, dd.from_number(x))
    y = dd.where(is_turned, dd.from_number(x), rest)
    log_beta, product = dd.log_beta_and_factor(dd.from_number(p), dd.from_number(q))
    logs = dd.add(dd.multiply_number(dd.log(z), p), dd.multiply_number(dd.log(y), q))
    inverse = dd.divide(dd.from_number(plugrad.ones_like(x)), product)
    scale = dd.exp_times(dd.add(logs, dd.negate(log_beta)), inverse)
    # The even part of the continued fraction of DLMF 8.17.22 (Didonato and Morris 1992, their equation 9).
    distance = dd.add(dd.multiply_number(y, p), dd.negate(dd.multiply_number(z, q)))
    distance = dd.add_number(distance, 1.0)
    growth = dd.add_number(y, 1.0)
    total = dd.two_sum(p, q)

    def add_fraction_level(inner: DoubleDouble, n: Tensor) -> DoubleDouble:
        """Return the continued fraction from level n on, given the one from the next level on."""
        share = dd.divide(z, dd.two_sum(p, 2 * n - 1))
        turn = dd.multiply(dd.multiply_number(dd.two_sum(q, -n), n), share)
        numerator = dd.multiply(dd.two_sum(p, n - 1), dd.add_number(total, n - 1))
        numerator = dd.multiply(dd.multiply(numerator, turn), share)
        factor = dd.divide(dd.two_sum(p, n), dd.two_sum(p, 2 * n + 1))
        denominator = dd.multiply(dd.add(distance, dd.multiply_number(growth, n)), factor)
        return dd.divide(numerator, dd.add(dd.add_number(dd.add(denominator, turn), n), inner))

    def add_rounded_fraction_level(inner: Tensor, n: Tensor) -> Tensor:
        """Return what `add_fraction_level` returns, in float64."""
        share = z.high / (p + (2 * n - 1))
        turn = n * (q - n) * share
        factor = (p + n) / (p + (2 * n + 1))
        denominator = (distance.high + n * growth.high) * factor + turn + n
        return (p + (n - 1)) * (total.high + (n - 1)) * turn * share / (denominator + inner)

    first = dd.divide(dd.multiply_number(distance, p), dd.two_sum(p, plugrad.ones_like(p)))
    inner = _evaluate_nested_terms(
        plugrad.zeros_like(p), add_fraction_level, add_rounded_fraction_level
    )
    found = dd.divide(scale, dd.add(first, inner))
    found = dd.where(is_turned, dd.add_number(dd.negate(found), 1.0), found)
    return plugrad.where(is_inside, found.value, plugrad.nan)
