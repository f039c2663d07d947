"""Threads share walks over arrays of any layout, and copies of several arrays to one."""

import numpy as np
import pytest

import plugrad
from plugrad_cpu.threads import thread_pool

LAYOUTS = {
    "dense": lambda x: x,
    "last axis backwards": lambda x: plugrad.flip(x, axis=1),
    "first axis backwards": lambda x: plugrad.flip(x, axis=0),
    "both backwards": plugrad.flip,
    "turned": lambda x: plugrad.permute_dims(x, (1, 0)),
    "turned and backwards": lambda x: plugrad.flip(plugrad.permute_dims(x, (1, 0)), axis=1),
    "every second column": lambda x: plugrad.repeat(x, 2, axis=1)[:, ::2],
    "a part": lambda x: plugrad.concat([x, x], axis=1)[:, 5:605],
}


@pytest.fixture
def random_matrix(rng):
    return rng.normal(size=(600, 600)).astype("f4")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_shared_elementwise_calls_of_any_layout_match_copies(
    layout, threads, random_matrix, monkeypatch
):
    """Threads once read before the start of an array whose last axis is reversed."""
    monkeypatch.setattr(thread_pool, "count", 1)
    with plugrad.use("cpu"):
        x = plugrad.asarray(random_matrix)
        plain = plugrad.asarray(layout(x).numpy().copy())
        expected = [plugrad.exp(plain), plain + x, plugrad.maximum(x, plain)]
        monkeypatch.setattr(thread_pool, "count", threads)
        y = layout(x)
        for found, right in zip(
            [plugrad.exp(y), y + x, plugrad.maximum(x, y)], expected, strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), right.numpy())


@pytest.mark.parametrize(
    "dtype", ["bool", "float16", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_shared_concatenation_matches_numpy(dtype, axis, threads, rng, monkeypatch):
    monkeypatch.setattr(thread_pool, "count", threads)
    monkeypatch.setattr(thread_pool, "part_min_work", 1000)
    shapes = [[40, 50, 60] for _ in range(4)]
    for shape, size in zip(shapes, (7, 0, 1, 33), strict=True):
        shape[axis] = size
    parts = [(rng.normal(size=shape) * 2).astype(dtype) for shape in shapes]
    parts[3] = np.asfortranarray(parts[3])
    with plugrad.use("cpu"):
        found = plugrad.concat([plugrad.asarray(x) for x in parts], axis=axis).numpy()
        np.testing.assert_array_equal(found, np.concatenate(parts, axis))
        x = plugrad.asarray(parts[3])
        halves = plugrad.concat([x[:, :20], x[:, 20:]], axis=1)
        np.testing.assert_array_equal(halves.numpy(), parts[3])
