"""Random numbers from a counter: each depends only on its index and the seed."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import random

Array = NDArray[Any]

WORD = 0xFFFFFFFF


def philox(seed: int, count: int) -> Array:
    """Return the first `count` words of Philox 4x32-10 (Salmon and others, 2011), four for each counter from 0."""
    block = np.arange(-(-count // 4), dtype="uint64")
    a, b, c, d = block & WORD, block >> 32, np.zeros_like(block), np.zeros_like(block)
    low, high = int(seed) & WORD, int(seed) >> 32
    for _ in range(10):
        # The factors and steps are the constants of the paper.
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = right >> 32 ^ b ^ low, right & WORD, left >> 32 ^ d ^ high, left & WORD
        low, high = low + 0x9E3779B9 & WORD, high + 0xBB67AE85 & WORD
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


BODIES: Final[dict[Kernel[..., Any], Any]] = {
    random.multinomial: multinomial,
}
