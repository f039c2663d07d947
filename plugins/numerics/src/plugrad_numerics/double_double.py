"""Intermediate results with about 31 digits, as sums of two float64 numbers (Dekker 1971; Hida, Li and Bailey 2001).

They make functions exact whose terms cancel, or whose exponents magnify what they are rounded by. The numbers have no
gradients: a function adds the difference of the exact value from one with gradients (`tables.call_elementwise`).
Relative errors are near 1e-31, those of `exp` and absolute ones of `log` near 1e-23.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import factorial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import plugrad

if TYPE_CHECKING:
    from plugrad import Tensor

DEKKER_SPLITTER: Final = 2.0**27 + 1
"""The factor that splits a float64 number into two halves of its digits."""
EXP_TABLE_STEPS: Final = 64
"""How many entries the table of `exp` has from one power of 2 to the next."""
MIN_EXPONENT: Final = -1074
"""The exponent of the smallest power of 2 among the float64 numbers."""
LOG_OF_SMALLEST_HALF: Final = -745.14
"""The logarithm below which the nearest float64 number to the exponential is 0."""
STIRLING_MIN: Final = 10.0
"""The smallest x at which Stirling's series is used; below, it is used at x + 10."""
STIRLING_COEFFICIENTS: Final = (
    *(-1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400),
    *(43867 / 244188, -174611 / 125400, 77683 / 5796, -236364091 / 1506960, 657931 / 300),
    -3392780147 / 93960,
)
"""The series of log(gamma) after 1 / (12 x), in odd powers of 1 / x from the third on (DLMF 5.11.1)."""


class DoubleDouble(NamedTuple):
    """A number in double-double arithmetic: the unevaluated sum of two float64 numbers, `high` and `low`."""

    high: Any
    low: Any

    @property
    def value(self) -> Tensor:
        """The nearest float64 number."""
        return self.high + self.low


def from_fraction(value: Fraction) -> DoubleDouble:
    """Return the double-double number nearest to an exact fraction."""
    high = float(value)
    return DoubleDouble(high, float(value - Fraction(high)))


LOG_2_PER_EXP_STEP: Final = from_fraction(
    Fraction("0.6931471805599453094172321214581765680755") / EXP_TABLE_STEPS
)
PI: Final = from_fraction(Fraction("3.1415926535897932384626433832795028841972"))
LOG_ROOT_OF_2_PI: Final = from_fraction(Fraction("0.9189385332046727417803297364056176398614"))


def two_sum(x: Any, y: Any) -> DoubleDouble:
    """Return the exact sum of two numbers."""
    total = x + y
    part = total - x
    return DoubleDouble(total, (x - (total - part)) + (y - part))


def two_product(x: Any, y: Any) -> DoubleDouble:
    """Return the exact product of two numbers below 1e299."""
    product = x * y
    x_high, y_high = x * DEKKER_SPLITTER, y * DEKKER_SPLITTER
    x_high, y_high = x_high - (x_high - x), y_high - (y_high - y)
    x_low, y_low = x - x_high, y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return DoubleDouble(product, error)


def _normalize(high: Any, low: Any) -> DoubleDouble:
    """Return the same sum with a `low` below the precision of `high`."""
    total = high + low
    return DoubleDouble(total, low - (total - high))


def add(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return the sum; its rounding error is relative to the larger term."""
    high, error = two_sum(x.high, y.high)
    return _normalize(high, error + (x.low + y.low))


def add_number(x: DoubleDouble, y: Any) -> DoubleDouble:
    """Return the sum of a double-double and a float64 number."""
    high, error = two_sum(x.high, y)
    return _normalize(high, error + x.low)


def negate(x: DoubleDouble) -> DoubleDouble:
    """Return the exact negative."""
    return DoubleDouble(-x.high, -x.low)


def multiply(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return a product of numbers below 1e299."""
    high, error = two_product(x.high, y.high)
    return _normalize(high, error + (x.high * y.low + x.low * y.high))


def multiply_number(x: DoubleDouble, y: Any) -> DoubleDouble:
    """Return the product of a double-double and a float64 number."""
    high, error = two_product(x.high, y)
    return _normalize(high, error + x.low * y)


def divide(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return a quotient, by one step of long division."""
    quotient = x.high / y.high
    high, error = two_product(quotient, y.high)
    rest = ((x.high - high) - error) + (x.low - quotient * y.low)
    return _normalize(quotient, rest / y.high)


def power(x: DoubleDouble, n: int) -> DoubleDouble:
    """Return ``x**n`` for a whole exponent of 1 or more."""
    found = x
    for digit in f"{n:b}"[1:]:
        found = multiply(found, found)
        found = multiply(found, x) if digit == "1" else found
    return found


def from_number(x: Tensor) -> DoubleDouble:
    """Convert a float64 number to a double-double number."""
    return DoubleDouble(x, plugrad.zeros_like(x))


def where(condition: Tensor, x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Return x where a condition is true, and y elsewhere."""
    return DoubleDouble(
        plugrad.where(condition, x.high, y.high), plugrad.where(condition, x.low, y.low)
    )


@cache
def _exp_tables() -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of `exp`: ``2**(j / 64)`` as double-doubles, and powers of 2 of whole exponents."""
    with localcontext(prec=50):
        powers = [Decimal(2) ** (Decimal(j) / EXP_TABLE_STEPS) for j in range(EXP_TABLE_STEPS)]
    steps = [from_fraction(Fraction(p)) for p in powers]
    highs, lows = np.array(steps).T
    return highs, lows, np.ldexp(1.0, np.arange(MIN_EXPONENT, 1024))


def exp(x: DoubleDouble) -> DoubleDouble:
    """Return the exponential, by tables of powers of 2 and a polynomial; the number must be below 709."""
    count = plugrad.round(x.high / LOG_2_PER_EXP_STEP.high)
    count = plugrad.clip(
        plugrad.where(plugrad.isnan(count), 0, count),
        MIN_EXPONENT * EXP_TABLE_STEPS,
        1024 * EXP_TABLE_STEPS - 1,
    )
    exponent = plugrad.floor(count / EXP_TABLE_STEPS)
    high, error = two_product(count, LOG_2_PER_EXP_STEP.high)
    rest = add(x, DoubleDouble(-high, -(error + count * LOG_2_PER_EXP_STEP.low)))  # at most 0.0055
    r = rest.high
    tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040)))
    square = multiply(rest, rest)
    terms = DoubleDouble(square.high / 2, square.low / 2 + r * r * r * (1 / 6 + r * tail))
    terms = add_number(add(rest, terms), 1.0)
    tables = [plugrad.asarray(t, dtype=r.dtype, device=r.device) for t in _exp_tables()]
    step = (count - exponent * EXP_TABLE_STEPS).astype("int32")
    highs, lows = (plugrad.take(t, step) for t in tables[:2])
    power = plugrad.take(tables[2], (exponent - MIN_EXPONENT).astype("int32"))
    found = multiply(terms, DoubleDouble(highs, lows))
    # Below, the count is clipped, and the polynomial is not meant for the rest.
    is_zero = x.high < LOG_OF_SMALLEST_HALF
    return DoubleDouble(*(plugrad.where(is_zero, 0.0, part * power) for part in found))


def exp_times(x: DoubleDouble, factor: DoubleDouble) -> DoubleDouble:
    """Return the exponential of x times a factor, also where the exponential alone is below float64."""
    root = exp(DoubleDouble(x.high / 2, x.low / 2))
    return multiply(multiply(root, factor), root)


def log(x: DoubleDouble) -> DoubleDouble:
    """Return the logarithm, by a step of Newton's method."""
    near = plugrad.log(x.high)
    rest = add_number(multiply(x, exp(from_number(-near))), -1.0)
    return add_number(rest, near)


def sine_and_cosine(x: DoubleDouble) -> tuple[DoubleDouble, DoubleDouble]:
    """Return the sine and the cosine of an angle of at most a quarter of pi, by their series."""
    square = multiply(x, x)
    found: list[DoubleDouble] = []
    for first in (1, 0):
        series = [Fraction((-1) ** j, factorial(2 * j + first)) for j in range(13)]
        rest: Any = float(series[-1])
        for c in series[-2:3:-1]:
            rest = rest * square.high + float(c)
        total = from_number(rest)
        for c in series[3::-1]:
            total = add(multiply(total, square), from_fraction(c))
        found.append(total)
    return multiply(found[0], x), found[1]


def log_gamma_and_divisor(x: DoubleDouble) -> tuple[DoubleDouble, DoubleDouble]:
    """Return L and p such that the gamma function at x above 0 is ``exp(L) / p``."""
    is_low = x.high < STIRLING_MIN
    shifted = add_number(x, plugrad.where(is_low, STIRLING_MIN, 0.0))
    product = x
    for j in range(1, int(STIRLING_MIN)):
        product = multiply(product, add_number(x, float(j)))
    one = plugrad.ones_like(x.high)
    product = where(is_low, product, from_number(one))
    inverse = divide(from_number(one), shifted)
    square = inverse.high * inverse.high
    tail = STIRLING_COEFFICIENTS[-1] * square + STIRLING_COEFFICIENTS[-2]
    for c in STIRLING_COEFFICIENTS[-3::-1]:
        tail = tail * square + c
    correction = multiply(inverse, from_fraction(Fraction(1, 12)))
    correction = add_number(correction, inverse.high * square * tail)
    found = multiply(add_number(shifted, -0.5), log(shifted))
    found = add(found, negate(shifted))
    return add(found, add(correction, LOG_ROOT_OF_2_PI)), product


def log_beta_and_factor(a: DoubleDouble, b: DoubleDouble) -> tuple[DoubleDouble, DoubleDouble]:
    """Return L and f such that the beta function is ``exp(L) * f``."""
    (log_a, by_a), (log_b, by_b), (log_c, by_c) = (
        log_gamma_and_divisor(z) for z in (a, b, add(a, b))
    )
    return add(add(log_a, log_b), negate(log_c)), divide(by_c, multiply(by_a, by_b))
