"""Products that C multiplies, how they are divided among threads, and which ones BLAS has."""

from importlib import import_module

import numpy as np
import pytest

from plugrad.discovery.loading import open_backend
from plugrad_cpu.extend import thread_pool
from properties.forced_variants import available_variants, forced_variant

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
    "a row": ((1, 301), (301, 203), False, False),
    "a row of a turned matrix": ((301, 1), (203, 301), True, True),
    "a column": ((203, 301), (301, 1), False, False),
    "a column of a turned matrix": ((301, 203), (1, 301), True, True),
    "rows of vectors": ((5, 1, 64), (5, 64, 33), False, False),
    "one number": ((1, 3001), (3001, 1), False, False),
    "few columns": ((203, 301), (301, 3), False, False),
    "a row and few columns": ((1, 1301), (1301, 10), False, False),
    "a row and fewer columns than vectors have": ((1, 301), (301, 1), False, False),
    "a row and vectors of columns that are not full": ((1, 301), (301, 205), False, False),
    "few columns of a turned matrix": ((1301, 7), (1301, 1), True, False),
    "few terms of few columns": ((1, 2), (2, 3), False, False),
    "one term": ((203, 1), (1, 301), False, False),
}
TOLERANCES = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4, "complex128": 1e-12}


def random_array(seed, shape, dtype):
    draw = np.random.default_rng(seed).normal
    x = draw(size=shape)
    return (x + 1j * draw(size=shape) if dtype.startswith("complex") else x).astype(dtype)


@pytest.mark.parametrize(
    ("a", "b", "turns_a", "turns_b"), MATMUL_ARGUMENTS.values(), ids=MATMUL_ARGUMENTS
)
@pytest.mark.parametrize("layout", ["dense", "turned", "strided"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_products_match_numpy_in_any_number_of_threads(
    a, b, turns_a, turns_b, layout, dtype, monkeypatch
):
    x, y = random_array(1, a, dtype), random_array(2, b, dtype)
    if layout == "turned":
        x, y = (np.ascontiguousarray(m.swapaxes(-1, -2)).swapaxes(-1, -2) for m in (x, y))
    elif layout == "strided":
        x, y = (np.repeat(m, 2, axis=-1)[..., ::2] for m in (x, y))
    turns = {"transpose_a": turns_a, "transpose_b": turns_b}
    monkeypatch.setattr(linalg, "BLAS_VECTOR_MAX_PRODUCTS", 0)
    monkeypatch.setattr(linalg, "BLAS_MATRIX_MAX_PRODUCTS", 0)
    for plan in (linalg.is_multiplied_in_c, linalg.plan_float_matmul):
        plan.cache_clear()
    results = []
    for count in (1, 2, 7):
        monkeypatch.setattr(thread_pool, "count", count)
        monkeypatch.setattr(thread_pool, "part_min_work", 1)
        results.append(linalg.matmul(x, y, **turns))
    for plan in (linalg.is_multiplied_in_c, linalg.plan_float_matmul):
        plan.cache_clear()
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)
    expected = np.matmul(x.swapaxes(-1, -2) if turns_a else x, y.swapaxes(-1, -2) if turns_b else y)
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(results[0], expected, rtol=tolerance, atol=tolerance)
    assert results[0].dtype == dtype


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(130, 120, 110), (1, 20_000, 1), (70, 20_000, 1), (3, 70_000, 5)]
)
def test_products_that_blas_would_divide_among_threads_run_in_c(
    rows, depth, columns, dtype, monkeypatch
):
    given = []

    def multiply_and_note(a, b, **_):
        given.append((a.shape, b.shape))
        return a @ b

    monkeypatch.setattr(linalg, "numpy_matmul", multiply_and_note)
    a, b = random_array(1, (rows, depth), dtype), random_array(2, (depth, columns), dtype)
    found = linalg.matmul(a, b, transpose_a=False, transpose_b=False)
    is_shared_by_results = dtype.startswith("complex") and columns == 1 < rows
    assert ((a.shape, b.shape) in given) == is_shared_by_results
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(found, a @ b, rtol=10 * tolerance, atol=100 * tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_products_of_nonfinite_numbers(dtype, value):
    a, b = random_array(1, (130, 120), dtype), random_array(2, (120, 110), dtype)
    a[3, 5] = value
    with np.errstate(invalid="ignore"):
        found, expected = linalg.matmul(a, b, transpose_a=False, transpose_b=False), a @ b
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    if not dtype.startswith("complex"):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 3, 15, 21])
def test_no_column_has_part_of_another(dtype, columns):
    """A row is multiplied by whole vectors, which hold the beginning of the next row where columns are few."""
    a, b = random_array(1, (1, 9001), dtype), random_array(2, (9001, columns), dtype)
    b[:, 0] = np.inf
    found = linalg.matmul(np.abs(a), b, transpose_a=False, transpose_b=False)
    assert found[0, 0] == np.inf
    tolerance = 100 * TOLERANCES[dtype]
    np.testing.assert_allclose(found[:, 1:], np.abs(a) @ b[:, 1:], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_products_without_elements(dtype):
    for rows, depth, columns in ((0, 200_000, 3), (300, 0, 400), (300, 400, 0)):
        a, b = np.ones((rows, depth), dtype), np.ones((depth, columns), dtype)
        found = linalg.matmul(a, b, transpose_a=False, transpose_b=False)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.zeros((rows, columns)))


@pytest.mark.parametrize("variant", available_variants())
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-11)])
def test_columns_that_do_not_fill_the_tiles_of_a_variant(variant, dtype, tolerance, rng):
    """Three vectors of two doubles are no multiple of four, by which rows of a transposed matrix are packed."""
    multiply = forced_variant(variant).configs["BatchMatMul"].kernel_func
    for columns in range(2, 33):
        depth = 1_100_000 // (64 * columns)  # more than BLAS computes
        a = rng.uniform(-1, 1, (64, depth)).astype(dtype)
        b = rng.uniform(-1, 1, (depth, columns)).astype(dtype)
        for right, is_transposed in ((b, False), (np.ascontiguousarray(b.T), True)):
            found = multiply(a, right, transpose_a=False, transpose_b=is_transposed)
            np.testing.assert_allclose(found, a @ b, rtol=0, atol=tolerance)
