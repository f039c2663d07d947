"""Reductions of arrays in another order, backwards, with gaps or repeated, and of axes that are not adjacent."""

from importlib import import_module
from itertools import combinations, product

import numpy as np
import pytest

import plugrad

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
reduction = import_module("plugrad_native.kernels.reduction")

LAYOUTS = {
    "as they lie": lambda x: x,
    "the middle axis first": lambda x: x.swapaxes(0, 1),
    "the last axis first": lambda x: np.moveaxis(x, 2, 0),
    "in reverse order": lambda x: x.T,
    "backwards": lambda x: x[::-1, :, ::-1],
    "the middle axis backwards, and last": lambda x: x[:, ::-1].swapaxes(1, 2),
    "with gaps": lambda x: x[:, 1:],
    "with gaps, in reverse order": lambda x: x[:, :, ::2].T,
    "with axes of one element": lambda x: x[:, None, ::-1].swapaxes(0, 3)[..., None],
    "repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
}
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "variance": np.var,
    "euclidean_norm": lambda x, axis, keepdims: np.sqrt(np.sum(x**2, axis, keepdims=keepdims)),
}
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]


def reduce_on_cpu(name, x, axes, keep_dims):
    """Return what the kernel of the cpu backend makes of an array."""
    kernel = getattr(plugrad.kernels.reduction, name)
    attribute = "reduction_indices" if name == "max" else "axis"
    function = plugrad.which().backend.functions[kernel.name]
    return function(x, **{attribute: axes}, keep_dims=keep_dims)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(REDUCTIONS, ["float16", "float32", "float64"]),
        *product(["sum", "prod", "max", "min"], ["int32"]),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_axes_change_no_values(name, dtype, layout, rng):
    whole = (
        rng.uniform(0.99, 1.01, (48, 40, 33))
        if name == "prod"
        else rng.uniform(-2, 2, (48, 40, 33))
    )
    x = LAYOUTS[layout](whole.astype(dtype))
    exact = x.astype(np.int64 if dtype == "int32" else np.float64)
    for axes in AXES:
        expected = REDUCTIONS[name](exact, axis=axes, keepdims=True)
        tolerance = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11, "int32": 0}[dtype]
        with plugrad.use("cpu"), np.errstate(over="ignore"):
            found = reduce_on_cpu(name, x, axes, keep_dims=True)
            without = reduce_on_cpu(name, x, axes, keep_dims=False)
        assert found.dtype == x.dtype
        assert found.shape == expected.shape
        assert without.shape == np.squeeze(expected, axes).shape
        # sums of numbers of both signs are small; their error is one of the numbers added
        scale = max(1.0, np.sqrt(x.size / expected.size)) if name == "sum" else 1.0
        np.testing.assert_allclose(
            found, expected.astype(dtype), rtol=tolerance, atol=tolerance * scale
        )
        np.testing.assert_array_equal(without, np.squeeze(found, axes))


@pytest.mark.parametrize("name", ["sum", "max", "variance", "euclidean_norm"])
def test_nan_is_found_in_any_order(name, rng):
    x = rng.uniform(-2, 2, (48, 40, 33)).astype("float32")
    x[17, 3, 30] = np.nan
    with plugrad.use("cpu"):
        for axes in AXES:
            for layout in ("in reverse order", "the middle axis first", "backwards"):
                y = LAYOUTS[layout](x)
                found = np.isnan(reduce_on_cpu(name, y, axes, keep_dims=False))
                np.testing.assert_array_equal(found, np.isnan(y).any(axis=axes))


def test_the_same_numbers_in_the_same_order_give_the_same_bits(rng):
    x = rng.uniform(-2, 2, (48, 40, 33)).astype("float32")
    with plugrad.use("cpu"):
        for axis, turned_axis in ((0, 2), (1, 1), (2, 0)):
            for name in REDUCTIONS:
                expected = reduce_on_cpu(name, x, (axis,), keep_dims=False)
                found = reduce_on_cpu(name, x.T, (turned_axis,), keep_dims=False)
                np.testing.assert_array_equal(found, expected.T)


def test_c_reduces_adjacent_axes_of_dense_arrays_only():
    reduced = []

    def reduce(x, *, axis, keep_dims):
        assert x.flags.c_contiguous
        assert keep_dims
        assert axis[-1] - axis[0] + 1 == len(axis)
        reduced.append((x.shape, axis))
        return x.sum(axis=axis, keepdims=True)

    x = np.zeros((48, 40, 33))
    for y, axes, by_runs, expected in (
        (x.T, (0,), True, [((48, 40, 33), (2,))]),
        (x, (0, 2), True, [((48, 40, 33), (2,)), ((48, 40, 1), (0,))]),
        (x, (0, 2), False, [((40, 48, 33), (1, 2))]),
        (x[::-1], (1, 2), True, [((48, 40, 33), (1, 2))]),
        (x[:, 1:], (1, 2), False, [((48, 39, 33), (1, 2))]),
    ):
        found = reduction.reduce_in_memory_order(reduce, y, axes, False, is_stepwise_exact=by_runs)
        assert found.shape == y.sum(axis=axes).shape
        assert reduced == expected
        reduced.clear()
    for y, by_runs in (
        (x[:, 1:], True),
        (x[:3].T, True),
        (np.broadcast_to(x[:1], x.shape), True),
        (np.broadcast_to(x[:1], x.shape), False),
        (x[:1, :, :4].T, False),
    ):
        assert (
            reduction.reduce_in_memory_order(reduce, y, (0, 2), False, is_stepwise_exact=by_runs)
            is None
        )
