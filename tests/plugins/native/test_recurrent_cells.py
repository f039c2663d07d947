"""Recurrent cells in C, for more and fewer units than are computed at a time."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.kernels import recurrent

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
declare = import_module("plugrad_native.declare")
open_backend("cpu")

# How many states wide each input is.
CELLS = {
    "lstm_cell": (4, 1),
    "lstm_cell_gradient": (1, 1, 4, 1),
    "gru_cell": (3, 3, 1),
    "gru_cell_gradient": (1, 3, 3, 1),
}
SHAPES = ((1, 1), (7, 3), (3, 17), (2, 255), (1, 256), (3, 257), (2, 600), (2, 3, 33))


def run_cell(name, arrays):
    """Return the results of a cell as NumPy arrays."""
    found = getattr(recurrent, name)(*map(plugrad.asarray, arrays))
    return [x.numpy() for x in (found if isinstance(found, (list, tuple)) else [found])]


def random_inputs(name, shape, rng):
    return [
        rng.normal(size=(*shape[:-1], n * shape[-1])).astype("float32") * 2 for n in CELLS[name]
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CELLS)
def test_results_match_double_precision(name, shape, rng):
    arrays = random_inputs(name, shape, rng)
    exact = run_cell(name, [x.astype("float64") for x in arrays])
    for found, expected in zip(run_cell(name, arrays), exact, strict=True):
        assert found.dtype == "float32"
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_neither_a_batch_nor_threads_change_bits(name, rng, monkeypatch):
    arrays = random_inputs(name, (40, 270), rng)
    pool = declare.parallel_for.__globals__["thread_pool"]
    monkeypatch.setattr(pool, "count", 1)
    whole = run_cell(name, arrays)
    for row in (0, 17, 39):
        alone = run_cell(name, [x[row : row + 1] for x in arrays])
        for found, expected in zip(alone, whole, strict=True):
            np.testing.assert_array_equal(found[0], expected[row])
    for threads in (2, 7):
        monkeypatch.setattr(pool, "count", threads)
        monkeypatch.setattr(pool, "part_min_work", 100)
        for found, expected in zip(run_cell(name, arrays), whole, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CELLS)
def test_special_values_stay_in_their_units(name, rng):
    for special in (np.nan, np.inf, -np.inf, 100, -0.0):
        arrays = random_inputs(name, (3, 19), rng)
        for x in arrays:
            x[1, 4::19] = special
        with np.errstate(all="ignore"):
            exact = run_cell(name, [x.astype("float64") for x in arrays])
        for found, expected in zip(run_cell(name, arrays), exact, strict=True):
            with np.errstate(over="ignore"):
                expected = expected.astype("float32")
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
