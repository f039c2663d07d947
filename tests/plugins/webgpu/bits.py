"""Comparisons to the last bit."""

import numpy as np


def assert_same_bits(found, expected):
    """Compare values bit by bit; all NaN count as equal."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind in "fcV":  # V is that of bfloat16
        parts, others = (x.reshape(-1).view(x.real.dtype) for x in (found, expected))
        kind = f"u{parts.itemsize}"
        bits, other = (np.where(np.isnan(x), 0, x.view(kind)) for x in (parts, others))
        np.testing.assert_array_equal(bits, other)
