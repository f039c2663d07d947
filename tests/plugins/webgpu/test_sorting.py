"""Orders that the device finds; a software device sorts on the host unless told that it is none."""

import numpy as np
import pytest

from plugrad.kernels import sorting
from plugrad_webgpu.algorithms import ordering

SHAPES = [
    (5,),
    (0,),
    (1,),
    (3, 0),
    (0, 3),
    (3, 7),
    (40, 3),
    (129,),
    (2, 1500),
    (3, 1025),
    (2, 5000),
    (30_000,),
]


@pytest.fixture(params=[True, False], ids=["software", "hardware"])
def software_and_gpu_device(request, run, monkeypatch):
    monkeypatch.setattr(run.device, "is_software", request.param)


def reference_argsort(x, axis, descending):
    """Return the indices that sort an axis; equal elements keep their order in both directions."""
    if not descending:
        return np.argsort(x, axis, stable=True)
    reverse = np.argsort(np.flip(x, axis), axis, stable=True)
    return x.shape[axis] - 1 - np.flip(reverse, axis)


def elements_with_ties(rng, shape, dtype):
    """Return elements with ties and special values of the dtype."""
    x = rng.integers(-50, 50, shape).astype(dtype)
    if dtype == "float32":
        x *= rng.standard_normal(shape).astype(dtype)
        strange = np.float32([np.nan, -np.nan, -0.0, 0, np.inf, -np.inf, 1e-45])
        x = np.where(rng.random(shape) < 0.5, x, rng.choice(strange, shape))
    return x


@pytest.mark.usefixtures("software_and_gpu_device")
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "bool"])
@pytest.mark.rows("shape", SHAPES, ids=str)
def test_orders_are_stable(run, rng, shape, dtype, descending):
    x = elements_with_ties(rng, shape, dtype)
    places = reference_argsort(x, -1, descending)
    attrs = {"axis": len(shape) - 1, "descending": descending}
    np.testing.assert_array_equal(run(sorting.argsort, x, **attrs), places)
    np.testing.assert_array_equal(run(sorting.sort, x, **attrs), np.take_along_axis(x, places, -1))


@pytest.mark.parametrize(
    "size", [300, 5000, 300_000], ids=["block", "small-blocks", "large-blocks"]
)
def test_long_rows_are_merged(run, rng, monkeypatch, size):
    """Two-word integers are sorted by one word and then by the other, so the second sort starts from an order."""
    monkeypatch.setattr(run.device, "is_software", False)
    x = rng.integers(-3, 3, size) << 32 | rng.integers(0, 3, size)
    found = run(sorting.argsort, x, axis=0, descending=False)
    np.testing.assert_array_equal(found, reference_argsort(x, 0, descending=False))


@pytest.mark.usefixtures("software_and_gpu_device")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sort_along_any_axis(run, rng, axis):
    x = elements_with_ties(rng, (4, 150, 3), "float32")
    places = reference_argsort(x, axis, descending=False)
    np.testing.assert_array_equal(run(sorting.argsort, x, axis=axis), places)
    np.testing.assert_array_equal(
        run(sorting.sort, x, axis=axis), np.take_along_axis(x, places, axis)
    )


@pytest.mark.usefixtures("software_and_gpu_device")
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((7,), 3),
        ((3, 600), 9),
        ((2, 2, 5), 5),
        ((3, 4), 0),
        ((3, 200), 0),
        ((2, 257), 257),
        ((0, 300), 2),
        ((2, 9001), 1024),
        ((2, 9001), 1025),
        ((2, 70_000), 50),
    ],
    ids=str,
)
def test_top_k_elements(run, rng, shape, k, is_sorted):
    x = elements_with_ties(rng, shape, "float32")
    places = reference_argsort(x, -1, descending=True)[..., :k]
    if not is_sorted:
        places = np.sort(places)
    values, found = run(sorting.top_k, x, k=k, sorted=is_sorted)
    np.testing.assert_array_equal(found, places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, -1))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "bool"])
def test_largest_of_equal_elements_are_the_first(run, rng, monkeypatch, dtype):
    monkeypatch.setattr(run.device, "is_software", False)
    x = rng.integers(0, 2, (3, 10_000)).astype(dtype)
    x[1] = 1
    x[2, 40:] = 0
    places = reference_argsort(x, -1, descending=True)[:, :300]
    values, found = run(sorting.top_k, x, k=300)
    np.testing.assert_array_equal(found, places)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, -1))


def test_gpus_select_without_sorting(run, rng, monkeypatch):
    """Long rows are divided into segments, from each of which some elements are selected."""
    monkeypatch.setattr(run.device, "is_software", False)
    steps = ordering._selection_plans((2, 70_000), 50, False)
    assert [step.shape for step in steps] == [(2, 17 * 50), (2, 50)]
    assert [step.shape for step in ordering._selection_plans((600, 70_000), 50, False)] == [
        (600, 50)
    ]
    lengths = [step.shape[0] for step in ordering._selection_plans((1 << 26,), 1000, False)]
    assert lengths == [512_000, 125_000, 30_000, 7000, 1000]


def test_more_groups_than_one_dimension_of_a_grid_has(run, monkeypatch):
    monkeypatch.setattr(run.device, "is_software", False)
    x = np.ones((2_300_000, 1), np.int32)
    np.testing.assert_array_equal(run(sorting.argsort, x, axis=1), 0)
