"""Random words, normal numbers and classes, made by ops of a key and a counter; in integers, all ops are exact."""

from __future__ import annotations

from math import pi, prod
from typing import TYPE_CHECKING, Final

from plugrad.engine.composites import composite
from plugrad.kernels import creation, random, sorting
from plugrad.kernels.random import greatest_chosen_word
from plugrad.ops.arguments import cast
from plugrad.ops.binary import minimum, where
from plugrad.ops.distributions import scale_to_unit
from plugrad.ops.movement import reshape, stack
from plugrad.ops.reduction import max as greatest, sum as total
from plugrad.ops.scan import cumulative_sum
from plugrad.ops.unary import cos, exp, log, sin, sqrt
from plugrad.types.dtype import float32, int32

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape

PHILOX_ROUNDS: Final = 10
"""The number of rounds of Philox."""
PHILOX_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
"""The factors by which a round of Philox multiplies two words of the counter."""
PHILOX_KEY_INCREMENTS: Final = (0x9E3779B9 - 2**32, 0xBB67AE85 - 2**32)
"""The numbers that are added to both words of the key after each round."""
INT32_MIN: Final = -(2**31)
"""The least int32, as a Python integer."""
MAX_CLASS_COMPARISONS: Final = 1 << 24
"""The most comparisons of uniform numbers with cumulative probabilities; for more, a search takes less memory."""


@composite(random.random_bits)
def random_bits(state: Tensor, *, shape: Shape) -> Tensor:
    """Return the random words of consecutive Philox blocks; products of words are computed from half words."""
    count = prod(shape)
    blocks = -(-count // 4)
    steps = creation.range.on(state.backend, start=0, stop=blocks, step=1, dtype=int32)
    a, b, c, d = (state[n] for n in range(2, 6))
    low, high = state[0], state[1]
    words = [a + steps]
    carry = (words[0] ^ INT32_MIN) < (a ^ INT32_MIN)  # without sign
    for word in (b, c, d):
        words.append(word + cast(carry, int32))
        carry = carry & (words[-1] == 0)
    a, b, c, d = words
    for _ in range(PHILOX_ROUNDS):
        left_high, left = _multiply_words(a, PHILOX_MULTIPLIERS[0])
        right_high, right = _multiply_words(c, PHILOX_MULTIPLIERS[1])
        a, b, c, d = right_high ^ b ^ low, right, left_high ^ d ^ high, left
        low, high = low + PHILOX_KEY_INCREMENTS[0], high + PHILOX_KEY_INCREMENTS[1]
    drawn = reshape(stack([a, b, c, d], axis=1), (4 * blocks,))
    return reshape(drawn[:count], shape)


def _multiply_words(x: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Return the high and the low word of the 64-bit product of each word and a factor."""
    x_high, x_low = x >> 16 & 0xFFFF, x & 0xFFFF
    high, low = factor >> 16, factor & 0xFFFF
    products = x_low * low
    middle = x_high * low + (products >> 16 & 0xFFFF)
    other = x_low * high + (middle & 0xFFFF)
    upper = x_high * high + (middle >> 16 & 0xFFFF) + (other >> 16 & 0xFFFF)
    return upper, other << 16 | products & 0xFFFF


@composite(random.random_normal)
def random_normal(state: Tensor, *, shape: Shape) -> Tensor:
    """Return pairs of normal numbers by the transformation of Box and Muller."""
    count = prod(shape)
    words = random.random_bits(state, shape=(-(-count // 2), 2))
    a, b = words[:, 0], words[:, 1]
    u = cast(a >> 1 & 0x7FFFFFFF | 1, float32) * 2.0**-31
    radius = sqrt(-2 * log(u))
    angle = cast(b << 2, float32) * (pi / 4 * 2.0**-31)
    sine, cosine = radius * sin(angle), radius * cos(angle)
    cosine = where(b < 0, -cosine, cosine)
    is_swapped = (b & 1 << 30) != 0
    pairs = [where(is_swapped, sine, cosine), where(is_swapped, cosine, sine)]
    return reshape(reshape(stack(pairs, axis=1), (2 * words.shape[0],))[:count], shape)


@composite(random.dropout, is_traced=True)
def dropout(x: Tensor, state: Tensor, *, rate: float, noise_shape: Shape) -> Tensor:
    """Return the elements for which words are small enough, divided by ``1 - rate``, and 0 in place of the others."""
    is_chosen = random.random_bits(state, shape=noise_shape) <= greatest_chosen_word(rate)
    return where(is_chosen, x / (1 - rate), 0)


@composite(random.multinomial)
def multinomial(logits: Tensor, state: Tensor, *, num_samples: int, normalized: bool) -> Tensor:
    """Return for each uniform number the first class whose cumulative probability exceeds it."""
    weights = logits if normalized else exp(logits - greatest(logits, axis=1, keepdims=True))
    sums = cumulative_sum(where(weights > 0, weights, 0), axis=1)
    rows, classes = sums.shape
    words = random.random_bits(state, shape=(rows, num_samples))
    places = cast(scale_to_unit(words), sums.dtype) * sums[:, -1:]
    if rows * classes * num_samples <= MAX_CLASS_COMPARISONS:
        reached = total(cast(sums[:, None, :] <= places[:, :, None], int32), axis=2)
    else:
        reached = sorting.upper_bound(sums, places)
    return minimum(reached, classes - 1)
