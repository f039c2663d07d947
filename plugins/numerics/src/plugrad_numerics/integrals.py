"""Exponential integrals and the zeta function."""

from __future__ import annotations

from math import factorial, inf, log, nan, pi
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, float64
from plugrad_numerics.exact_incomplete import EXPN_LOG_TERM_MAX_ORDER, expn_series, refine_expn
from plugrad_numerics.gamma_functions import sin_pi, stirling_remainder
from plugrad_numerics.tables import (
    call_elementwise,
    evaluate_first_matching,
    evaluate_polynomial,
    evaluate_table,
    find_distance_from_root,
    product_rounding_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor

MAX_EXPN_ORDER = 1000
"""The largest order of `expn`."""
EXPN_FRACTION_TERMS = 120
"""How many levels of the continued fraction are computed."""
EULER_GAMMA = 0.5772156649015329
INVERSE_2_PI_E = 0.05854983152431916
"""The float64 nearest to 1 / (2 pi e)."""
INVERSE_2_PI_E_ERROR = -4.121231590292303e-19
"""1 / (2 pi e) minus its float64."""


def exp1(x: Any) -> Tensor:
    """The exponential integral E1, the integral of ``exp(-t) / t`` from x on; inf at 0, NaN below it.

    >>> special.exp1([1.0])
    tensor([0.21938394], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("exp1", _exp1, x)


def _exp1(x: Tensor) -> Tensor:
    small = plugrad.where((x > 0) & (x < 0.5), x, 0.25)
    low = evaluate_table("exp1", small) - plugrad.log(small)
    large = plugrad.where((x >= 0.5) & (x < inf), x, 1)
    high = evaluate_table("exp1_tail", 1 / large) * plugrad.exp(-large) / large
    high = plugrad.where(x == inf, 0, high)
    found = plugrad.where(x < 0.5, low, high)
    return plugrad.where(x < 0, nan, plugrad.where(x == 0, inf, found))


def expi(x: Any) -> Tensor:
    """The exponential integral Ei, the principal value of the integral of ``exp(t) / t`` from -inf to x; -inf at 0.

    >>> special.expi([1.0])
    tensor([1.8951178], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("expi", _expi, x)


@plugrad.custom_grad  # in the gradients of the product, exp(x) overflows where the product does not
def _expi(x: Tensor, save: Callable[..., None]) -> tuple[Tensor, Callable[..., Tensor]]:
    def gradient(dy: Tensor, saved: list[Tensor]) -> Tensor:
        """Return ``dy * exp(x) / x``."""
        (x,) = saved
        half = plugrad.exp(x / 2)
        return dy * plugrad.where(x == inf, inf, half * (half / x))

    save(x)
    return _compute_expi(x), gradient


def _compute_expi(x: Tensor) -> Tensor:
    is_near = (x > 0.2) & (x < 0.8)
    is_large = x >= 6
    small = plugrad.where((x > 0) & ~is_large, x, 1)
    large = plugrad.where(is_large & (x < inf), x, 6)
    found = evaluate_first_matching(
        ("expi_near_root", is_near, small),
        ("expi", ~is_large, small),
        ("expi_tail", is_large, 6 / large),
    )
    gap, _ = find_distance_from_root(small, "expi_near_root", plugrad.zeros_like(small))
    low = plugrad.where(is_near, found * gap, found + plugrad.log(small))
    # Half of the exponential twice, because ei(x) is finite a little longer than exp(x).
    half = plugrad.exp(large / 2)
    high = half * (found * half / large)
    high = plugrad.where(x == inf, inf, high)
    below = -_exp1(plugrad.where(x < 0, -x, 1))
    found = plugrad.where(x < 6, low, high)
    return plugrad.where(x < 0, below, plugrad.where(x == 0, -inf, found))


def expn(n: int, x: Any) -> Tensor:
    """The exponential integral of order n, the integral of ``exp(-x * t) / t**n`` from 1 on; NaN below 0.

    >>> special.expn(2, [0.0, 1.0])
    tensor([1.        , 0.14849551], dtype=float32)

    A series for small x, and a continued fraction (DLMF 8.19.8, 8.9.2). The tests find values of float64 numbers
    within 4 units in the last place of mpmath for n up to 100.

    Args:
        n: the order, an integer from 0 to 1000. It has no gradient.
        x: real numbers of any shape.

    Raises:
        ArgumentError: n is not such an integer.
        DTypeError: x holds complex numbers or strings.
    """
    if type(n) is not int or not 0 <= n <= MAX_EXPN_ORDER:
        raise ArgumentError(f"expn: n={n!r:.80} must be an integer from 0 to {MAX_EXPN_ORDER}")
    if n == 0:
        return call_elementwise("expn", _exp_minus_x_over_x, x)
    if n == 1:
        return exp1(x)
    return call_elementwise("expn", lambda x: _expn(n, x), x, refine=lambda x: refine_expn(n, x))


def _exp_minus_x_over_x(x: Tensor) -> Tensor:
    safe = plugrad.where((x > 0) & (x < inf), x, 1)
    found = plugrad.exp(-safe) / safe
    found = plugrad.where(x == 0, inf, plugrad.where(x == inf, 0, found))
    return plugrad.where(x < 0, nan, found)


def _expn(n: int, x: Tensor) -> Tensor:
    large = plugrad.where((x >= 1) & (x < inf), x, 1)

    def add_fraction_level(inner: Tensor, k: Tensor) -> Any:
        """Return the continued fraction from level k on, given the one from the next level on."""
        return large + (n + 2 * (k - 1)) - k * (k + (n - 1)) / inner, None

    numbers = plugrad.arange(EXPN_FRACTION_TERMS, 0, -1, dtype=x.dtype, device=x.device)
    fraction, _ = plugrad.scan(add_fraction_level, large + (n + 2.0 * EXPN_FRACTION_TERMS), numbers)
    high = plugrad.where(x == inf, 0, plugrad.exp(-large) / fraction)
    small = plugrad.where((x > 0) & (x < 1), x, 0)
    low = evaluate_polynomial([float(c) for c in expn_series(n)], small)
    if n <= EXPN_LOG_TERM_MAX_ORDER:
        psi = sum(1 / k for k in range(1, n)) - EULER_GAMMA
        safe = plugrad.where(small > 0, small, 1)
        power = small ** (n - 1) * ((-1) ** (n - 1) / factorial(n - 1))
        low = low + power * (psi - plugrad.log(safe))
    found = plugrad.where(x < 1, low, high)
    return plugrad.where(x < 0, nan, found)


SINC_COEFFICIENTS: Final = (1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880)
"""The series of sin(x) / x in even powers of x."""


def zeta(x: Any) -> Tensor:
    """Riemann's zeta function of real numbers; inf at 1.

    >>> special.zeta([2.0, 0.0])
    tensor([ 1.644934, -0.5     ], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("zeta", _zeta, x)


def _zeta(s: Tensor) -> Tensor:
    is_negative = s < 0
    positive = _positive_zeta(plugrad.where(is_negative, 0.5, s))
    found = plugrad.where(is_negative, _negative_zeta(plugrad.where(is_negative, -s, 1)), positive)
    return plugrad.where(s == 1, inf, found)


def _positive_zeta(s: Tensor) -> Tensor:
    distance = plugrad.where(s == 1, 1, s - 1)
    low = evaluate_table("zeta", s) / distance
    large = plugrad.where((s >= 17) & (s < inf), s, 17)
    high = plugrad.where(s == inf, 1, 1 + _zeta_minus_1(large))
    return plugrad.where(s < 17, low, high)


def _zeta_minus_1(s: Tensor) -> Tensor:
    """Return zeta(s) - 1 for s >= 17."""
    found = plugrad.exp(s * -log(9))
    for n in range(8, 1, -1):
        found = found + plugrad.exp(s * -log(n))
    return found


def _negative_zeta(w: Tensor) -> Tensor:
    """Return zeta(-w) of w above 0.

    It is ``-2 (2 pi)**-t sin(pi w / 2) gamma(t) zeta(t)`` of ``t = 1 + w`` (DLMF 25.4.1).
    """
    sine = sin_pi(-w / 2)
    is_small = w < 1 / 64  # the derivative of the quotient is a difference of large numbers there
    series = evaluate_polynomial(SINC_COEFFICIENTS, (plugrad.where(is_small, w, 0) * (pi / 2)) ** 2)
    quotient = sine / plugrad.where(is_small, 1, w)
    low = evaluate_table("zeta_below_0", w) * plugrad.where(is_small, series * (-pi / 2), quotient)
    is_finite = w < (300 if w.dtype == float64 else 80)  # beyond, all but the roots are infinite
    large = plugrad.where((w >= 17) & is_finite, w, 17)
    t = 1 + large
    base = t * INVERSE_2_PI_E
    root = base ** (0.5 * t)  # two factors, of which none overflows
    more = plugrad.expm1(stirling_remainder(t))
    excess = _zeta_minus_1(t)
    more = more + excess + more * excess
    if w.dtype == float64:
        # The power would magnify the rounding of t and of its base, so what was lost comes back.
        error = product_rounding_error(t, INVERSE_2_PI_E, base) + t * INVERSE_2_PI_E_ERROR
        change = t * error / base + (large - (t - 1)) * (1 + plugrad.log(base))
        more = more + plugrad.stop_gradient(change) * (1 + more)
    factor = plugrad.sqrt(8 * pi / t) * sine
    factor = factor + factor * more
    high = root * factor * root
    beyond = plugrad.where(sine == 0, 0, plugrad.stop_gradient(sine) * inf)
    return plugrad.where(w < 17, low, plugrad.where(is_finite, high, beyond))
