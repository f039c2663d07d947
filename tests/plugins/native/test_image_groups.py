"""Gradients of poolings run in one loop over the images with what multiplies them, with the bits of separate calls."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugins.comparing import assert_same_when_traced
from plugins.pooled_images import (
    ACTIVATIONS,
    IMAGES_SHAPE,
    JOINED_FUNCTIONS,
    POOLINGS,
    SEPARATE_FUNCTIONS,
    make_gradient,
    pool_gradient,
    random_images,
    special_images,
)
from plugrad.extend import Call, Fused
from plugrad_cpu.memory import pool
from plugrad_cpu.threads import thread_pool

selection = import_module("plugrad_native.programs.selection")


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


def group_kernels(function, *args):
    """Return the kernels of each group of a compiled function that has the gradient of a pooling."""
    graph = plugrad.make_graph(function)(*args)
    graph = selection.CompiledStepSelector(graph).prepare(graph)
    found = [
        [call.kernel.name for call in step.body.steps]
        for step in graph.steps
        if isinstance(step, Fused) and all(isinstance(call, Call) for call in step.body.steps)
    ]
    return [names for names in found if any("PoolGrad" in n or "3DGrad" in n for n in names)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [random_images, special_images])
@pytest.mark.parametrize("activate", ACTIVATIONS.values(), ids=ACTIVATIONS)
@pytest.mark.parametrize("summarize", POOLINGS.values(), ids=POOLINGS)
def test_bits_match_separate_calls(summarize, activate, make, dtype):
    x = make(7, 8, 10, 5, dtype=dtype)
    w = make(*summarize(x).shape, dtype=dtype)
    with np.errstate(all="ignore"):
        assert_same_when_traced(make_gradient(activate, summarize), x, w)


@pytest.mark.parametrize(
    "shape", [(1, 4, 4, 3), (0, 4, 4, 3), (3, 4, 4, 0), (61, 4, 4, 32), (3, 64, 64, 32)]
)
def test_image_groups_of_any_batch_and_image_size(shape):
    x = special_images(*shape)
    w = special_images(*POOLINGS["tiles"](x).shape)
    gradient = make_gradient(plugrad.relu, POOLINGS["tiles"])
    with np.errstate(all="ignore"):
        assert_same_when_traced(gradient, x, w)
    assert len(group_kernels(gradient, x, w)) == (shape[0] > 1 and shape[3] > 0)


@pytest.mark.parametrize(
    ("summarize", "shape"),
    [
        (lambda x: plugrad.pool(x, 2, "max"), (5, 12, 3)),
        (lambda x: plugrad.max_pool3d(x, 2), (5, 4, 6, 8, 3)),
        (lambda x: plugrad.avg_pool3d(x, 2), (5, 4, 6, 8, 3)),
    ],
)
def test_image_groups_of_other_ranks(summarize, shape):
    x = special_images(*shape)
    w = special_images(*summarize(x).shape)
    with np.errstate(all="ignore"):
        assert_same_when_traced(make_gradient(plugrad.relu, summarize), x, w)


@pytest.mark.parametrize("function", JOINED_FUNCTIONS)
def test_image_groups_with_other_inputs(function):
    x = random_images(*IMAGES_SHAPE)
    assert_same_when_traced(function, x)
    assert group_kernels(function, x)


@pytest.mark.parametrize("function", SEPARATE_FUNCTIONS)
def test_calls_that_cannot_join_an_image_group(function):
    x = random_images(*IMAGES_SHAPE)
    assert not group_kernels(function, x)
    assert_same_when_traced(function, x)


def test_pooling_gradients_inside_scans():
    def function(x):
        return plugrad.scan(lambda c, x: (c + 1, pool_gradient(x) * x), 0.0, x)[1]

    assert_same_when_traced(function, random_images(3, 6, 8, 8, 4))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_give_the_same_bits(threads, monkeypatch):
    x = special_images(13, 16, 16, 8)
    w = special_images(13, 8, 8, 8)
    monkeypatch.setattr(thread_pool, "count", threads)
    monkeypatch.setattr(thread_pool, "part_min_work", 1 << 10)
    with np.errstate(all="ignore"):
        assert_same_when_traced(make_gradient(plugrad.relu, POOLINGS["overlapping"]), x, w)


def test_result_reuses_the_memory_of_the_images():
    """Neither what the pooling gives nor a second array of the size of the images is made."""
    x, k = random_images(16, 64, 64, 1), random_images(3, 3, 1, 16)

    def loss(k):
        h = plugrad.relu(plugrad.conv2d(x, k, padding="same"))
        return plugrad.sum(plugrad.max_pool(h, 3, strides=2, padding="same") ** 2)

    step = plugrad.jit(plugrad.grad(loss))
    for _ in range(2):
        pool.trim()
        pool._collect_dead()
        held = pool._peak = pool._bytes
        found = step(k)
        peak = pool._peak - held
    np.testing.assert_array_equal(found.numpy(), plugrad.grad(loss)(k).numpy())
    images = 4 * 16 * 64 * 64 * 16
    assert peak <= 1.7 * images  # with the pooled ones, their gradient, and that of one image


@pytest.mark.parametrize("kept", ["result", "later", "elsewhere"])
def test_images_that_are_read_later_are_not_overwritten(kept):
    k = random_images(3, 3, 1, 16)
    y = random_images(8, 32, 32, 1)

    def function(k):
        h = plugrad.conv2d(y, k, padding="same")
        dx = pool_gradient(h) * h
        if kept == "result":
            return dx, h
        return dx, plugrad.cumulative_sum(h, axis=1) if kept == "later" else plugrad.sum(h * dx)

    assert_same_when_traced(function, k)
