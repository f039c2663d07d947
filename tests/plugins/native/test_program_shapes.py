"""Programs whose arrays have as many axes as NumPy's can have, or no elements."""

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
    """C has room for 32: only those of more than one element are handed on."""
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
    descriptor = lowering._copy_descriptor(x.T, np.empty(x.T.shape, np.float32))
    assert descriptor.array.tolist() == [2, 3, 2, 1, 3, 2, 1]
    assert lowering._copy_descriptor(x[:1, ..., :1], x[:1, ..., :1]).array.tolist()[0] == 2
