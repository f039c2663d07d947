"""Random numbers as functions of a key and a counter; see `plugrad.kernels.random`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.kernels import random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel
    from plugrad.types.specs import Shape

    Array = NDArray[Any]
    """A NumPy array of any dtype and shape."""

WORD_MASK: Final = np.uint64(0xFFFFFFFF)
"""The bits of a 32-bit word."""
WORD_BITS: Final = np.uint64(32)
"""The number of bits of a word."""
PHILOX_ROUNDS: Final = 10
# The factors and the steps of the key are the constants of Philox 4x32 in Random123.
PHILOX_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], "uint64")
PHILOX_KEY_INCREMENTS: Final = (0x9E3779B9, 0xBB67AE85)
BLOCKS_PER_CHUNK: Final = 16384
"""How many blocks are computed at once, so that all passes over them stay in the cache."""


def unpack_state(state: Array) -> tuple[int, int]:
    """Return the key and the counter of Philox from their words."""
    words = state.astype("<i4").tobytes()
    return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")


def philox(state: Array, block_count: int) -> Iterator[tuple[int, Array]]:
    """Yield `block_count` output blocks of Philox, in groups of thousands.

    Each time they are the number of the first one, and an array of uint64 that is valid until the next: its four rows
    are words 0, 2, 1 and 3 of the blocks.
    """
    key, counter = unpack_state(state)
    steps = np.arange(PHILOX_ROUNDS, dtype="uint64") * np.array([PHILOX_KEY_INCREMENTS], "uint64").T
    keys = (np.array([[key & 0xFFFFFFFF], [key >> 32]], "uint64") + steps) & WORD_MASK
    size = min(block_count, BLOCKS_PER_CHUNK)
    words, all_products = np.empty((4, size), "uint64"), np.empty((2, size), "uint64")
    for first in range(0, block_count, BLOCKS_PER_CHUNK):
        blocks = words[:, : block_count - first]
        x, y, products = blocks[:2], blocks[2:], all_products[:, : block_count - first]
        _write_counters(counter + first, x, y)
        crossed = products[::-1]
        for number in range(PHILOX_ROUNDS):
            np.multiply(x, PHILOX_MULTIPLIERS, out=products)
            np.right_shift(crossed, WORD_BITS, out=x)
            np.bitwise_xor(x, y, out=x)
            np.bitwise_xor(x, keys[:, number, None], out=x)
            np.bitwise_and(crossed, WORD_MASK, out=y)
        yield first, blocks


def _write_counters(first_counter: int, x: Array, y: Array) -> None:
    """Write the words of consecutive counters: words 0 and 2 to x, words 1 and 3 to y."""
    low = np.arange(x.shape[1], dtype="uint64")
    low += np.uint64(first_counter % 2**64)
    high = np.full_like(low, (first_counter >> 64) % 2**64)
    high += low < np.uint64(first_counter % 2**64)
    for half, row in (low, 0), (high, 1):
        np.bitwise_and(half, WORD_MASK, out=x[row])
        np.right_shift(half, WORD_BITS, out=y[row])


def random_bits(state: Array, *, shape: Shape) -> Array:
    """Return the words of Philox's output blocks for a state (the words of key and counter), in order."""
    count = prod(shape)
    words = np.empty((-(-count // 4), 4), "uint32")
    for first, blocks in philox(state, len(words)):
        target = words[first : first + BLOCKS_PER_CHUNK].reshape(-1, 2, 2)
        target[:] = blocks.reshape(2, 2, -1).transpose(2, 1, 0)
    return words.reshape(-1)[:count].view("int32").reshape(shape)


def random_normal(state: Array, *, shape: Shape) -> Array:
    """Return normally distributed numbers for a Philox state, in pairs by the Box–Muller transformation."""
    count = prod(shape)
    out = np.empty((-(-count // 4), 2, 2), "float32")
    for first, blocks in philox(state, len(out)):
        _write_normal_pairs(blocks, out[first : first + BLOCKS_PER_CHUNK])
    return out.reshape(-1)[:count].reshape(shape)


# A number is computed with sums and products that are rounded one by one, so that all backends that round so give the
# same bits. The polynomials are those of Cephes (Moshier, single precision).
LOG_COEFFICIENTS: Final = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
"""Coefficients of a polynomial for the logarithm, the highest power first."""
LN2_HIGH: Final = np.float32(0.693359375)
"""The upper bits of the natural logarithm of 2."""
LN2_LOW: Final = np.float32(-2.12194440e-4)
"""The rest of the natural logarithm of 2, less `LN2_HIGH`."""
SINE_COEFFICIENTS: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
"""Coefficients of a polynomial for the sine, the highest power first."""
COSINE_COEFFICIENTS: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
"""Coefficients of a polynomial for the cosine, the highest power first."""
SQRT_HALF_BIT_PATTERN: Final = np.int32(0x3F3504F3)
"""The bits of the square root of 1/2 in float32, as an integer."""
RADIANS_PER_WORD_UNIT: Final = np.float32(np.pi / 4 * 2.0**-31)
"""The angle in radians by which a random word that is larger by 1 differs."""


def _evaluate_polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Return a polynomial's values at x; the coefficient of the highest power comes first."""
    y = x * np.float32(coefficients[0])
    for coefficient in coefficients[1:-1]:
        y += np.float32(coefficient)
        y *= x
    y += np.float32(coefficients[-1])
    return y


def _write_normal_pairs(blocks: Array, out: Array) -> None:
    """Convert blocks of words to pairs of normal numbers, in an array with the axes (block, pair, number)."""
    words = blocks.astype("uint32")
    radius = _box_muller_radius(words[:2])
    sine, cosine = _sine_and_cosine(words[2:])
    sine *= radius
    cosine *= radius
    is_swapped = (words[2:] & np.uint32(1 << 30)).view("int32") > 0
    out[..., 0] = np.where(is_swapped, sine, cosine).T
    out[..., 1] = np.where(is_swapped, cosine, sine).T


def _box_muller_radius(words: Array) -> Array:
    """Return ``sqrt(-2 * log(u))`` for a number u between 0 and 1 in 31 bits."""
    bits = (words >> np.uint32(1) | np.uint32(1)).view("int32").astype("float32").view("int32")
    # bits is that of 2**exponent * (1 + x), with x around 0.
    bits -= SQRT_HALF_BIT_PATTERN
    exponent = (bits >> 23).astype("float32") - np.float32(31)
    x = ((bits & 0x7FFFFF) + SQRT_HALF_BIT_PATTERN).view("float32") - np.float32(1)
    square = x * x
    y = _evaluate_polynomial(LOG_COEFFICIENTS, x)
    y *= x
    y *= square
    y += exponent * LN2_LOW
    y -= square * np.float32(0.5)
    y += x
    y += exponent * LN2_HIGH
    y *= np.float32(-2)
    return np.sqrt(y, out=y)


def _sine_and_cosine(words: Array) -> tuple[Array, Array]:
    """Return the sine of an angle up to pi / 4, and its cosine with a random sign."""
    x = (words << np.uint32(2)).view("int32").astype("float32")
    x *= RADIANS_PER_WORD_UNIT
    square = x * x
    sine = _evaluate_polynomial(SINE_COEFFICIENTS, square)
    sine *= square
    sine *= x
    sine += x
    cosine = _evaluate_polynomial(COSINE_COEFFICIENTS, square)
    cosine *= square
    cosine *= square
    cosine -= square * np.float32(0.5)
    cosine += np.float32(1)
    cosine.view("uint32")[:] ^= words & np.uint32(1 << 31)
    return sine, cosine


def multinomial(logits: Array, state: Array, *, num_samples: int, normalized: bool) -> Array:
    """Return for each uniform number the class whose interval of cumulative probability contains it."""
    # The result holds class numbers, so double precision does not change its dtype.
    weights = logits.astype("float64")
    if not normalized:
        weights = np.exp(weights - weights.max(1, keepdims=True))
    sums = np.cumsum(np.where(weights > 0, weights, 0), 1)  # NaN does not affect other rows
    rows, classes = sums.shape
    shares = np.divide(sums, sums[:, -1:], out=np.zeros_like(sums), where=sums[:, -1:] > 0)
    words = random_bits(state, shape=(rows, num_samples)).view("uint32")
    uniform = (words >> np.uint32(8)) * 2.0**-24
    # Row b occupies the interval from b to b + 1, so one search finds the classes of all rows.
    row = np.arange(rows, dtype="int64")[:, None]
    places = np.searchsorted((shares + row).ravel(), uniform + row, "right") - row * classes
    return np.minimum(places, classes - 1).astype("int32")


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Callable[..., Any]]] = {
    random.random_bits: random_bits,
    random.random_normal: random_normal,
    random.multinomial: multinomial,
}
"""By kernel, the NumPy function that computes it."""
