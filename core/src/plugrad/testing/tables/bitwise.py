"""Test rows of the functions of the bits of integers."""

from typing import Final

import numpy as np

import plugrad
from plugrad.kernels import bitwise
from plugrad.testing.rows import Row, numbers

arbitrary_integers: Final = numbers(-99, 99)
"""An input of integers of both signs."""
shift_counts: Final = numbers(0, 7)
"""An input of numbers of bits to shift by."""

TEST_ROWS = [
    Row(bitwise.bitwise_and, np.bitwise_and, [arbitrary_integers, arbitrary_integers]),
    Row(bitwise.bitwise_or, np.bitwise_or, [arbitrary_integers, arbitrary_integers]),
    Row(bitwise.bitwise_xor, np.bitwise_xor, [arbitrary_integers, arbitrary_integers]),
    Row(
        bitwise.left_shift,
        np.left_shift,
        [arbitrary_integers, shift_counts],
        op=plugrad.bitwise_left_shift,
    ),
    Row(
        bitwise.right_shift,
        np.right_shift,
        [arbitrary_integers, shift_counts],
        op=plugrad.bitwise_right_shift,
    ),
    Row(bitwise.invert, np.invert, [arbitrary_integers], op=plugrad.bitwise_invert),
    # From the number of bits on, only the sign is left.
    Row(
        bitwise.left_shift, lambda a, b: a * 0, [arbitrary_integers, numbers(64, 70)], is_edge=True
    ),
    Row(
        bitwise.right_shift,
        lambda a, b: np.where(a < 0, -1, 0),
        [arbitrary_integers, numbers(64, 70)],
        is_edge=True,
    ),
]
