"""The comparisons of the kit decide as NumPy's do."""

from itertools import product

import numpy as np
import pytest

from plugrad.testing.comparison import assert_close, assert_equal

COMPARED_NUMBERS = (0.0, -0.0, 1.0, 1 + 1e-7, 2.0, 3e38, -3e38, np.nan, np.inf, -np.inf)
TOLERANCES = ((0, 0), (1e-6, 1e-6), (1e-6, 0), (2, 0))


def check_succeeds(check, *args):
    try:
        check(*args)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "uint8", "int64", "bool"]
)
def test_comparison_passes_exactly_when_numpys_does(dtype):
    with np.errstate(all="ignore"):
        for a, b in product(COMPARED_NUMBERS, COMPARED_NUMBERS):
            x, y = (np.array([number, 1]).astype(dtype) for number in (a, b))
            assert check_succeeds(assert_equal, x, y) == check_succeeds(
                np.testing.assert_array_equal, x, y
            )
            for tolerance in TOLERANCES:
                wanted = check_succeeds(np.testing.assert_allclose, x, y, *tolerance)
                assert check_succeeds(assert_close, x, y, *tolerance) == wanted, (a, b, tolerance)


@pytest.mark.parametrize("check", [assert_equal, lambda x, y: assert_close(x, y, 1e-6, 1e-6)])
def test_arrays_of_different_shapes_are_not_equal(check):
    with pytest.raises(AssertionError, match="shapes"):
        check(np.ones((2, 3)), np.ones(3))
