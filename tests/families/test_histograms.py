"""Histograms against NumPy."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("limits", [None, (-1, 1.5), (0.5, 0.5)], ids=str)
@pytest.mark.rows("bins", [10, 1, [-1, 0, 0.5, 2]], ids=str)
def test_counts_in_bins(bins, limits, is_weighted, density, backend, rng):
    for dtype in ("float32", "float64"):
        if dtype not in plugrad.which().backend.dtypes():
            continue
        x = rng.normal(size=(5, 8)).astype(dtype)
        weights = np.abs(rng.normal(size=x.shape)).astype(dtype) if is_weighted else None
        edges = np.asarray(bins, dtype) if isinstance(bins, list) else bins
        found = plugrad.histogram(x, edges, range=limits, weights=weights, density=density)
        expected, wanted_edges = np.histogram(x, edges, limits, density, weights)
        np.testing.assert_allclose(found.bin_edges, wanted_edges, rtol=1e-5, atol=1e-6)
        if not density or expected.sum() > 0:
            np.testing.assert_allclose(found.counts, expected, rtol=1e-5)
        assert found.counts.dtype == (dtype if is_weighted or density else "int32")
        assert found.bin_edges.dtype == dtype


def test_edges_belong_to_the_bin_on_their_right_and_the_last_one_to_its_own(backend):
    counts = plugrad.histogram([0.0, 1.0, 2.0, 3.0, 3.5, -1.0, np.nan], [0.0, 1.0, 3.0]).counts
    assert counts.tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_are_those_of_numpy_to_the_last_bit(dtype, rng):
    for backend in ("cpu", "wasm"):
        for bins in range(1, 13):
            x = rng.normal(size=30).round(1).astype(dtype)
            expected, edges = np.histogram(x, bins)
            with plugrad.use(backend):
                found = plugrad.histogram(x, bins)
            assert found.bin_edges.tolist() == edges.tolist()
            assert found.counts.tolist() == expected.tolist()


def test_histograms_of_few_elements(backend):
    assert plugrad.histogram([], 2)[1].tolist() == [0, 0.5, 1]
    assert plugrad.histogram([], 2)[0].tolist() == [0, 0]
    assert plugrad.histogram([3, 3, 3], 2)[1].tolist() == [2.5, 3, 3.5]
    assert plugrad.histogram(3, 1)[0].tolist() == [1]
    assert np.isnan(plugrad.histogram([1.0, np.nan], 2)[1].numpy()).all()


def test_weights_have_gradients(rng):
    with plugrad.use("cpu"):
        x = plugrad.asarray(rng.normal(size=9))
        check_gradient(
            lambda w: plugrad.histogram(x, 3, weights=w, density=True).counts,
            plugrad.asarray(rng.uniform(0.5, 1, 9)),
        )


def test_traced_histograms(backend, rng):
    x = plugrad.asarray(rng.normal(size=30).astype("float32"))
    found = plugrad.jit(lambda x: plugrad.histogram(x, 5).counts)(x)
    assert found.tolist() == plugrad.histogram(x, 5).counts.tolist()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: plugrad.histogram([1.0], 0), ArgumentValueError),
        (lambda: plugrad.histogram([1.0], range=(2, 1)), ArgumentValueError),
        (lambda: plugrad.histogram([1.0], range=3), ArgumentError),
        (lambda: plugrad.histogram([1.0], [1.0]), ShapeError),
        (lambda: plugrad.histogram([1.0], weights=[1.0, 2.0]), ShapeError),
        (lambda: plugrad.histogram([1j]), DTypeError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
