"""Determinants, factors and triangular equations of small matrices, which C computes side by side."""

from importlib import import_module

import numpy as np
import pytest

from plugrad.discovery.loading import open_backend

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
decomposition = import_module("plugrad_native.kernels.decomposition")
open_backend("cpu")

DTYPES = ("float32", "float64")
SMALL_MATRIX_SIZES = (1, 2, 3, 5, 8, 16)
BATCH_SHAPES = ((), (1,), (2, 3), (16,), (21,))


def matrix_sizes(batch):
    """Return the sizes of matrices that C code factorizes in a batch of a shape."""
    return (
        (*SMALL_MATRIX_SIZES, 17, 32)
        if np.prod(batch) >= decomposition.MIN_LARGER_MATRICES
        else SMALL_MATRIX_SIZES
    )


NUMPY_FUNCTIONS = ("determinant", "log_determinant", "cholesky", "qr", "triangular_solve")


@pytest.fixture
def numpy_is_an_error(monkeypatch):
    for name in NUMPY_FUNCTIONS:
        monkeypatch.setattr(
            decomposition, f"numpy_{name}", lambda *_, **__: pytest.fail("NumPy was called")
        )


@pytest.fixture
def numpy_returns_its_name(monkeypatch):
    for name in NUMPY_FUNCTIONS:
        monkeypatch.setattr(decomposition, f"numpy_{name}", lambda *_, **__: "NumPy")


def assert_close(found, expected, scale=1):
    """Compare results with double precision, relative to the largest element of each batch."""
    expected = np.asarray(expected)
    atol = 50 * scale * np.finfo(found.dtype).eps * np.abs(expected).max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCH_SHAPES)
def test_determinants_match_lapack(batch, dtype, rng):
    for n in matrix_sizes(batch):
        x = (rng.normal(size=(*batch, n, n)) + np.eye(n)[::-1] * np.sqrt(n)).astype(dtype)
        exact = x.astype("float64")
        found = decomposition.determinant(x)
        assert found.dtype == dtype
        assert found.shape == batch
        assert_close(found, np.linalg.det(exact), n)
        signs, logarithms = decomposition.log_determinant(x)
        np.testing.assert_array_equal(signs, np.linalg.slogdet(exact)[0])
        assert_close(logarithms, np.linalg.slogdet(exact)[1], n)
        assert signs.dtype == logarithms.dtype == dtype


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants_of_singular_matrices_are_zero(dtype):
    for x in (np.zeros((3, 3)), np.ones((4, 20, 20)), np.diag([2.0, 0, 3]), -np.eye(4, k=1)):
        x = x.astype(dtype)
        found = decomposition.determinant(x)
        signs, logarithms = decomposition.log_determinant(x)
        assert not found.any()
        assert not np.signbit(found).any()
        assert not signs.any()
        assert (logarithms == -np.inf).all()


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_pivots_neither_overflow_nor_underflow_on_their_way(dtype):
    large = np.finfo(dtype).max / 8
    x = np.diag([large, large, large, 1 / large, 1 / large, 4 / large]).astype(dtype)
    assert_close(decomposition.determinant(x), 4)
    assert_close(decomposition.determinant(x[::-1].copy()), -4)
    x = np.diag([large] * 16).astype(dtype)
    assert decomposition.determinant(x) == np.inf
    assert_close(decomposition.log_determinant(x)[1], 16 * np.log(large))


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCH_SHAPES)
def test_cholesky_matches_lapack(batch, dtype, rng):
    for n in matrix_sizes(batch):
        root = rng.normal(size=(*batch, n, n))
        x = (root @ root.swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)
        # What is above the diagonal is not read.
        found = decomposition.cholesky(np.tril(x) + np.triu(np.full((n, n), np.nan, dtype), 1))
        assert_close(found, np.linalg.cholesky(x.astype("float64")))
        assert found.dtype == dtype
        assert not np.triu(found, 1).any()


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCH_SHAPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.rows("shape", [(1, 1), (3, 3), (4, 2), (2, 5), (16, 7), (32, 7), (9, 32)])
def test_qr_matches_lapack(shape, full, batch, dtype, rng):
    batch = batch if max(shape) <= matrix_sizes(batch)[-1] else (4,)
    x = rng.normal(size=(*batch, *shape)).astype(dtype)
    x[..., 0, 0] += 9 * np.sign(x[..., 0, 0])
    q, r = decomposition.qr(x, full_matrices=full)
    mode = "complete" if full else "reduced"
    expected = np.linalg.qr(x.astype("float64"), mode=mode)
    assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
    assert q.dtype == r.dtype == dtype
    assert_close(q @ r, x)
    assert_close(
        q.swapaxes(-1, -2) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*batch, *q.shape[-1:] * 2))
    )
    least = min(shape)
    signs = np.diagonal(r, axis1=-2, axis2=-1)[..., :least]
    expected_signs = np.diagonal(expected[1], axis1=-2, axis2=-1)[..., :least]
    np.testing.assert_array_equal(np.sign(signs), np.sign(expected_signs))
    assert not np.tril(r, -1).any()


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_of_zeros_and_of_triangular_matrices_matches_lapack(dtype):
    upper = np.triu(np.arange(1.0, 17).reshape(4, 4)) * [1, -1, 1, -1]
    for x in (np.zeros((3, 2)), np.eye(3), -np.eye(2), upper, np.diag([0.0, 2, 0])):
        x = x.astype(dtype)
        for found, expected in zip(
            decomposition.qr(x, full_matrices=True), np.linalg.qr(x, mode="complete"), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("numpy_is_an_error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_equations(unit, lower, dtype, rng):
    for batch, other in (((), ()), ((5, 1), (3,)), ((21,), (21,)), ((), (17,))):
        for n in matrix_sizes(batch):
            triangle = (np.tril if lower else np.triu)(rng.normal(size=(*batch, n, n)) / n)
            triangle = np.where(np.eye(n, dtype=bool), 1 if unit else 2, triangle)
            hidden = np.full((n, n), np.nan)
            given = triangle + (np.triu(hidden, 1) if lower else np.tril(hidden, -1))
            given = np.where(np.eye(n, dtype=bool) & unit, np.nan, given).astype(dtype)
            rhs = rng.normal(size=(*other, n, 4)).astype(dtype)
            found = decomposition.triangular_solve(given, rhs, lower=lower, unit_diagonal=unit)
            assert_close(found, np.linalg.inv(triangle) @ rhs)
            assert found.dtype == dtype


@pytest.mark.usefixtures("numpy_is_an_error")
def test_triangular_equations_divide_by_zero(rng):
    found = decomposition.triangular_solve(
        np.zeros((2, 2)), np.array([[1.0], [-1]]), lower=True, unit_diagonal=False
    )
    assert found[0] == np.inf


@pytest.mark.usefixtures("numpy_returns_its_name")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 4), (4, 0), (4, 4), (3, 2)])
def test_lapack_decides_about_matrices_that_are_not_finite(place, special, dtype, rng):
    x = rng.normal(size=(19, 5, 5)).astype(dtype)
    x[(18, *place)] = special
    assert decomposition.determinant(x) == decomposition.log_determinant(x) == "NumPy"
    if place[0] > place[1] or place == (0, 0):  # what is above the diagonal takes part in no norm
        assert decomposition.qr(x, full_matrices=False) == "NumPy"


@pytest.mark.usefixtures("numpy_returns_its_name")
@pytest.mark.parametrize("dtype", DTYPES)
def test_lapack_decides_about_matrices_that_are_not_definite(dtype):
    for last in (-np.eye(3), np.zeros((3, 3)), np.full((3, 3), np.nan)):
        x = np.concatenate([np.broadcast_to(np.eye(3), (20, 3, 3)), last[None]]).astype(dtype)
        assert decomposition.cholesky(x) == "NumPy"


@pytest.mark.usefixtures("numpy_returns_its_name")
@pytest.mark.parametrize("dtype", DTYPES)
def test_lapack_factors_numbers_whose_squares_are_lost(dtype, rng):
    limits = np.finfo(dtype)
    for scale in (limits.tiny * 16, limits.max / 64):
        x = (rng.uniform(1, 2, size=(3, 4, 4)) * scale).astype(dtype)
        assert decomposition.qr(x, full_matrices=False) == "NumPy"


@pytest.mark.usefixtures("numpy_is_an_error")
def test_neither_a_batch_nor_threads_change_bits(rng, monkeypatch):
    x = rng.normal(size=(200, 12, 12)).astype("float32")
    definite = x @ x.swapaxes(-1, -2) + 12 * np.eye(12, dtype="float32")
    calls = {
        "determinant": lambda part: [decomposition.determinant(x[part])],
        "cholesky": lambda part: [decomposition.cholesky(definite[part])],
        "qr": lambda part: decomposition.qr(x[part], full_matrices=False),
        "triangular_solve": lambda part: [
            decomposition.triangular_solve(
                definite[part], x[part], lower=False, unit_diagonal=False
            )
        ],
    }
    pool = decomposition.parallel_for.__globals__["thread_pool"]
    for call in calls.values():
        monkeypatch.setattr(pool, "count", 1)
        whole = call(slice(None))
        for part in (slice(3), slice(77, 78), slice(100, 181)):
            for some, all_of_them in zip(call(part), whole, strict=True):
                np.testing.assert_array_equal(some, all_of_them[part])
        for threads in (2, 7):
            monkeypatch.setattr(pool, "count", threads)
            monkeypatch.setattr(pool, "part_min_work", 100)
            for found, expected in zip(call(slice(None)), whole, strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(33, 33), (4, 33, 33), (17, 17), (3, 17, 17), (0, 0), (0, 3, 3)])
def test_inputs_that_c_does_not_support_match_numpy(shape, rng):
    x = rng.normal(size=shape)
    assert not decomposition.is_side_by_side(decomposition.C_QR, x)
    np.testing.assert_array_equal(decomposition.determinant(x), np.linalg.det(x))
    for found, expected in zip(
        decomposition.qr(x, full_matrices=False), np.linalg.qr(x), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
