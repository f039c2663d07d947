"""Reductions of the first axis, and of long rows."""

from importlib import import_module
from itertools import product

import numpy as np
import pytest

import plugrad
from plugrad_cpu.threads import thread_pool

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
find_reduction_layout = import_module("plugrad_native.kernels.reduction").find_reduction_layout

KERNELS_AND_DTYPES = [
    *product(("sum", "prod", "min", "max"), ("float32", "float64", "int32")),
    *product(["mean"], ("float32", "float64")),
]


@pytest.mark.parametrize(("name", "dtype"), KERNELS_AND_DTYPES)
@pytest.mark.rows("shape", [(1, 64), (7, 65), (64, 256), (33, 700), (200, 127)], ids=str)
def test_columns_are_reduced(name, dtype, shape, rng):
    assert find_reduction_layout(shape, (0,), False) == (shape[1:], 1, *shape)  # by C
    x = rng.uniform(0.9, 1.1, shape) if dtype != "int32" else rng.choice([-1, 1, 1, 2], shape)
    x = x.astype(dtype)
    with plugrad.use("cpu"):
        found = getattr(plugrad, name)(plugrad.asarray(x), axis=0)
    expected = getattr(np, name)(x.astype(np.float64 if dtype != "int32" else dtype), axis=0)
    np.testing.assert_allclose(found.numpy(), expected.astype(dtype), rtol=3e-6)


@pytest.mark.parametrize(("name", "dtype"), KERNELS_AND_DTYPES)
def test_long_rows_are_reduced_in_parts_whatever_the_threads(name, dtype, rng, monkeypatch):
    shape = 3, 100_001  # two whole parts, and a part of another
    x = rng.integers(1, 1000, shape) if name != "prod" else rng.choice([-1, 1, 1], shape)
    x = x.astype(dtype)
    expected = getattr(np, name)(x.astype(np.float64 if dtype != "int32" else dtype))
    for count in (1, 2, 7):
        monkeypatch.setattr(thread_pool, "count", count)
        with plugrad.use("cpu"):
            found = getattr(plugrad, name)(plugrad.asarray(x)).numpy()
        assert found == expected.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [1, 7, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257])
def test_rows_of_some_numbers(dtype, length, rng):
    x = rng.uniform(0.5, 1.5, (19, length)).astype(dtype)
    x[3, length // 2], x[5, -1], x[7, 0] = np.nan, np.nan, np.inf
    x[11, -1] = 9
    given = plugrad.asarray(x)
    wide = x.astype(np.longdouble)
    for name in ("sum", "prod", "mean", "max", "min"):
        function = getattr(plugrad, name)
        found = function(given, axis=1).numpy()
        expected = getattr(wide, name)(1)
        np.testing.assert_allclose(found, expected.astype(dtype), 20 * np.finfo(dtype).eps)
        for row in (0, 3, 8, 18):  # each is reduced alike, however many there are
            alone = function(given[row : row + 1], axis=1).numpy()
            np.testing.assert_array_equal(alone, found[row : row + 1], strict=True)
        np.testing.assert_array_equal(function(given[2:17], axis=1).numpy(), found[2:17])
