"""Compare arrays as `numpy.testing` does, in a fifth of its time where nothing is wrong and every number is finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def assert_equal(actual: Array, expected: Array, message: str = "") -> None:
    """Raise unless two arrays have the same shape and equal elements; NaN equals NaN.

    Raises:
        AssertionError: they differ; NumPy's message says where.
    """
    if actual.shape != expected.shape or not (actual == expected).all():
        np.testing.assert_array_equal(actual, expected, message)


def assert_close(
    actual: Array, expected: Array, rtol: float, atol: float, message: str = ""
) -> None:
    """Raise unless two arrays have the same shape and close elements, and NaN and infinities at the same places.

    Raises:
        AssertionError: an element is off by more than ``atol + rtol * abs(expected)``; NumPy's message says where.
    """
    if actual.shape != expected.shape or not _are_close(actual, expected, rtol, atol):
        np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=message)


def _are_close(actual: Array, expected: Array, rtol: float, atol: float) -> bool:
    """Return whether two arrays are close and finite; arrays with NaN or infinities give False."""
    if actual.dtype.kind not in "fc":
        return bool((actual == expected).all())
    with np.errstate(all="ignore"):
        near = abs(actual - expected) <= atol + rtol * abs(expected)
        # Any number is as near to infinity as infinity times the tolerance.
        return bool(near.all() and np.isfinite(actual).all() and np.isfinite(expected).all())
