"""Gradients of poolings run for a few images at a time in the sandbox, with the bits of separate calls."""

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
from plugrad.discovery.loading import open_backend
from plugrad.extend import Fused

pytest.importorskip("wasmtime")
caller = import_module("plugrad_wasm.programs.caller")
images = import_module("plugrad_wasm.programs.images")
layouts = import_module("plugrad_wasm.programs.layout")


@pytest.fixture(autouse=True)
def _use_wasm():
    with plugrad.use("wasm"):
        yield


@pytest.fixture
def one_image_at_a_time(monkeypatch):
    monkeypatch.setattr(images, "MIN_PART_BYTES", 1)


def count_image_groups(function, *args):
    """Return how many groups of a compiled function have the gradient of a pooling."""
    graph = plugrad.make_graph(function, fused=True)(*args)
    groups = [step for region in graph.steps for inner in region.graphs for step in inner.steps]
    return sum(isinstance(s, Fused) and images.is_image_group(s.body.steps) for s in groups)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [random_images, special_images])
@pytest.mark.parametrize("activate", ACTIVATIONS.values(), ids=ACTIVATIONS)
@pytest.mark.parametrize("summarize", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.usefixtures("one_image_at_a_time")
def test_bits_match_separate_calls(summarize, activate, make, dtype):
    x = make(3, 8, 10, 5, dtype=dtype)
    w = make(*summarize(x).shape, dtype=dtype)
    assert_same_when_traced(make_gradient(activate, summarize), x, w)


@pytest.mark.parametrize(
    "shape",
    [(1, 4, 4, 3), (0, 4, 4, 3), (3, 4, 4, 0), (61, 16, 16, 8), (5, 64, 64, 20), (2, 6, 6, 3)],
)
def test_image_groups_of_any_batch_and_image_size(shape):
    """Such as a last part with fewer images, and images that are longer than a block."""
    x = special_images(*shape)
    w = special_images(*POOLINGS["tiles"](x).shape)
    gradient = make_gradient(plugrad.relu, POOLINGS["tiles"])
    assert_same_when_traced(gradient, x, w)
    assert count_image_groups(gradient, x, w) == (shape[0] > 1 and shape[3] > 0)


@pytest.mark.parametrize("function", JOINED_FUNCTIONS)
@pytest.mark.usefixtures("one_image_at_a_time")
def test_image_groups_with_other_inputs(function):
    x = random_images(*IMAGES_SHAPE)
    assert_same_when_traced(function, x)
    assert count_image_groups(function, x)


@pytest.mark.usefixtures("one_image_at_a_time")
def test_a_step_reads_images_before_a_result_takes_their_place():
    """Even though the product that alone reads the step comes after that result."""

    def gate(x):
        y = plugrad.cumulative_sum(x, axis=1)
        dy, step = pool_gradient(y), plugrad.step(y)
        product = dy * y
        return product, step * product

    x = random_images(6, 16, 16, 16)
    assert_same_when_traced(gate, x)
    assert count_image_groups(gate, x)


@pytest.mark.parametrize("function", SEPARATE_FUNCTIONS)
def test_calls_that_cannot_join_an_image_group(function):
    x = random_images(*IMAGES_SHAPE)
    assert not count_image_groups(function, x)
    assert_same_when_traced(function, x)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_same_bits(threads, monkeypatch):
    store = open_backend("wasm").linear_memory.store
    monkeypatch.setattr(store, "threads", threads)
    monkeypatch.setattr(store.run_in_threads.__self__, "threads", threads)
    x = special_images(16, 64, 64, 16)
    w = special_images(*POOLINGS["overlapping"](x).shape)
    assert_same_when_traced(make_gradient(plugrad.relu, POOLINGS["overlapping"]), x, w)


def test_result_reuses_the_memory_of_the_images(monkeypatch):
    """Neither what the pooling gives nor a second array of the size of the images is made."""
    frames = []

    class NotedLayout(layouts.OperandLayout):
        def __init__(self, *args):
            super().__init__(*args)
            frames.append(self.frame_bytes)

    monkeypatch.setattr(caller, "OperandLayout", NotedLayout)
    x, k = random_images(16, 64, 64, 1), random_images(3, 3, 1, 16)

    def loss(k):
        h = plugrad.relu(plugrad.conv2d(x, k, padding="same"))
        return plugrad.sum(plugrad.max_pool(h, 2) ** 2)

    found = plugrad.jit(plugrad.grad(loss))(k)
    np.testing.assert_array_equal(found.numpy(), plugrad.grad(loss)(k).numpy())
    assert max(frames) < 2 * 4 * 16 * 64 * 64 * 16  # with the pooled images and their gradient


def test_a_transposed_view_of_the_images_keeps_them():
    """The view shows the memory of the images until something asks for its elements."""

    def function(x):
        y = plugrad.exp(x)
        across = plugrad.permute_dims(y, (0, 2, 1, 3))
        return pool_gradient(y) * y, plugrad.sum(across * across[::-1], axis=1), across

    x = random_images(4, 16, 16, 8)
    assert_same_when_traced(function, x)
    assert count_image_groups(function, x)
