"""Random numbers: which ones the seed gives is known from the published test vectors of Philox 4x32-10."""

import numpy as np

from plugrad.kernels import random
from plugrad.testing.rows import FLOATS, Row, these

# Salmon and others, Random123, kat_vectors: counter 0 with key 0, and all bits with all bits.
WORDS = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
UNIFORM = (WORDS >> 8) * 2.0**-24

ROWS = [
    Row(
        random.multinomial,
        lambda p: np.floor(UNIFORM * 10)[None],
        [these([[0.1] * 10])],
        {"num_samples": 4, "seed": 0, "normalized": True},
        dtypes=FLOATS[:2],
    ),
    Row(
        random.multinomial,
        lambda logits: (UNIFORM >= 0.75).reshape(2, 2),
        [these([[np.log(3), 0], [np.log(6), np.log(2)]])],
        {"num_samples": 2, "seed": 0, "normalized": False},
        dtypes=FLOATS[:2],
    ),
    Row(
        random.multinomial,
        lambda p: np.array([[1] * 9, [3] * 9]),
        [these([[0, 1, 0, 0], [0, 0, 0, 1]])],
        {"num_samples": 9, "seed": 2**64 - 1, "normalized": True},
        dtypes=FLOATS[:2],
        is_edge=True,
    ),
]
