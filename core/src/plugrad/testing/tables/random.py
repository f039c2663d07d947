"""Test rows of random numbers, compared with the published test vectors and the definition of Philox 4x32-10."""

from functools import partial
from math import cos, log, pi, prod, sin, sqrt

import numpy as np

from plugrad.kernels import random
from plugrad.testing.rows import FLOATING_DTYPES, Array, Row, fixed_values, numbers

WORD_MASK = 0xFFFFFFFF
"""The bits of a 32-bit word."""


def philox(state: Array, shape: tuple[int, ...]) -> Array:
    """Return Philox's random words, computed with Python's integers (Salmon and others, 2011)."""
    low, high, *counter = (int(word) & WORD_MASK for word in state)
    start = sum(word << 32 * n for n, word in enumerate(counter))
    words: list[int] = []
    for block in range(-(-prod(shape) // 4)):
        number = start + block
        a, b, c, d = (number >> 32 * n & WORD_MASK for n in range(4))
        for n in range(10):
            keys = (low + n * 0x9E3779B9) & WORD_MASK, (high + n * 0xBB67AE85) & WORD_MASK
            left, right = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (
                right >> 32 ^ b ^ keys[0],
                right & WORD_MASK,
                left >> 32 ^ d ^ keys[1],
                left & WORD_MASK,
            )
        words += a, b, c, d
    return np.array(words[: prod(shape)], "uint32").view("int32").reshape(shape)


def normal(state: Array, shape: tuple[int, ...]) -> Array:
    """Return normal numbers; each pair is computed from a pair of random words."""
    count = prod(shape)
    words = [int(word) & WORD_MASK for word in philox(state, (-(-count // 2) * 2,))]
    numbers: list[float] = []
    for a, b in zip(words[::2], words[1::2], strict=True):
        radius = sqrt(max(0.0, -2 * log(float(np.float32(a // 2 | 1)) * 2.0**-31)))
        shifted = b << 2 & WORD_MASK
        angle = pi / 4 * 2.0**-31 * (shifted - (shifted >> 31 << 32))
        pair = [radius * cos(angle) * (-1) ** (b >> 31), radius * sin(angle)]
        numbers += pair[::-1] if b >> 30 & 1 else pair
    return np.array(numbers[:count]).reshape(shape)


def drop_elements(x: Array, state: Array, rate: float, noise_shape: tuple[int, ...]) -> Array:
    """Return x / (1 - rate) where a random word is below the limit for the rate, and 0 elsewhere."""
    is_chosen = philox(state, noise_shape) < (1 - rate) * 2.0**32 - 2.0**31
    return np.where(is_chosen, x / (1 - rate), 0)


# Key and counter 0, all bits, and the digits of pi: Salmon and others, Random123, kat_vectors.
ZERO_STATE = [0] * 6
"""The random state whose key and counter are 0."""
ALL_BITS_STATE = [-1] * 6
"""The random state in which every bit is 1."""
PI_DIGITS_STATE = [0xA4093822, 0x299F31D0, 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
"""The random state of the digits of pi, for which a test vector is published."""
KNOWN_PHILOX_OUTPUTS = {
    "zero": [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
    "ones": [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
    "pi": [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
}
"""The published test vectors: the output words for the three states above."""
STATES_NEAR_CARRIES = (
    [5, 6, -3, 0, 0, 0],
    [5, 6, -3, -1, 7, 0],
    [5, 6, -3, -1, -1, 7],
    [5, 6, -3, -1, -1, -1],
)
"""Random states with counters that are about to carry into the next word, or to wrap around."""
WORDS_OF_ZERO_STATE = np.array(KNOWN_PHILOX_OUTPUTS["zero"])
"""The four output words for `ZERO_STATE`."""
UNIFORM_OF_ZERO_STATE = (WORDS_OF_ZERO_STATE >> 8) * 2.0**-24
"""The numbers in [0, 1) that are made of `WORDS_OF_ZERO_STATE`."""


def _as_words(numbers: list[int]) -> list[int]:
    """Return numbers as 32-bit words, which are int32 in the state of a generator."""
    return np.array([n & WORD_MASK for n in numbers], "uint32").view("int32").tolist()


def _random_bits_row(
    state: list[int], shape: tuple[int, ...], expected: list[int] | None = None
) -> Row:
    """Return a row of random words for a state, compared with `expected` words or with `philox`."""

    def reference(state: Array) -> Array:
        return philox(state, shape) if expected is None else np.reshape(_as_words(expected), shape)

    return Row(
        random.random_bits,
        reference,
        [fixed_values(_as_words(state), dtype="int32")],
        {"shape": shape},
        dtypes=("int32",),
        is_special=False,
        is_edge=expected is None,
    )


def _random_normal_row(state: list[int], shape: tuple[int, ...]) -> Row:
    """Return a row of normal numbers for a state."""
    return Row(
        random.random_normal,
        lambda state: normal(state, shape),
        [fixed_values(_as_words(state), dtype="int32")],
        {"shape": shape},
        dtypes=("int32",),
        is_special=False,
        is_edge=shape != (5, 7),
    )


TEST_ROWS = [
    _random_bits_row(ZERO_STATE, (4,), KNOWN_PHILOX_OUTPUTS["zero"]),
    _random_bits_row(ALL_BITS_STATE, (2, 2), KNOWN_PHILOX_OUTPUTS["ones"]),
    _random_bits_row(PI_DIGITS_STATE, (1, 4), KNOWN_PHILOX_OUTPUTS["pi"]),
    *(
        _random_bits_row(state, (5, 7))
        for state in (ZERO_STATE, PI_DIGITS_STATE, *STATES_NEAR_CARRIES)
    ),
    *(_random_bits_row(PI_DIGITS_STATE, shape) for shape in ((), (0, 3), (1,), (3,), (1025,))),
    _random_normal_row(PI_DIGITS_STATE, (5, 7)),
    *(_random_normal_row(ALL_BITS_STATE, shape) for shape in ((), (0, 3), (1,), (1025,))),
    *(
        Row(
            random.dropout,
            partial(drop_elements, rate=rate, noise_shape=noise_shape),
            [numbers(shape=shape), fixed_values(_as_words(PI_DIGITS_STATE), dtype="int32")],
            {"rate": rate, "noise_shape": noise_shape},
            dtypes=FLOATING_DTYPES,
            op=random.dropout,
            is_special=False,
        )
        for rate, shape, noise_shape in (
            (0.5, (5, 7), (5, 7)),
            (0.25, (3, 400), (3, 400)),
            (0.75, (4, 6), (1, 6)),
            (0.5, (2, 3), (3,)),
            (0.125, (), ()),
        )
    ),
    Row(
        random.multinomial,
        lambda p, _: np.floor(UNIFORM_OF_ZERO_STATE * 10)[None],
        [fixed_values([[0.1] * 10]), fixed_values(ZERO_STATE, dtype="int32")],
        {"num_samples": 4, "normalized": True},
        dtypes=FLOATING_DTYPES[:2],
    ),
    Row(
        random.multinomial,
        lambda logits, _: (UNIFORM_OF_ZERO_STATE >= 0.75).reshape(2, 2),
        [
            fixed_values([[np.log(3), 0], [np.log(6), np.log(2)]]),
            fixed_values(ZERO_STATE, dtype="int32"),
        ],
        {"num_samples": 2, "normalized": False},
        dtypes=FLOATING_DTYPES[:2],
    ),
    Row(
        random.multinomial,
        lambda p, _: np.array([[1] * 9, [3] * 9]),
        [fixed_values([[0, 1, 0, 0], [0, 0, 0, 1]]), fixed_values(ALL_BITS_STATE, dtype="int32")],
        {"num_samples": 9, "normalized": True},
        dtypes=FLOATING_DTYPES[:2],
        is_edge=True,
    ),
]
