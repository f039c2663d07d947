"""Broadcast arrays that C writes out, whole or from any position on, are those of NumPy."""

from importlib import import_module

import numpy as np
import pytest

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
declare = import_module("plugrad_native.declare")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "int64"])
@pytest.mark.parametrize("last", [1, 2, 3, 7, 16, 17, 40])
def test_short_rows_and_elements_are_repeated(dtype, last, rng):
    run = variants.current_variant().kernel(f"expand_{np.dtype(dtype).itemsize}")
    for shape, own in [
        ((19, last), (1, last)),
        ((19, last), (19, 1)),
        ((3, 9, last), (3, 1, last)),
        ((3, 9, last), (3, 9, 1)),
        ((2, 3, 9, last), (2, 1, 9, 1)),
        ((4, last), (1, 1)),
    ]:
        x = rng.integers(0, 100, own).astype(dtype)
        wanted = np.broadcast_to(x, shape).reshape(-1)
        descriptor = declare.describe_broadcast(shape, own)
        for first, end in [(0, wanted.size), (1, wanted.size), (last + 1, wanted.size - 1)]:
            y = np.full(end - first + 2, 101, dtype)
            run(x, y[1:-1], end - first, first, descriptor)
            np.testing.assert_array_equal(y, [101, *wanted[first:end], 101])
