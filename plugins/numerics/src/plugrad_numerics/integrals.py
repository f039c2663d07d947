"""Exponential integrals and the zeta function."""

from __future__ import annotations

from math import inf, log, nan, pi
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_numerics.gamma_functions import gamma_values, sin_pi
from plugrad_numerics.tables import elementwise, evaluate

if TYPE_CHECKING:
    from plugrad import Tensor


def exp1(x: Any) -> Tensor:
    """The exponential integral E1, the integral of ``exp(-t) / t`` from x on; inf at 0, NaN below it.

    >>> special.exp1([1.0])
    tensor([0.21938394], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return elementwise("exp1", _exp1, x)


def _exp1(x: Tensor) -> Tensor:
    small = plugrad.where((x > 0) & (x < 0.5), x, 0.25)
    low = evaluate("exp1", small) - plugrad.log(small)
    large = plugrad.where((x >= 0.5) & (x < inf), x, 1)
    high = evaluate("exp1_tail", 1 / large) * plugrad.exp(-large) / large
    high = plugrad.where(x == inf, 0, high)
    found = plugrad.where(x < 0.5, low, high)
    return plugrad.where(x < 0, nan, plugrad.where(x == 0, inf, found))


def expi(x: Any) -> Tensor:
    """The exponential integral Ei, the principal value of that of ``exp(t) / t`` up to x; -inf at 0.

    >>> special.expi([1.0])
    tensor([1.8951178], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return elementwise("expi", _expi, x)


def _expi(x: Tensor) -> Tensor:
    small = plugrad.where((x > 0) & (x < 6), x, 1)
    low = evaluate("expi", small) + plugrad.log(small)
    large = plugrad.where((x >= 6) & (x < inf), x, 6)
    # Half of the exponential twice, because ei(x) is finite a little longer than exp(x).
    half = plugrad.exp(large / 2)
    high = half * (evaluate("expi_tail", 6 / large) * half / large)
    high = plugrad.where(x == inf, inf, high)
    below = -_exp1(plugrad.where(x < 0, -x, 1))
    found = plugrad.where(x < 6, low, high)
    return plugrad.where(x < 0, below, plugrad.where(x == 0, -inf, found))


def zeta(x: Any) -> Tensor:
    """Riemann's zeta function of real numbers; inf at 1.

    >>> special.zeta([2.0, 0.0])
    tensor([ 1.644934, -0.5     ], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return elementwise("zeta", _zeta, x)


def _zeta(s: Tensor) -> Tensor:
    is_negative = s < 0
    positive = _positive_zeta(plugrad.where(is_negative, 1 - s, s))
    safe = plugrad.where(is_negative, s, -0.5)
    # DLMF 25.4.1: zeta(s) = 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(1 - s) zeta(1 - s)
    factor = 2 * plugrad.exp((safe - 1) * log(2 * pi)) * sin_pi(safe / 2) * gamma_values(1 - safe)
    found = plugrad.where(is_negative, factor * positive, positive)
    return plugrad.where(s == 1, inf, found)


def _positive_zeta(s: Tensor) -> Tensor:
    distance = plugrad.where(s == 1, 1, s - 1)
    low = evaluate("zeta", s) / distance
    large = plugrad.where((s >= 17) & (s < inf), s, 17)
    high = plugrad.exp(large * -log(9))
    for n in range(8, 1, -1):
        high = high + plugrad.exp(large * -log(n))
    high = plugrad.where(s == inf, 1, 1 + high)
    return plugrad.where(s < 17, low, high)
