"""Bitwise kernels. NumPy defines shifts by any count."""

import numpy as np

from plugrad.kernels import bitwise
from plugrad_cpu.declare import table

table.update(
    {
        bitwise.bitwise_and: np.bitwise_and,
        bitwise.bitwise_or: np.bitwise_or,
        bitwise.bitwise_xor: np.bitwise_xor,
        bitwise.invert: np.invert,
        bitwise.left_shift: np.left_shift,
        bitwise.right_shift: np.right_shift,
    }
)
