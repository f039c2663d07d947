"""Incomplete gamma functions of large parameters, by Temme's uniform expansion (DLMF 8.12)."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import pi, sqrt
from typing import TYPE_CHECKING, Final

import plugrad
from plugrad_numerics import double_double
from plugrad_numerics.error_functions import erfcx_values
from plugrad_numerics.tables import evaluate_polynomial

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_numerics.double_double import DoubleDouble

MIN_UNIFORM_ORDER: Final = 200.0
"""The smallest parameter for which the expansion is exact."""
MAX_RELATIVE_DISTANCE: Final = 0.25
"""How far from the parameter, relative to it, the expansion is used; beyond, series converge soon."""
EXPANSION_ORDERS: Final = 7
"""How many terms ``c_k / a**k`` the expansion has."""
SERIES_COEFFICIENT_COUNT: Final = 24
"""How many coefficients the series of each term has."""


@cache
def _expansion_coefficients() -> tuple[list[float], list[list[float]]]:
    """Return the series of eta / mu in mu, and those of c_0, c_1, … in eta, of ``eta**2 / 2 = mu - log(1 + mu)``."""
    size = SERIES_COEFFICIENT_COUNT + 2 * EXPANSION_ORDERS + 2
    # The derivative of the equation is mu * mu' = eta * (1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size):
        inner = sum((mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] * Fraction(2, n + 1) - inner) / 2)
    # eta / mu
    quotient = [Fraction(1)]
    for n in range(1, size - 1):
        quotient.append(-sum((mu[k + 1] * quotient[n - k] for k in range(1, n + 1)), Fraction(0)))
    rows = [quotient[1:]]
    for _ in range(EXPANSION_ORDERS - 1):  # DLMF 8.12.10; the terms with 1 / eta cancel
        c = rows[-1]
        rows.append([(n + 2) * c[n + 2] - c[1] * quotient[n + 1] for n in range(len(c) - 2)])
    square = [Fraction(2 * (-1) ** n, n + 2) for n in range(SERIES_COEFFICIENT_COUNT)]
    root = [Fraction(1)]
    for n in range(1, SERIES_COEFFICIENT_COUNT):
        inner = sum((root[k] * root[n - k] for k in range(1, n)), Fraction(0))
        root.append((square[n] - inner) / 2)
    return [float(c) for c in root], [
        [float(c) for c in row[:SERIES_COEFFICIENT_COUNT]] for row in rows
    ]


def uses_uniform_expansion(a: Tensor, x: Tensor) -> Tensor:
    """Return for which a and x the uniform expansion of the incomplete gamma functions is used."""
    return (a >= MIN_UNIFORM_ORDER) & (plugrad.abs(x - a) < MAX_RELATIVE_DISTANCE * a)


def scaled_incomplete_gamma_tail(
    a: Tensor, x: Tensor, exponent: DoubleDouble | None = None
) -> tuple[Tensor, Tensor]:
    """Return the smaller incomplete gamma function times ``exp(exponent)``, and ``exponent = x - a - a * log(x / a)``.

    It is the upper one if x is a or larger, otherwise the lower one. An exact exponent makes it more exact.
    """
    root, rows = _expansion_coefficients()
    mu = (x - a) / a
    eta = mu * evaluate_polynomial(root, mu)
    sign = plugrad.where(x >= a, 1.0, -1.0)
    inverse = 1 / a
    total = evaluate_polynomial(rows[-1], eta)
    for row in rows[-2::-1]:
        total = total * inverse + evaluate_polynomial(row, eta)
    y = sign * eta * plugrad.sqrt(a / 2)
    if exponent is None:
        tail, rough = erfcx_values(y), a * eta * eta / 2
    else:
        tail, rough = _erfcx_of_double_double(y, exponent), exponent.high
    return tail / 2 + sign * total * plugrad.sqrt(inverse / (2 * pi)), rough


def _erfcx_of_double_double(y: Tensor, square: DoubleDouble) -> Tensor:
    """Return erfcx(y) corrected for the rounding of y, given its exact square."""
    is_far = square.high > 0.01
    safe = plugrad.where(is_far, square.high, 1)
    root = plugrad.sqrt(safe)
    product, error = double_double.two_product(root, root)
    low = ((safe - product) - error + square.low) / (2 * root)
    y, low = plugrad.where(is_far, root, y), plugrad.where(is_far, low, 0)
    found = erfcx_values(y)
    slope = 2 * y * found - 2 / sqrt(pi)
    # From 1 on, erfcx_values looks up 4 / (4 + y).
    place = 4 / (4 + y)
    total = double_double.two_sum(plugrad.full_like(y, 4.0), y)
    product = double_double.multiply_number(total, place)
    moved = double_double.add_number(double_double.negate(product), 4.0).value / place
    return found + slope * (low - plugrad.where(y < 1, 0, moved))
