"""The gamma function and its relatives."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log, nan, pi, sqrt
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, is_traced
from plugrad_numerics import double_double
from plugrad_numerics.tables import (
    as_floats,
    call_elementwise,
    evaluate_first_matching,
    evaluate_polynomial,
    evaluate_table,
    find_distance_from_root,
)

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.extend import Scalar
    from plugrad_numerics.double_double import DoubleDouble

STIRLING_COEFFICIENTS: Final = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
)
"""The series of log(gamma) in 1 / x of odd powers (DLMF 5.11.1)."""
DIGAMMA_COEFFICIENTS: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""The series of log(x) - 1 / (2 x) - digamma(x) in even powers of 1 / x (DLMF 5.11.2)."""
TRIGAMMA_COEFFICIENTS: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The series of trigamma(x) - 1 / x - 1 / (2 x**2) in odd powers of 1 / x."""
DIGAMMA_ROOT: Final = 1.4616321449683622, 9.549995429965697e-17
"""The root of digamma above 0, in two parts whose sum has more digits than a float64."""
GAMMA_MAX_ARGUMENT: Final = 171.7
"""The argument above which the gamma function exceeds float64."""
LAST_TABULATED_POLE: Final = 32
"""The last negative whole number near which `gammaln` has a table; farther ones have no number near a root."""
MAX_REFINED_ARGUMENT: Final = 1e6
"""The largest argument of double-double arithmetic; beyond, the logarithms are too large even for it."""


def gammaln(x: Any) -> Tensor:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and at negative whole numbers.

    >>> special.gammaln([1.0, 4.0])
    tensor([-0.       ,  1.7917595], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("gammaln", gammaln_values, x)


def gammaln_values(x: Tensor) -> Tensor:
    """Return the logarithm of the absolute value of the gamma function, in the dtype of x."""
    size = plugrad.abs(x)
    is_negative = (x < 0) & (size < inf)
    is_pole = (x <= 0) & (x == plugrad.floor(x))
    pole = plugrad.where(is_negative & (size < LAST_TABULATED_POLE + 1), plugrad.round(size), 2)
    u = plugrad.where(is_negative & (size < LAST_TABULATED_POLE + 1), x + pole, 0.5)
    is_beside = (plugrad.abs(u) < 1 / 8) & (pole >= 2) & (pole <= LAST_TABULATED_POLE)
    is_between = is_negative & ~is_beside & (size > 2.1) & (size < 3.9)
    is_small, is_large = size < 0.5, size >= 16
    shifted = plugrad.where(is_small, size + 1, size)
    side = plugrad.where(is_beside, 2 * (pole - 2) + plugrad.where(u < 0, 1, 0), 0)
    found = evaluate_first_matching(
        ("lgamma_near_poles", is_beside, side + 8 * plugrad.abs(u)),
        ("lgamma_between_2_and_3", is_between & (size < 3), size),
        ("lgamma_between_3_and_4", is_between, size),
        ("lgamma_near_roots", size < 3, shifted),
        ("lgamma", ~is_large, size),
    )
    beside = _gammaln_beside_pole(plugrad.where(is_beside & (u != 0), u, 1 / 16), side, found)
    first = plugrad.where(size < 3, 0, 2)
    between = found * find_distance_from_root(x, "lgamma_between", first)[0]
    between = between * find_distance_from_root(x, "lgamma_between", first + 1)[0]
    near = found * (
        plugrad.where(is_small, size, shifted - 1) * plugrad.where(is_small, size - 1, shifted - 2)
    )
    near = near - plugrad.where(
        is_small, plugrad.log(plugrad.where(is_small & (x != 0), size, 1)), 0
    )
    large = plugrad.where(is_large & (size < inf), size, 16)
    logarithm = plugrad.log(large)
    asymptotic = (large - 0.5) * (logarithm - 1) + (
        0.5 * log(2 * pi) - 0.5 + stirling_remainder(large)
    )
    found = plugrad.where(size < 3, near, plugrad.where(is_large, asymptotic, found))
    # Both sides of 0 are equal where the square of x may underflow.
    is_reflected = is_negative & ~is_pole & (size > 1e-18)
    safe = plugrad.where(is_reflected, x * sin_pi(x), 1.0)
    reflected = log(pi) - plugrad.log(plugrad.abs(safe)) - found  # DLMF 5.5.3
    found = plugrad.where(is_reflected, reflected, found)
    found = plugrad.where(is_beside, beside, plugrad.where(is_between, between, found))
    found = plugrad.where(is_pole | (size == inf), inf, found)
    return plugrad.where(x == -inf, -inf, found)


def _gammaln_beside_pole(u: Tensor, root_index: Tensor, table_value: Tensor) -> Tensor:
    """Return gammaln at a distance u from a pole, computed from the distance to the root on that side."""
    gap, root = find_distance_from_root(u, "lgamma_near_poles", root_index)
    ratio = gap / root
    is_close = plugrad.abs(ratio) < 0.5
    logarithm = plugrad.where(
        is_close,
        plugrad.log1p(plugrad.where(is_close, ratio, 0)),
        plugrad.log(plugrad.abs(plugrad.where(is_close, 1, u / root))),
    )
    return gap * table_value - logarithm


STIRLING_MIN = 12.0
"""The smallest x at which Stirling's formula is exact."""


def stirling_remainder(x: Tensor) -> Tensor:
    """Return gammaln(x) minus Stirling's formula, for x >= 12 (DLMF 5.11.1)."""
    inverse = 1 / x
    return inverse * evaluate_polynomial(STIRLING_COEFFICIENTS, inverse * inverse)


def sin_pi(x: Tensor) -> Tensor:
    """Return sin(pi x), exact at whole and half x."""
    x = plugrad.where(plugrad.isfinite(x), x, nan)
    nearest = plugrad.round(x)
    part = x - nearest  # from -1/2 to 1/2
    half = nearest / 2
    sign = plugrad.where(half == plugrad.floor(half), 1.0, -1.0)
    is_far = plugrad.abs(part) > 0.25
    sine = plugrad.sin(pi * plugrad.where(is_far, 0, part))
    cosine = plugrad.cos(pi * plugrad.where(is_far, 0.5 - plugrad.abs(part), 0))
    return sign * plugrad.where(is_far, plugrad.sign(part) * cosine, sine)


def gamma(x: Any) -> Tensor:
    """The gamma function; NaN at negative whole numbers, infinite at 0.

    >>> special.gamma([1.0, 5.0, 0.5])
    tensor([ 1.       , 24.       ,  1.7724539], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("gamma", gamma_values, x)


def gamma_values(x: Tensor) -> Tensor:
    """Return the gamma function in the dtype of x."""
    is_negative = x < 0
    size = plugrad.abs(x)
    positive = _positive_gamma(size)
    sine = sin_pi(x)
    is_pole = is_negative & (x == plugrad.floor(x))
    is_tiny = size < 1e-18  # 1 / x is exact, and the square of x may underflow
    is_reflected = is_negative & ~is_tiny
    safe = plugrad.where(is_reflected & ~is_pole, x * sine, -1.0)
    reflected = -pi / plugrad.where(is_reflected, safe * positive, 1)
    found = plugrad.where(is_reflected, reflected, positive)
    return plugrad.where(
        is_pole, nan, plugrad.where(is_tiny, 1 / plugrad.where(is_tiny, x, 1), found)
    )


def _positive_gamma(x: Tensor) -> Tensor:
    is_small, is_large = x < 1, x >= 12
    low = evaluate_table("gamma", plugrad.where(is_small, x + 1, x))
    low = plugrad.where(is_small, low / plugrad.where(is_small & (x > 0), x, 1), low)
    large = plugrad.where(is_large, x, 12)
    large = plugrad.where(large > GAMMA_MAX_ARGUMENT, GAMMA_MAX_ARGUMENT, large)
    root = large ** (0.5 * large - 0.25)  # two factors, of which none overflows
    high = (
        root * (sqrt(2 * pi) * plugrad.exp(stirling_remainder(large)) * plugrad.exp(-large)) * root
    )
    high = plugrad.where(x >= GAMMA_MAX_ARGUMENT, inf, high)
    return plugrad.where(is_large, high, low)


def digamma(x: Any) -> Tensor:
    """The derivative of `gammaln`; NaN at negative whole numbers.

    >>> special.digamma([1.0, 2.0])
    tensor([-0.5772157 ,  0.42278433], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("digamma", _digamma, x, refine=_refine_digamma)


DIGAMMA_MIN: Final = -32.0
"""The negative x down to which `digamma` has tables."""


def _digamma(x: Tensor) -> Tensor:
    is_negative = x < 0
    is_tabulated = is_negative & (x > DIGAMMA_MIN)
    size = plugrad.where(is_negative, 1 - x, x)
    is_pole = is_negative & (x == plugrad.floor(x))
    is_small, is_large = size < 1, size >= 16
    shifted = plugrad.where(is_small, size + 1, size)
    found = evaluate_first_matching(
        ("digamma_below_0", is_tabulated, -x),
        ("digamma_near_root", size < 3, shifted),
        ("digamma", ~is_large, size),
    )
    inside = plugrad.where(is_tabulated & ~is_pole, x, -0.5)
    above = plugrad.ceil(inside)
    gap, _ = find_distance_from_root(inside, "digamma_below_0", -above)
    tabulated = found * (gap / ((inside - plugrad.floor(inside)) * (above - inside)))
    high, low = DIGAMMA_ROOT
    near = found * ((shifted - high) - low)
    near = plugrad.where(is_small, near - 1 / plugrad.where(is_small & (size > 0), size, 1), near)
    large = plugrad.where(is_large & (size < inf), size, 16)
    inverse = 1 / large
    square = inverse * inverse
    asymptotic = (
        plugrad.log(large)
        - 0.5 * inverse
        - square * evaluate_polynomial(DIGAMMA_COEFFICIENTS, square)
    )
    asymptotic = plugrad.where(size == inf, inf, asymptotic)
    found = plugrad.where(size < 3, near, plugrad.where(is_large, asymptotic, found))
    part = plugrad.where(is_negative & ~is_tabulated & ~is_pole, x - plugrad.round(x), 0.25)
    found = plugrad.where(is_negative, found - pi / plugrad.tan(pi * part), found)  # DLMF 5.5.4
    found = plugrad.where(is_tabulated, tabulated, found)
    return plugrad.where(is_pole, nan, plugrad.where(x == 0, -plugrad.copysign(inf, x), found))


def _refine_digamma(x: Tensor) -> Tensor:
    """Return digamma at or below -32, where there is no table, in double-double arithmetic; NaN elsewhere."""
    is_far = (x <= DIGAMMA_MIN) & (x != plugrad.floor(x))
    if not is_traced(x) and not bool(plugrad.any(is_far)):
        return plugrad.full_like(x, nan)
    x = plugrad.where(is_far, x, DIGAMMA_MIN - 0.5)
    size = double_double.two_sum(plugrad.ones_like(x), -x)
    inverse = double_double.divide(double_double.from_number(plugrad.ones_like(x)), size)
    square = double_double.multiply(inverse, inverse)
    tail = square.high * square.high * evaluate_polynomial(DIGAMMA_COEFFICIENTS[1:], square.high)
    found = double_double.multiply(square, double_double.from_fraction(Fraction(1, 12)))
    found = double_double.add_number(found, tail)
    found = double_double.add(found, double_double.multiply_number(inverse, 0.5))
    found = double_double.add(double_double.log(size), double_double.negate(found))
    part = x - plugrad.round(x)
    is_wide = plugrad.abs(part) > 0.25
    part = plugrad.where(is_wide, plugrad.sign(part) * (0.5 - plugrad.abs(part)), part)
    sine, cosine = double_double.sine_and_cosine(
        double_double.multiply_number(double_double.PI, part)
    )
    sine, cosine = (
        double_double.where(is_wide, *both) for both in ((cosine, sine), (sine, cosine))
    )
    turn = double_double.multiply(double_double.divide(cosine, sine), double_double.PI)
    found = double_double.add(found, double_double.negate(turn))
    return plugrad.where(is_far, found.value, nan)


def trigamma(x: Any) -> Tensor:
    """The derivative of `digamma`; infinite at 0 and at negative whole numbers.

    >>> special.trigamma([1.0])
    tensor([1.644934], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("trigamma", _trigamma, x)


def _trigamma(x: Tensor) -> Tensor:
    is_negative = x < 0
    positive = _positive_trigamma(plugrad.where(is_negative, 1 - x, x))
    is_pole = (x <= 0) & (x == plugrad.floor(x))
    sine = plugrad.where(is_negative & ~is_pole, sin_pi(x), 1.0)
    found = plugrad.where(is_negative, (pi / sine) ** 2 - positive, positive)
    return plugrad.where(is_pole, inf, found)


def _positive_trigamma(x: Tensor) -> Tensor:
    is_small, is_large = x < 1, x >= 16
    safe = plugrad.where(is_small & (x > 0), x, 1)
    low = evaluate_table("trigamma", plugrad.where(is_small, x + 1, x))
    low = plugrad.where(is_small, low + (1 / safe) ** 2, low)
    inverse = 1 / plugrad.where(is_large, x, 16)
    square = inverse * inverse
    high = inverse + square * (0.5 + inverse * evaluate_polynomial(TRIGAMMA_COEFFICIENTS, square))
    return plugrad.where(is_large, high, low)


def betaln(a: Any, b: Any) -> Tensor:
    """The logarithm of the beta function of numbers above 0.

    >>> special.betaln(2.0, 3.0)
    tensor(-2.4849067, dtype=float32)

    Raises:
        DTypeError: a or b holds complex numbers or strings.
    """
    return call_elementwise("betaln", betaln_values, a, b, refine=_refine_betaln)


def betaln_values(a: Tensor, b: Tensor) -> Tensor:
    """Return the logarithm of the beta function in the dtype of a, without cancellation of large terms."""
    p, q = plugrad.where(a < b, a, b), plugrad.where(a < b, b, a)
    is_small = q < STIRLING_MIN
    near = plugrad.log(
        _beta_of_small_arguments(plugrad.where(is_small, p, 1), plugrad.where(is_small, q, 1))
    )
    q = plugrad.where(is_small, STIRLING_MIN, q)
    total = p + q
    far = stirling_remainder(q) - stirling_remainder(total) + (q - 0.5) * plugrad.log1p(-p / total)
    is_low = p < STIRLING_MIN
    low, high = plugrad.where(is_low, p, 1), plugrad.where(is_low, STIRLING_MIN, p)
    low = gammaln_values(low) + low - low * plugrad.log(total)
    share = (high - 0.5) * plugrad.log(high / total) - 0.5 * plugrad.log(total)
    high = stirling_remainder(high) + 0.5 * log(2 * pi) + share
    return plugrad.where(is_small, near, far + plugrad.where(is_low, low, high))


def _beta_of_small_arguments(a: Tensor, b: Tensor) -> Tensor:
    return gamma_values(a) / gamma_values(a + b) * gamma_values(b)


def beta(a: Any, b: Any) -> Tensor:
    """The beta function of numbers above 0, the integral of ``t**(a - 1) * (1 - t)**(b - 1)`` from 0 to 1.

    >>> special.beta(2.0, 3.0)
    tensor(0.08333334, dtype=float32)

    Raises:
        DTypeError: a or b holds complex numbers or strings.
    """
    return call_elementwise("beta", _beta, a, b, refine=_refine_beta)


def _refine_beta(a: Tensor, b: Tensor) -> Tensor:
    return double_double.exp_times(*_log_beta_and_factor_of_numbers(a, b)).value


def _refine_betaln(a: Tensor, b: Tensor) -> Tensor:
    exponent, factor = _log_beta_and_factor_of_numbers(a, b)
    return double_double.add(exponent, double_double.log(factor)).value


def _log_beta_and_factor_of_numbers(a: Tensor, b: Tensor) -> tuple[DoubleDouble, DoubleDouble]:
    is_inside = (a > 0) & (b > 0) & (plugrad.maximum(a, b) < MAX_REFINED_ARGUMENT)
    a, b = (plugrad.where(is_inside, z, plugrad.nan) for z in (a, b))
    return double_double.log_beta_and_factor(*map(double_double.from_number, (a, b)))


def _beta(a: Tensor, b: Tensor) -> Tensor:
    is_small = plugrad.maximum(a, b) < STIRLING_MIN
    small = _beta_of_small_arguments(plugrad.where(is_small, a, 1), plugrad.where(is_small, b, 1))
    return plugrad.where(is_small, small, plugrad.exp(betaln_values(a, b)))


def multigammaln(a: Any, d: int) -> Tensor:
    """The logarithm of the gamma function of d dimensions, of a above ``(d - 1) / 2``.

    >>> special.multigammaln(2.0, 2)
    tensor(0.45158267, dtype=float32)

    Raises:
        DTypeError: a holds complex numbers or strings.
        ArgumentError: d is not an integer of 1 or more.
    """
    if type(d) is not int or d < 1:
        raise ArgumentError(f"multigammaln: d={d!r} must be an integer of 1 or more")
    (a,) = as_floats("multigammaln", a)
    found: Tensor | Scalar = d * (d - 1) / 4 * log(pi)
    for j in range(d):
        found = found + gammaln(a - j / 2)
    return found  # type: ignore[return-value]
