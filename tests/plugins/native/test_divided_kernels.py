"""Kernels whose work threads share give the bits that one thread gives, whatever the layout, and do share it."""

from itertools import product

import numpy as np
import pytest

import plugrad
from plugrad_cpu.extend import thread_pool
from plugrad_native.kernels.movement import plan_copy_to_block
from plugrad_native.variants import has_any_variant

if not has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)

LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "rows with gaps": lambda x: np.concatenate([x, x], 1)[:, : x.shape[1]],
}
POSITIONS = np.random.default_rng(0).integers(-40, 40, 2000)
MATRIX_KERNELS = {
    "concat, axis 0": lambda x: plugrad.concat([x, x[3:], x], axis=0),
    "concat, axis 1": lambda x: plugrad.concat([x, x[:, 5:]], axis=1),
    "stack, axis 0": lambda x: plugrad.stack([x, x + 1]),
    "stack, axis 1": lambda x: plugrad.stack([x, x + 1, x], axis=1),
    "stack, axis 2": lambda x: plugrad.stack([x, x + 1], axis=2),
    "roll": lambda x: plugrad.roll(x, 5, axis=1),
    "pad": lambda x: plugrad.pad(x, [(1, 2), (0, 3)], constant_value=7),
    "take rows": lambda x: plugrad.take(x, POSITIONS, axis=0),
    "take elements": lambda x: plugrad.take(plugrad.reshape(x, (-1,)), POSITIONS),
    "sort rows": lambda x: plugrad.sort(x, axis=1),
    "searchsorted": lambda x: plugrad.searchsorted(plugrad.sort(x[0]), x[1]),
    "argmax": lambda x: plugrad.argmax(x, axis=0),
    "argmin": lambda x: plugrad.argmin(x, axis=0),
}
FLOAT_MATRIX_KERNELS = {
    "cumulative sum": lambda x: plugrad.cumulative_sum(x, axis=0),
    "cumulative product": lambda x: plugrad.cumulative_prod(x, axis=0),
    "pow": lambda x: x**x,
    "square root": lambda x: x**0.5,
    "power 2.5": lambda x: x**2.5,
    "softmax": lambda x: plugrad.softmax(x, axis=0),
    "log_softmax": lambda x: plugrad.log_softmax(x, axis=0),
}
IMAGE_KERNELS = {
    "max_pool": lambda x: plugrad.max_pool(x, 2),
    "max_pool, gradient": lambda x: plugrad.grad(lambda x: plugrad.sum(plugrad.max_pool(x, 3)))(x),
    "avg_pool, gradient": lambda x: plugrad.grad(lambda x: plugrad.sum(plugrad.avg_pool(x, 2)))(x),
    "conv2d": lambda x: plugrad.conv2d(x, plugrad.ones((3, 3, x.shape[-1], 20), dtype=x.dtype)),
    "conv2d, gradient": lambda x: plugrad.grad(
        lambda x: plugrad.sum(
            plugrad.conv2d(x, plugrad.ones((3, 3, x.shape[-1], 5), dtype=x.dtype), 2)
        )
    )(x),
    "batch_norm_training": lambda x: plugrad.batch_norm_training(x, x[0, 0, 0], x[0, 0, 1]),
    "batch_norm_training, gradient": lambda x: plugrad.grads(
        lambda *given: plugrad.sum(plugrad.batch_norm_training(*given)[0] ** 2)
    )(x, x[0, 0, 0], x[0, 0, 1]),
    "depth_to_space": lambda x: plugrad.depth_to_space(x, 2),
    "local_response_normalization": lambda x: plugrad.local_response_normalization(x, 2),
    "local_response_normalization, gradient": lambda x: plugrad.grad(
        lambda x: plugrad.sum(plugrad.local_response_normalization(x, 2) ** 2)
    )(x),
    "bincount": lambda x: plugrad.bincount(plugrad.astype(plugrad.abs(x * 9), "int32"), size=50),
}


@pytest.fixture
def compare(monkeypatch):
    """A function that compares a call by one thread and by three, and tells whether they have shared work."""
    monkeypatch.setattr(thread_pool, "part_min_work", 128)
    shared = []

    def note(name, is_shared):
        run = getattr(thread_pool, name)

        def run_and_note(*given, **options):
            shared.append(is_shared(*given, **options))
            return run(*given, **options)

        monkeypatch.setattr(thread_pool, name, run_and_note)

    note("run", lambda calls: len(calls) > 1)
    note("run_in_parts", lambda *_, parts, **__: parts > 1)

    def run(function, x):
        found = []
        for count in (1, 3):
            shared.clear()
            monkeypatch.setattr(thread_pool, "count", count)
            result = function(plugrad.asarray(x, device="cpu"))
            several = result if isinstance(result, tuple | list) else [result]
            found.append([y.numpy() for y in several])
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
        return any(shared)

    with plugrad.use("cpu"):
        yield run


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(MATRIX_KERNELS, ("float32", "float64", "int32")),
        *product(FLOAT_MATRIX_KERNELS, ("float32", "float64")),
    ],
)
def test_matrix_kernels_give_the_same_bits_for_any_thread_count(name, dtype, compare, rng):
    function = (MATRIX_KERNELS | FLOAT_MATRIX_KERNELS)[name]
    for shape in ((41, 40), (300, 250)):
        x = rng.uniform(0.1, 9, shape).astype(dtype)
        is_shared = [compare(function, layout(x)) for layout in LAYOUTS.values()]
    assert any(is_shared)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 30, 60, 4), (1, 70, 80, 8)], ids=str)
@pytest.mark.parametrize("name", IMAGE_KERNELS)
def test_image_kernels_give_the_same_bits_for_any_thread_count(name, shape, dtype, compare, rng):
    x = rng.normal(size=shape).astype(dtype)
    is_shared = compare(IMAGE_KERNELS[name], x)
    assert is_shared or shape[0] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: plugrad.conv2d(x, x, padding="same"),
        lambda x: plugrad.conv2d_transpose(x, x, strides=2),
        lambda x: plugrad.grad(lambda x: plugrad.sum(plugrad.conv2d(x, x, padding="same")))(x),
    ],
    ids=["conv2d", "conv2d_transpose", "conv2d, gradient"],
)
def test_images_that_are_their_own_filters(function, dtype, compare, rng):
    x = rng.normal(size=(5, 5, 16, 16)).astype("float32")
    assert compare(lambda x: function(plugrad.astype(x, dtype)), x)


def test_copies_to_rows_that_are_too_far_apart_are_left_to_numpy():
    assert plan_copy_to_block((4, 9), (9, 1), (2**31 - 1, 1), 1) is not None
    assert plan_copy_to_block((4, 9), (9, 1), (2**31, 1), 1) is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_products_of_a_batch(dtype, compare, rng):
    x = rng.integers(-(2**20), 2**20, (9, 64, 64)).astype("int32")
    x = x.astype("float32" if dtype == "bfloat16" else dtype)

    def multiply(x):
        x = plugrad.astype(x, dtype)
        return plugrad.matmul(x, x)

    assert compare(multiply, x)
