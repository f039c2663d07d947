"""Products of float32 that C multiplies where vectors are wide, and how they are divided among threads."""

from importlib import import_module

import numpy as np
import pytest

from plugrad.discovery.loading import open_backend
from plugrad_cpu.extend import thread_pool

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
linalg = import_module("plugrad_native.kernels.linalg")
open_backend("cpu")

MATMUL_ARGUMENTS = {
    # the factors, and whether they are transposed
    "one": ((301, 200), (200, 333), False, False),
    "transposed": ((200, 301), (333, 200), True, True),
    "of one matrix": ((3, 101, 64), (64, 99), False, False),
    "of one matrix, transposed": ((3, 101, 64), (99, 64), False, True),
    "of turned ones and one matrix": ((3, 64, 101), (64, 99), True, False),
    "as many": ((2, 3, 64, 65), (2, 3, 65, 66), False, False),
    "broadcast": ((2, 1, 3, 64, 65), (4, 1, 66, 65), False, True),
    "two rows": ((2, 3000), (3000, 70), False, False),
    "whole vectors": ((64, 400), (400, 112), False, False),
    "rows that a cache has little room for": ((40, 1024), (1024, 64), False, False),
    "more rows than a block has": ((801, 70), (70, 600), False, False),
}


def random_float32(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b", "turns_a", "turns_b"), MATMUL_ARGUMENTS.values(), ids=MATMUL_ARGUMENTS
)
@pytest.mark.parametrize("layout", ["dense", "turned", "strided"])
def test_products_are_those_of_numpy_in_any_number_of_threads(
    a, b, turns_a, turns_b, layout, monkeypatch
):
    x, y = random_float32(1, a), random_float32(2, b)
    if layout == "turned":
        x, y = (np.ascontiguousarray(m.swapaxes(-1, -2)).swapaxes(-1, -2) for m in (x, y))
    elif layout == "strided":
        x, y = (np.repeat(m, 2, axis=-1)[..., ::2] for m in (x, y))
    turns = {"transpose_a": turns_a, "transpose_b": turns_b}
    monkeypatch.setattr(linalg, "HAS_FAST_FLOAT32_MATMUL", True)  # also where BLAS is as fast
    monkeypatch.setattr(linalg, "FLOAT32_MATMUL_MIN_PRODUCTS", 1)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(thread_pool, "count", count)
        monkeypatch.setattr(thread_pool, "part_min_work", 1)
        results.append(linalg.matmul(x, y, **turns))
    np.testing.assert_array_equal(*results)
    expected = np.matmul(x.swapaxes(-1, -2) if turns_a else x, y.swapaxes(-1, -2) if turns_b else y)
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=1e-4)
