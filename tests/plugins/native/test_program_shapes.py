"""Programs whose arrays have as many axes as NumPy's can have, no elements, or more than a cache holds."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
open_backend("cpu")
lowering = import_module("plugrad_native.programs.lowering")


@pytest.mark.parametrize(
    "move",
    [
        lambda x: plugrad.moveaxis(x, -1, 0),
        lambda x: plugrad.flip(x, axis=0),
        lambda x: x[..., 1:],
        lambda x: x[::2],
        lambda x: plugrad.concat([x, x], axis=63),
        lambda x: plugrad.broadcast_to(x[..., :1], x.shape),
        lambda x: plugrad.sum(x, axis=0, keepdims=True) + x,
    ],
)
def test_as_many_axes_as_numpy_has(move):
    """C has room for 32 axes, and only axes of more than one element are passed."""
    shape = (2, 3, *[1] * 60, 2, 3)
    x = plugrad.asarray(np.arange(36, dtype=np.float32).reshape(shape), device="cpu")

    def f(x):
        return plugrad.tanh(move(plugrad.tanh(x) * 2))

    np.testing.assert_array_equal(plugrad.jit(f)(x).numpy(), f(x).numpy())


@pytest.mark.parametrize("shape", [(0, 2), (2, 0, 3), (0, *[2] * 60)])
def test_transposes_without_elements(shape):
    x = plugrad.zeros(shape, device="cpu")
    found = plugrad.jit(lambda x: plugrad.moveaxis(x, -1, 0) + 1)(x)
    assert found.shape == (shape[-1], *shape[:-1])


def test_descriptors_of_copies_fit_into_c():
    x = np.empty((2, *[1] * 62, 3), np.float32)
    descriptor = lowering._describe_copy(x.T, np.empty(x.T.shape, np.float32))
    assert descriptor.array.tolist() == [2, 3, 2, 1, 3, 2, 1]
    assert lowering._describe_copy(x[:1, ..., :1], x[:1, ..., :1]).array.tolist()[0] == 2


PLACE, NUMBER = 4, 0
COPY_TABLE_WORDS = [
    *(1, 1, 1, 0, 1, 1, 1),  # nodes that run once, and in them a loop of one call
    *(0, PLACE, 1, 0, 0, 0, 10, PLACE, 2, 0, 0, 0, 10, NUMBER, 10, NUMBER, 0),
    *(PLACE, 3, 0, 0, 0, 400),
]
"""Copies ten bytes as the descriptor says, which is the last operand."""


@pytest.mark.parametrize("axes", [-1, 33, 2**31 - 1])
def test_a_descriptor_with_more_axes_than_there_is_room_for_is_an_error(axes):
    descriptor = np.zeros(100, np.int32)
    descriptor[:5] = 2, 2, 5, 5, 1  # axes, sizes, strides
    variant = variants.current_variant()

    def make(words):
        table = np.array(words, np.int64), np.array([0, 1, 1, 10, 10])
        return variant.make_program(*table, ("expand_1",), (descriptor,), np.ufunc)

    x, y = np.arange(10, dtype="u1"), np.empty(10, "u1")
    make(COPY_TABLE_WORDS)(x, y)
    np.testing.assert_array_equal(x, y)
    with pytest.raises(ValueError, match="no constant"):
        make([*COPY_TABLE_WORDS[:-6], PLACE, 1, 0, 0, 0, 10])
    run = variant.kernel("expand_1")
    run(x, y, 10, 0, descriptor)
    descriptor[0] = axes
    with pytest.raises(ValueError, match="axes"):
        make(COPY_TABLE_WORDS)
    with pytest.raises(ValueError, match="axes"):
        run(x, y, 10, 0, descriptor)


@pytest.mark.parametrize("count", [1 << 18, (1 << 18) + 1, (1 << 19) - 257])
def test_blocks_of_arrays_that_are_fetched_ahead_are_whole(count):
    """Many calls read arrays larger than a cache, whose last block is shorter; several calls read one of them."""

    def mix(x, y):
        for _ in range(6):
            x, y = x * y - 0.5, plugrad.sqrt(plugrad.abs(x) + 1) + y * 0.25
        return x, y

    x, y = (
        plugrad.asarray(np.random.default_rng(s).normal(size=count).astype("f4")) for s in (1, 2)
    )
    for found, expected in zip(plugrad.jit(mix)(x, y), mix(x, y), strict=True):
        assert found.numpy().tobytes() == expected.numpy().tobytes()
