"""Random numbers from a counter, each of which depends only on its index and the seed; and normal numbers."""

from functools import cache
from math import erfc, exp, log, pi, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import random

Array = NDArray[Any]

WORD_MASK = 0xFFFFFFFF


def philox(seed: int, count: int) -> Array:
    """Return the first `count` words of Philox 4x32-10 (Salmon and others, 2011), four for each counter from 0."""
    block = np.arange(-(-count // 4), dtype="uint64")
    a, b, c, d = block & WORD_MASK, block >> 32, np.zeros_like(block), np.zeros_like(block)
    low, high = int(seed) & WORD_MASK, int(seed) >> 32
    for _ in range(10):
        # The factors and steps are the constants of the paper.
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (
            right >> 32 ^ b ^ low,
            right & WORD_MASK,
            left >> 32 ^ d ^ high,
            left & WORD_MASK,
        )
        low, high = low + 0x9E3779B9 & WORD_MASK, high + 0xBB67AE85 & WORD_MASK
    return np.stack((a, b, c, d), 1).ravel()[:count]


def multinomial(logits: Array, *, num_samples: int, seed: int, normalized: bool) -> Array:
    """Return, for each uniform number, the class whose interval of the cumulative probabilities contains it."""
    # The result holds class numbers, so double precision does not change its dtype.
    weights = logits.astype("float64")
    if not normalized:
        weights = np.exp(weights - weights.max(1, keepdims=True))
    sums = np.cumsum(np.where(weights > 0, weights, 0), 1)  # NaN does not affect other rows
    rows, classes = sums.shape
    shares = np.divide(sums, sums[:, -1:], out=np.zeros_like(sums), where=sums[:, -1:] > 0)
    uniform = (philox(seed, rows * num_samples) >> 8).reshape(rows, num_samples) * 2.0**-24
    # Row b occupies the interval from b to b + 1, so one search finds the classes of all rows.
    row = np.arange(rows, dtype="int64")[:, None]
    places = np.searchsorted((shares + row).ravel(), uniform + row, "right") - row * classes
    return np.minimum(places, classes - 1).astype("int32")


# --- normal numbers: the ziggurat of Marsaglia and Tsang (2000) ----------------------------------------

ZIGGURAT_LAYERS: Final = 256
ZIGGURAT_TAIL_START: Final = 3.6541528853610088
"""Where the tail begins if the layers below the curve ``exp(-x**2 / 2)`` and the tail have one area."""


class Ziggurat(NamedTuple):
    """The layers of the ziggurat, from the widest, which adjoins the tail, to the top."""

    steps: Array
    """Their widths, divided by 2**52."""
    inner: Array
    """The widths of the parts that are below the curve from side to side: those of the layers above them."""
    heights: Array
    """The curve where each layer ends; the last one is that of 0."""


@cache
def _ziggurat() -> Ziggurat:
    area = ZIGGURAT_TAIL_START * exp(-(ZIGGURAT_TAIL_START**2) / 2) + sqrt(pi / 2) * erfc(
        ZIGGURAT_TAIL_START / sqrt(2)
    )
    widths = [area / exp(-(ZIGGURAT_TAIL_START**2) / 2), ZIGGURAT_TAIL_START]
    while len(widths) < ZIGGURAT_LAYERS:
        x = widths[-1]
        widths.append(sqrt(-2 * log(area / x + exp(-(x**2) / 2))))
    ends = np.array([*widths, 0])
    return Ziggurat(ends[:-1] * 2.0**-52, ends[1:], np.exp(-(ends**2) / 2))


def standard_normal(generator: np.random.Generator, out: Array) -> None:
    """Fill a vector of doubles with numbers of the normal distribution.

    A number uniform in a layer is taken if it is in its inner part, as 99 of 100 are; NumPy decides
    for one after the other. The layer is chosen by the lowest 8 of 64 bits, the number by the upper 53.
    """
    steps, inner, heights = _ziggurat()
    bits: Any = generator.bit_generator.random_raw(out.size)
    layers = (bits & np.uint64(ZIGGURAT_LAYERS - 1)).view(np.int64)
    np.multiply(bits.view(np.int64) >> 11, steps.take(layers), out=out)
    left = np.flatnonzero(np.abs(out) >= inner.take(layers))
    if not left.size:
        return
    x, layers = out[left], layers[left]
    between = heights[layers] + generator.random(left.size) * (
        heights[layers + 1] - heights[layers]
    )
    is_outside = (between >= np.exp(-0.5 * x * x)) & (layers > 0)
    in_tail = np.flatnonzero(layers == 0)
    x[in_tail] = np.copysign(_normal_tail(generator, in_tail.size), x[in_tail])
    others = np.empty(np.count_nonzero(is_outside))
    standard_normal(generator, others)
    x[is_outside] = others
    out[left] = x


def _normal_tail(generator: np.random.Generator, count: int) -> Array:
    """Return normal numbers above the tail's start, by rejection from an exponential distribution."""
    found, left = np.empty(count), np.arange(count)
    while left.size:
        beyond = generator.standard_exponential(left.size) / ZIGGURAT_TAIL_START
        is_taken = 2 * generator.standard_exponential(left.size) > beyond * beyond
        found[left[is_taken]] = ZIGGURAT_TAIL_START + beyond[is_taken]
        left = left[~is_taken]
    return found


BODIES: Final[dict[Kernel[..., Any], Any]] = {
    random.multinomial: multinomial,
}
