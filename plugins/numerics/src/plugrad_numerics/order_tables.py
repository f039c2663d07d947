"""Tables of Bessel functions of one order, computed with the number of digits that their series need.

The series are DLMF 10.2.2 and 10.25.2, the connection formulas 10.2.3 and 10.27.4, the expansions for large numbers
10.17 and 10.40. An order ``v`` is ``n + part``, where ``n`` is a whole number and ``part`` is from -1/2 to 1/2.
"""

from __future__ import annotations

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, factorial, log2
from operator import mul
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad_numerics.double_double import DoubleDouble, from_fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

PI: Final = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214"
    "808651328230664709384460955058223172535940812848111745028410270193852110555964462294895493038196"
)
MIN_ORDER_FRACTION: Final = Decimal("1e-25")
"""The difference from a whole order that is computed with in its place; values change by less than 1e-23."""
SERIES_TOLERANCE: Final = Decimal("1e-30")
"""The relative size of what is left out of series."""
ASYMPTOTIC_PIECES: Final = 16
"""How many pieces the tables of the asymptotic factors have."""
PIECE_POLYNOMIAL_DEGREE: Final = 16
MAX_KEPT_EXPONENTS: Final = 4
"""For how many exponents the powers of all points of a table are cached."""
SERIES_BELOW_1_TERMS: Final = 14
"""How many powers of x * x / 4 are enough below 1."""


class PiecewisePolynomial(NamedTuple):
    """A piecewise polynomial on pieces of equal width: start, number of pieces per unit, and coefficients."""

    start: float
    pieces_per_unit: float
    coefficients: np.ndarray[Any, Any]
    """A row for each piece, from the constant one on."""


class SecondSolutionBelow1(NamedTuple):
    """The coefficients of a Bessel function of the second kind, Y or K, for x below 1.

    It is ``principal * (x / large)**-v + (x / 2)**n * (a * cosh(part * t) + b * sinh(part * t) / sin(pi * part))`` of
    ``t = log(x / 2)``, where n is the whole order, part its fraction, and principal, a and b are polynomials in
    ``x * x / 4``, whose coefficients are given.
    """

    whole_order: int
    order_fraction: float
    sine_of_fraction: float
    """The value of sin(pi * order_fraction)."""
    principal_coefficients: list[float]
    """The coefficients of ``principal``."""
    cosh_coefficients: list[float]
    """The coefficients of ``a``, the factor of the cosh."""
    sinh_coefficients: list[float]
    """The coefficients of ``b``, the factor of the sinh."""


def smallest_asymptotic_argument(order: float) -> float:
    """Return the smallest x, a power of 2, for which the asymptotic expansions are used."""
    return 2.0 ** max(5, ceil(log2(max(2 * order, 1))))


@lru_cache(maxsize=64)
def first_kind_pieces(order: float, *, is_modified: bool) -> PiecewisePolynomial:
    """Return ``(large / x)**order`` times J(x), or if `is_modified` times ``exp(-x) * I(x)``, for x below large."""
    with localcontext(prec=_required_decimal_digits(order)):
        large = Decimal(smallest_asymptotic_argument(order))
        v = Decimal(order)
        terms = _BesselSeries(v, 1 if is_modified else -1, large)
        scale = (large / 2) ** v if v else Decimal(1)
        grid = _make_chebyshev_grid(
            0, large, _count_pieces_per_unit_interval(order) * int(large), getcontext().prec
        )
        values = [scale * terms.evaluate_order_v(x) for x in grid.points]
        if is_modified:
            values = [value / e for value, e in zip(values, grid.exponentials, strict=True)]
        return _interpolate(grid, values)


@lru_cache(maxsize=64)
def modified_series_coefficients(order: float, max_x: float) -> list[DoubleDouble]:
    """Return the coefficients of ``(x / 2)**-order * I(x)`` in powers of ``x * x / 4``, enough for x below `max_x`."""
    with localcontext(prec=_required_decimal_digits(order)):
        v, z = Decimal(order), Decimal(max_x) ** 2 / 4
        term = 1 / _gamma(v + 1)
        found: list[DoubleDouble] = []
        largest, size, k = Decimal(0), abs(term), 0
        while k <= abs(v) or size > largest * SERIES_TOLERANCE:
            found.append(from_fraction(Fraction(term)))
            largest = max(largest, size)
            k += 1
            term /= k * (k + v)
            size = abs(term) * z**k
        return found


@lru_cache(maxsize=64)
def second_kind_tables(
    order: float, *, is_modified: bool
) -> tuple[SecondSolutionBelow1, PiecewisePolynomial]:
    """Return two tables of Y, or if `is_modified` of K: one for x below 1, and a scaled one for x from 1 to large."""
    with localcontext(prec=_required_decimal_digits(order)):
        large = Decimal(smallest_asymptotic_argument(order))
        n, part = _split_off_order_fraction(order)
        v = n + part
        terms = _BesselSeries(v, 1 if is_modified else -1, large)
        sine = _sine(PI * part)  # that of v times pi has the sign of (-1)**n too
        cosine = _sine(PI * (Decimal("0.5") - abs(part)))
        sign = (-1) ** n
        down, up = (2 / large) ** v, (2 * large) ** -v

        grid = _make_chebyshev_grid(
            1, large, _count_pieces_per_unit_interval(order) * (int(large) - 1), getcontext().prec
        )
        powers = [x ** (2 * n) * y for x, y in zip(grid.points, grid.powers(2 * part), strict=True)]
        firsts = [
            up * y * terms.evaluate_order_v(x) for x, y in zip(grid.points, powers, strict=True)
        ]
        seconds = [down * terms.evaluate_order_minus_v(x) for x in grid.points]
        both = zip(firsts, seconds, strict=True)
        if is_modified:
            factor = PI / 2 * sign / sine
            differences = [factor * (second - first) for first, second in both]
            values = list(map(mul, differences, grid.exponentials))
        else:
            values = [(cosine * first - sign * second) / sine for first, second in both]
        middle = _interpolate(grid, values)
        head: list[Decimal] = []
        even: list[Decimal] = []
        odd: list[Decimal] = []
        for k in range(min(n, SERIES_BELOW_1_TERMS)):
            principal = _gamma(v - k) / _factorial(k) * down
            head.append((-1) ** k * principal / 2 if is_modified else -principal / PI)
        for k in range(SERIES_BELOW_1_TERMS):
            power = 1 if is_modified else (-1) ** k
            a = power / (_factorial(k) * _gamma(v + k + 1))
            b = power / (_factorial(k + n) * _gamma(k + 1 - part))
            if is_modified:
                factor = sign * PI / 2
                even.append(factor * (b - a) / sine)
                odd.append(-factor * (a + b))
            else:
                even.append((a * cosine - b) / sine)
                odd.append(a * cosine + b)
        floats = [[float(c) for c in row] for row in (head, even, odd)]
        return SecondSolutionBelow1(n, float(part), float(sine), *floats), middle


@lru_cache(maxsize=64)
def asymptotic_factors(
    order: float, *, is_modified: bool
) -> tuple[PiecewisePolynomial, PiecewisePolynomial]:
    """Return the two factors of the asymptotic expansions of Bessel functions, as functions of ``large / x``.

    They are ``sqrt(2 / pi)`` times P and Q of J and Y (DLMF 10.17), or ``exp(-x) * sqrt(x)`` times I and
    ``exp(x) * sqrt(x)`` times K.
    """
    with localcontext(prec=_required_decimal_digits(order)):
        large = Decimal(smallest_asymptotic_argument(order))
        coefficients, four = [Decimal(1)], 4 * Decimal(order) ** 2
        while True:  # up to the least term
            k = len(coefficients)
            following = coefficients[-1] * (four - (2 * k - 1) ** 2) / (8 * k * large)
            if k > order and (
                abs(following) > abs(coefficients[-1]) or abs(following) < Decimal("1e-40")
            ):
                break
            coefficients.append(following)
        if is_modified:
            first = [c * (-1) ** k / (2 * PI).sqrt() for k, c in enumerate(coefficients)]
            second = [c * (PI / 2).sqrt() for c in coefficients]
        else:
            signs = (1, 1, -1, -1)
            signed = [c * (2 / PI).sqrt() * signs[k % 4] for k, c in enumerate(coefficients)]
            first = [Decimal(0) if k % 2 else c for k, c in enumerate(signed)]
            second = [c if k % 2 else Decimal(0) for k, c in enumerate(signed)]
        grid = _make_chebyshev_grid(0, Decimal(1), ASYMPTOTIC_PIECES, getcontext().prec)
        made = [_interpolate(grid, [_horner(c, y) for y in grid.points]) for c in (first, second)]
        return made[0], made[1]


class _BesselSeries:
    """The power series of Bessel functions of orders v and -v, without their factors ``(x / 2)**v``."""

    def __init__(self, v: Decimal, sign: int, large: Decimal) -> None:
        self.large = large
        self.square = sign * (large / 2) ** 2
        self.first = self._coefficients(v)
        self.second: list[Decimal] | None = None
        self.v = v

    def _coefficients(self, v: Decimal) -> list[Decimal]:
        found = [1 / _gamma(v + 1)]
        largest, limit = abs(found[0]), Decimal(10) ** -getcontext().prec
        while len(found) < 2 - v or abs(found[-1]) > largest * limit:
            k = len(found)
            found.append(found[-1] * self.square / (k * (k + v)))
            largest = max(largest, abs(found[-1]))
        return found

    def evaluate_order_v(self, x: Decimal) -> Decimal:
        y = x / self.large
        return _horner(self.first, y * y)

    def evaluate_order_minus_v(self, x: Decimal) -> Decimal:
        if self.second is None:
            self.second = self._coefficients(-self.v)
        y = x / self.large
        return _horner(self.second, y * y)


def _required_decimal_digits(order: float) -> int:
    """Return the decimal digits to compute with so that 35 remain after cancellation in the series."""
    return 60 + int(smallest_asymptotic_argument(order))


def _count_pieces_per_unit_interval(order: float) -> int:
    """Return how many pieces a unit interval is divided into: 2, or 1 for orders above 16."""
    return 2 if order <= 16 else 1


def _split_off_order_fraction(order: float) -> tuple[int, Decimal]:
    """Return the whole order nearest to an order, and the difference from it, which is not 0."""
    n = round(order)
    part = Decimal(order) - n
    return n, part if abs(part) > MIN_ORDER_FRACTION else MIN_ORDER_FRACTION


def _horner(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    found = Decimal(0)
    for c in reversed(coefficients):
        found = found * x + c
    return found


def _factorial(n: int) -> Decimal:
    return Decimal(factorial(n))


def _gamma(s: Decimal) -> Decimal:
    """Return gamma(s), by recurrence from an argument between 1 and 2."""
    factor = Decimal(1)
    while s >= 2:
        s -= 1
        factor *= s
    while s < 1:
        factor /= s
        s += 1
    return factor * _incomplete_gamma_from_1_to_2(s, getcontext().prec)


@lru_cache(maxsize=64)
def _incomplete_gamma_from_1_to_2(s: Decimal, decimal_digits: int) -> Decimal:
    """Return gamma(s) for s from 1 to 2: its integral up to where the rest is below this precision (DLMF 8.7.1)."""
    last = Decimal(decimal_digits * 5 // 2)
    term = found = 1 / s
    k = 0
    while term > found.scaleb(-decimal_digits):
        k += 1
        term *= last / (s + k)
        found += term
    return found * (s * last.ln() - last).exp()


def _sine(x: Decimal) -> Decimal:
    term = found = x
    k = 1
    while abs(term) > abs(found).scaleb(-getcontext().prec):
        k += 2
        term *= -x * x / (k * (k - 1))
        found += term
    return found


@lru_cache(maxsize=8)
def _chebyshev_points_and_matrix(decimal_digits: int) -> tuple[list[Decimal], list[list[Decimal]]]:
    """Return the Chebyshev points, and the matrix from function values there to polynomial coefficients."""
    m = PIECE_POLYNOMIAL_DEGREE + 1
    points = [_sine(PI / 2 - PI * (2 * k + 1) / (2 * m)) for k in range(m)]
    matrix = [[Decimal(0)] * m for _ in range(m)]
    before, current = [Decimal(1)], [Decimal(0), Decimal(1)]
    for j in range(m):
        basis = before if j == 0 else current
        for i, t in enumerate(points):
            weight = _horner(basis, t) * (1 if j == 0 else 2) / m
            for power, b in enumerate(basis):
                matrix[power][i] += weight * b
        if j:
            following = [Decimal(0)] + [2 * b for b in current]
            for power, b in enumerate(before):
                following[power] -= b
            before, current = current, following
    return points, matrix


class _ChebyshevGrid:
    """The Chebyshev points of pieces of equal width, and functions there that tables of many orders need."""

    def __init__(self, start: int, last: Decimal, count: int, digits: int) -> None:
        self.start = start
        self.width = (last - start) / count
        self.count = count
        self.offsets = [self.width * (t + 1) / 2 for t in _chebyshev_points_and_matrix(digits)[0]]
        starts = [start + self.width * piece for piece in range(count)]
        self.points = [x + offset for x in starts for offset in self.offsets]
        self._powers: dict[Decimal, list[Decimal]] = {}

    @cached_property
    def exponentials(self) -> list[Decimal]:
        """The exponential of each point, a product of those of the piece and of the place in it."""
        step, within = self.width.exp(), [offset.exp() for offset in self.offsets]
        first, found = Decimal(self.start).exp(), list[Decimal]()
        for _ in range(self.count):
            found += [first * e for e in within]
            first *= step
        return found

    @cached_property
    def logarithms(self) -> list[Decimal]:
        """The logarithm of each point."""
        return [x.ln() for x in self.points]

    def powers(self, exponent: Decimal) -> list[Decimal]:
        """Return the power of each point; the last exponents are cached, because whole orders share them."""
        found = self._powers.get(exponent)
        if found is None:
            found = [(exponent * y).exp() for y in self.logarithms]
            if len(self._powers) >= MAX_KEPT_EXPONENTS:
                self._powers.clear()
            self._powers[exponent] = found
        return found


@lru_cache(maxsize=8)
def _make_chebyshev_grid(
    start: int, end: Decimal, piece_count: int, decimal_digits: int
) -> _ChebyshevGrid:
    return _ChebyshevGrid(start, end, piece_count, decimal_digits)


def _interpolate(grid: _ChebyshevGrid, values: Sequence[Decimal]) -> PiecewisePolynomial:
    """Return polynomials that take values at the points of a grid."""
    matrix = _chebyshev_points_and_matrix(getcontext().prec)[1]
    size = len(grid.offsets)
    pieces = [values[start : start + size] for start in range(0, len(values), size)]
    rows = [[float(sum(map(mul, row, piece))) for row in matrix] for piece in pieces]
    return PiecewisePolynomial(float(grid.start), float(1 / grid.width), np.array(rows))
