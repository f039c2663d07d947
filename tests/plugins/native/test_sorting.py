"""Long vectors, which the pack sorts by the radix sort of their positions."""

from importlib import import_module

import numpy as np
import pytest

import plugrad

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
LONG_ROW_MIN_ELEMENTS: int = import_module("plugrad_native.kernels.sorting").LONG_ROW_MIN_ELEMENTS


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


@pytest.mark.parametrize("size", [LONG_ROW_MIN_ELEMENTS - 1, LONG_ROW_MIN_ELEMENTS, 70_001])
@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "c8"]
)
def test_a_long_vector_is_sorted_as_numpy_sorts_it(rng, dtype, size):
    x = (rng.standard_normal(size) * 100).astype(dtype)
    expected = np.sort(x)
    np.testing.assert_array_equal(plugrad.sort(plugrad.asarray(x)).numpy(), expected)
    backward = plugrad.sort(plugrad.asarray(x), descending=True)
    np.testing.assert_array_equal(backward.numpy(), expected[::-1])
    assert backward.dtype.numpy == x.dtype


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_special_numbers_of_a_long_vector_are_in_order(rng, dtype):
    x = rng.standard_normal(LONG_ROW_MIN_ELEMENTS).astype(dtype)
    x[::5], x[1::5], x[2::5], x[3::50], x[4::50] = np.nan, np.inf, -np.inf, -0.0, 0.0
    np.testing.assert_array_equal(plugrad.sort(plugrad.asarray(x)).numpy(), np.sort(x))
    backward = plugrad.sort(plugrad.asarray(x), descending=True).numpy()
    np.testing.assert_array_equal(backward, np.sort(x)[::-1])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_long_axis_among_axes_of_size_1_and_2_is_sorted(rng, axis):
    for other in (1, 2):
        x = np.moveaxis(rng.standard_normal((other, 1, LONG_ROW_MIN_ELEMENTS), "f4"), 2, axis)
        ordered = plugrad.sort(plugrad.asarray(x), axis=axis).numpy()
        np.testing.assert_array_equal(ordered, np.sort(x, axis))


def test_unique_values_of_a_long_vector(rng):
    x = rng.integers(-50, 50, 20_000).astype("i4")
    np.testing.assert_array_equal(plugrad.unique_values(plugrad.asarray(x)).numpy(), np.unique(x))
