"""Distributions of random words: plain functions of tensors, which run on the device of the words.

A word is an int32 with 32 random bits. None of these functions looks at a value or loops until a number fits, so
that they can be traced.
"""

from __future__ import annotations

from functools import reduce
from math import ceil, expm1, lgamma, log, pi, sqrt as square_root
from typing import TYPE_CHECKING, Final

from plugrad.kernels import indexing, sorting
from plugrad.ops.arguments import cast
from plugrad.ops.binary import maximum, minimum, where
from plugrad.ops.movement import concat
from plugrad.ops.scan import cumulative_sum
from plugrad.ops.unary import floor, log as logarithm, sqrt, tan
from plugrad.types.dtype import float32, float64, int32, int64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.tensor import Tensor

# --- floating numbers ----------------------------------------------------------------------------


def scale_to_unit(words: Tensor) -> Tensor:
    """Return random words as float32 numbers in [0, 1), which are multiples of ``2**-24``."""
    return cast(_shift_right(words, 8, 32), float32) * 2.0**-24


def scale_pairs_to_unit(high: Tensor, low: Tensor) -> Tensor:
    """Return pairs of random words as float64 numbers in [0, 1), which are multiples of ``2**-53``."""
    upper, lower = _shift_right(high, 5, 32), _shift_right(low, 6, 32)
    return (cast(upper, float64) * 2.0**26 + cast(lower, float64)) * 2.0**-53


def scale_to_symmetric(words: Tensor) -> Tensor:
    """Return random words as float32 numbers in (-1, 1), which are odd multiples of ``2**-24``."""
    return cast(words >> 7 | 1, float32) * 2.0**-24


def _shift_right(words: Tensor, shift: int, bit_count: int) -> Tensor:
    """Return integers of `bit_count` bits shifted to the right as unsigned ones: zeros enter from the left."""
    return words >> shift & (1 << (bit_count - shift)) - 1


def box_muller(u: Tensor, v: Tensor) -> Tensor:
    """Return two normal numbers for each pair of uniform ones, of which u is above 0 (Box and Muller, 1958).

    The angle lies in one of four quadrants, at most an eighth of a turn from its middle. Sine and cosine of that are
    quotients of the tangent of its half, which takes a tenth of their time in double precision on cpu; so does no
    digit get lost. In odd quadrants they change places, and in two of them their signs.
    """
    turned = 4 * v
    quadrant = floor(turned)
    tangent = tan((turned - quadrant - 0.5) * (pi / 4))
    square = tangent * tangent
    radius = sqrt(-2 * logarithm(u)) / (1 + square)
    radius = where(quadrant >= 2, -radius, radius)
    cosine, sine = radius * (1 - square), 2 * radius * tangent
    is_odd = (quadrant == 1) | (quadrant == 3)
    return concat([where(is_odd, sine, cosine), where(is_odd, cosine, sine)], axis=0)


# The quantile function of the normal distribution that is cut off at -2 and 2, as x * P(1 - x*x) / Q(1 - x*x) for x
# from -1 to 1: rational functions of the least relative error, 7e-8 and 4e-16.
TRUNCATED_NORMAL_QUANTILE_FLOAT32: Final = (
    (4.348552154, 53.92889762, 74.2375771, 24.22186098, 1.999999835),
    (10.6278936, 54.97268028, 52.26986815, 13.82074569, 1.0),
)
"""The coefficients of the polynomials whose quotient gives the quantile, numerator first, exact enough for float32."""
TRUNCATED_NORMAL_QUANTILE_FLOAT64: Final = (
    (
        12.762324488483292,
        763.36235731549,
        6605.773061835855,
        18725.551926404405,
        22900.1378384031,
        13793.256626477154,
        4361.265163889505,
        731.4167351125853,
        61.18487475579982,
        1.9999999999999993,
    ),
    (
        56.49172499406455,
        1365.2493581766237,
        7873.963775624445,
        17321.498660781817,
        17726.240695446155,
        9349.253501546882,
        2667.856438553028,
        412.45620139273655,
        32.30229718812869,
        1.0,
    ),
)
"""The coefficients of the polynomials whose quotient gives the quantile, numerator first, exact enough for float64."""


def truncated_normal_quantile(x: Tensor) -> Tensor:
    """Return the quantiles of the normal distribution truncated at ±2, for levels from -1 to 1."""
    numerator, denominator = (
        TRUNCATED_NORMAL_QUANTILE_FLOAT64
        if x.dtype is float64
        else TRUNCATED_NORMAL_QUANTILE_FLOAT32
    )
    rest = 1 - x * x
    return x * (_evaluate_polynomial(numerator, rest) / _evaluate_polynomial(denominator, rest))


def _evaluate_polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Return the values of a polynomial, given from the highest coefficient on."""
    first, *others = coefficients
    return reduce(lambda y, coefficient: y * x + coefficient, others, x * 0 + first)


# --- gamma ---------------------------------------------------------------------------------------

MAX_SHORTFALL_PROBABILITY: Final = 2.0**-40
"""The largest probability with which sampling by rejection may run out of accepted numbers."""


def gamma_rejection_probability(alpha: float) -> float:
    """Return the probability with which `sample_gamma` rejects a normal number, for a shape `alpha` of 1 or more.

    >>> round(gamma_rejection_probability(1.0), 3), round(gamma_rejection_probability(100.0), 5)
    (0.048, 0.00028)
    """
    d = alpha - 1 / 3
    log_acceptance = lgamma(alpha) + d + (0.5 - alpha) * log(d) - 0.5 * log(2 * pi)
    return max(-expm1(log_acceptance), 2.0**-20)


def max_rejected_count(count: int, rejection_probability: float) -> int:
    """Return how many of `count` numbers are rejected at most, except with `MAX_SHORTFALL_PROBABILITY`.

    >>> max_rejected_count(1_000_000, 0.049)
    50617

    It is the bound of Bernstein (1924) for a sum of independent numbers.
    """
    least, variance = (
        -log(MAX_SHORTFALL_PROBABILITY),
        count * rejection_probability * (1 - rejection_probability),
    )
    return ceil(
        count * rejection_probability + least / 3 + square_root(least**2 / 9 + 2 * least * variance)
    )


def sample_gamma(
    alpha: float,
    count: int,
    draw_normal: Callable[[int], Tensor],
    draw_uniform: Callable[[int], Tensor],
) -> Tensor:
    """Return `count` numbers of the gamma distribution with a shape `alpha` of 1 or more (Marsaglia and Tsang, 2000).

    The method rejects less than 5 of 100 normal numbers. The elements whose number is rejected take one of a second
    lot each, which has as many as are needed, but for a probability of `MAX_SHORTFALL_PROBABILITY`. It is drawn in the
    same way. Where a lot would hardly be smaller, each element takes the first accepted number of several rounds.
    """
    d = alpha - 1 / 3
    c = 1 / (9 * d) ** 0.5
    rejection = gamma_rejection_probability(alpha)

    def propose(count: int) -> tuple[Tensor, Tensor]:
        """Return proposed numbers, and whether each is accepted."""
        normal, uniform = draw_normal(count), draw_uniform(count)
        root = 1 + c * normal
        cube = root * root * root
        log_cube = 3 * logarithm(maximum(root, 1e-30))
        bound = 0.5 * normal * normal + d * (1 - cube + log_cube)
        return cube, (root > 0) & (logarithm(uniform) < bound)

    def draw_accepted(count: int) -> Tensor:
        """Return `count` accepted numbers, chosen from more proposed ones."""
        cube, is_accepted = propose(count)
        spare = max_rejected_count(count, rejection)
        if 2 * spare <= count:
            place = cumulative_sum(cast(~is_accepted, int32), axis=0) - 1
            place = minimum(maximum(place, 0), spare - 1)
            return where(is_accepted, cube, indexing.gather(draw_accepted(spare), place, axis=0))
        for _ in range(1, ceil(log(MAX_SHORTFALL_PROBABILITY) / log(rejection))):
            other, is_good = propose(count)
            cube = where(is_accepted, cube, where(is_good, other, 1.0))
            is_accepted = is_accepted | is_good
        return cube

    return d * draw_accepted(count)


def small_shape_gamma_factor(alpha: float, uniform: Tensor) -> Tensor:
    """Return the factor that turns gamma variates of shape ``alpha + 1`` into variates of shape `alpha`."""
    return uniform ** (1 / alpha)


# --- integers ------------------------------------------------------------------------------------


def scale_to_integers(words: Sequence[Tensor], span: int) -> Tensor:
    """Return uniformly distributed integers from 0 to ``span - 1``, made from random words.

    They are the integer parts of ``w * span / 2**n`` for the number w of n bits that the words consist of. The words
    are int32, or int64, and have all their bits; so has the result, as if it had no sign. The first word is the
    highest. It alone decides if the span is a power of 2; else one probability differs from another by at most
    ``span / 2**n``, relatively.
    """
    bits = 64 if words[0].dtype is int64 else 32
    if span & (span - 1) == 0:
        return words[0] & _reinterpret_as_signed(span - 1, bits)
    half = bits // 2
    mask = (1 << half) - 1
    upper, lower = span >> half, span & mask
    # From the lowest digit d on, the integer part of (d * span + carried) / 2**half is carried.
    carried: Tensor | None = None
    for word in reversed(words):
        for digit in (word & mask, _shift_right(word, half, bits)):
            product = digit * lower
            if carried is not None:
                product = product + (carried & mask if upper else carried)
            total = _shift_right(product, half, bits)
            if upper:
                total = total + digit * upper
                if carried is not None:
                    total = total + _shift_right(carried, half, bits)
            carried = total
    assert carried is not None
    return carried


def _reinterpret_as_signed(number: int, bit_count: int) -> int:
    """Return the signed integer with the same `bit_count` bits as an unsigned one."""
    return (number + (1 << (bit_count - 1))) % (1 << bit_count) - (1 << (bit_count - 1))


def add_modulo(words: Tensor, number: int) -> Tensor:
    """Return the sum of integers and a number, modulo 2 to the power of their bits."""
    bits = 64 if words.dtype is int64 else 32
    return words + _reinterpret_as_signed(number, bits) if number else words


# --- orders --------------------------------------------------------------------------------------


def required_shuffles(size: int) -> int:
    """Return how often to sort `size` elements by random words until less than one pair may be expected to tie always.

    >>> required_shuffles(60_000), required_shuffles(1_000_000)
    (1, 2)
    """
    return max(1, ceil((2 * log(max(size, 1)) - log(2)) / log(2.0**32)))


def argsort_words(words: Tensor) -> Tensor:
    """Return the positions of words in order; equal ones stay in their order."""
    return sorting.argsort(words, axis=0, stable=True)
