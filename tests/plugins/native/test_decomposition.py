"""Inverses and linear equations that C solves: their residuals beside LAPACK's, and what is left to LAPACK."""

from importlib import import_module

import numpy as np
import pytest

from plugrad.discovery.loading import open_backend
from plugrad.errors import ArgumentValueError

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
decomposition = import_module("plugrad_native.kernels.decomposition")
open_backend("cpu")

MATRIX_SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 64, 100, 129)
DTYPES = ("float32", "float64")


def random_orthogonal(rng, n):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


MATRIX_KINDS = {
    "normal": lambda rng, n: rng.normal(size=(n, n)),
    "of condition 1e6": lambda rng, n: (
        random_orthogonal(rng, n) * np.geomspace(1, 1e-6, n) @ random_orthogonal(rng, n)
    ),
    "with rows of all sizes": lambda rng, n: (
        rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-8, 8, (n, 1))
    ),
    "with columns of all sizes": lambda rng, n: (
        rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-8, 8, n)
    ),
    "lower triangular": lambda rng, n: np.tril(rng.normal(size=(n, n)) / n) + np.eye(n),
    "upper triangular": lambda rng, n: np.triu(rng.normal(size=(n, n)) / n) + np.eye(n),
    "with zeros on the diagonal": lambda rng, n: (
        np.roll(np.eye(n), n // 2, 0) + np.triu(rng.normal(size=(n, n)), 1)
    ),
    "a permutation": lambda rng, n: rng.permutation(np.eye(n)),
}


@pytest.fixture
def without_numpy_fallback(monkeypatch):
    for name in ("numpy_inverse", "numpy_solve"):
        monkeypatch.setattr(decomposition, name, lambda *_: pytest.fail("NumPy was called"))


def residual_in_ulps(matrix, x, rhs):
    """Return the largest residual of matrix @ x - rhs, in units in the last place of the summed products."""
    a, y = matrix.astype(np.longdouble), x.astype(np.longdouble)
    terms = np.abs(a).sum(-1, keepdims=True).max(-2, keepdims=True)
    terms = terms * np.abs(y).sum(-2, keepdims=True)
    unit = np.finfo(matrix.dtype).eps
    return float((np.abs(a @ y - rhs) / terms).max() / unit)


@pytest.mark.usefixtures("without_numpy_fallback")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", MATRIX_KINDS)
def test_residuals_are_as_small_as_those_of_lapack(kind, dtype, rng):
    for n in MATRIX_SIZES:
        a = MATRIX_KINDS[kind](rng, n).astype(dtype)
        # A product with a reciprocal is rounded twice, where LAPACK may divide.
        allowed = 2 * residual_in_ulps(a, np.linalg.inv(a), np.eye(n)) + 1
        assert residual_in_ulps(a, decomposition.inverse(a), np.eye(n)) <= allowed, n
        for columns in (1, 2, 16, 17, 50):
            b = rng.normal(size=(n, columns)).astype(dtype)
            x = decomposition.solve(a, b)
            assert x.dtype == dtype
            assert (
                residual_in_ulps(a, x, b) <= 2 * residual_in_ulps(a, np.linalg.solve(a, b), b) + 1
            ), n


@pytest.mark.usefixtures("without_numpy_fallback")
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_of_well_conditioned_matrices_match_numpy(dtype, rng):
    for n in (*MATRIX_SIZES, decomposition.MAX_MATRIX_ROWS):
        a = (rng.normal(size=(n, n)) + 3 * np.sqrt(n) * np.eye(n)[::-1]).astype(dtype)
        rtol = 20 * n * np.finfo(dtype).eps
        expected = np.linalg.inv(a.astype("float64"))
        atol = rtol * np.abs(expected).max()
        np.testing.assert_allclose(decomposition.inverse(a), expected, rtol, atol)


@pytest.mark.usefixtures("without_numpy_fallback")
def test_inverses_of_upper_triangular_matrices_have_zeros(rng):
    found = decomposition.inverse(np.triu(rng.normal(size=(50, 50)) / 50) + np.eye(50))
    assert not np.tril(found, -1).any()


@pytest.mark.usefixtures("without_numpy_fallback")
@pytest.mark.parametrize("layout", ["dense", "turned", "strided"])
def test_batches_in_any_layout_and_number_of_threads(layout, rng, monkeypatch):
    a, b = rng.normal(size=(5, 1, 20, 20)), rng.normal(size=(3, 20, 4))
    expected = np.linalg.inv(a), np.linalg.solve(a, b)
    if layout == "turned":
        a, b = (np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b))
    elif layout == "strided":
        a, b = (np.repeat(x, 2, axis=-1)[..., ::2] for x in (a, b))
    before = a.copy(), b.copy()
    for threads in (1, 3):
        monkeypatch.setattr(decomposition.parallel_for.__globals__["thread_pool"], "count", threads)
        monkeypatch.setitem(decomposition.parallel_for.__globals__, "SHARED", 2)
        np.testing.assert_allclose(decomposition.inverse(a), expected[0], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(decomposition.solve(a, b), expected[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


SINGULAR_MATRICES = {
    "zeros": np.zeros((3, 3)),
    "ones": np.ones((20, 20)),
    "upper triangular": np.triu(np.ones((20, 20))) - np.diag(np.arange(20) == 17),
    "of zeros in a column": np.where(np.arange(40) == 33, 0, np.eye(40)),
    "the second of two": np.stack([np.eye(4), np.diag([1, 2, 0, 4])]),
    "the last of many": np.concatenate(
        [np.broadcast_to(np.eye(5), (99, 5, 5)), np.zeros((1, 5, 5))]
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x", SINGULAR_MATRICES.values(), ids=SINGULAR_MATRICES)
def test_singular_matrices_are_refused(x, dtype):
    with pytest.raises(
        ArgumentValueError, match=r"MatrixInverse: a matrix of shape .* is singular"
    ):
        decomposition.inverse(x.astype(dtype))
    with pytest.raises(ArgumentValueError, match=r"MatrixSolve: a matrix of shape .* is singular"):
        decomposition.solve(x.astype(dtype), x.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 19), (19, 0), (19, 19), (7, 12), (17, 16)])
@pytest.mark.parametrize("is_upper", [False, True])
def test_lapack_decides_about_matrices_that_are_not_finite(
    is_upper, place, special, dtype, rng, monkeypatch
):
    x = rng.normal(size=(20, 20)).astype(dtype)
    x = np.triu(x) if is_upper else x
    x[place] = special
    for name in ("numpy_inverse", "numpy_solve"):
        monkeypatch.setattr(decomposition, name, lambda *_: "NumPy")
    assert decomposition.inverse(x) == decomposition.solve(x, x) == "NumPy"


@pytest.mark.usefixtures("without_numpy_fallback")
def test_right_hand_sides_that_are_not_finite_spoil_only_their_columns(rng):
    a, b = rng.normal(size=(20, 20)), rng.normal(size=(20, 3))
    expected = np.linalg.solve(a, b)
    b[3, 1] = np.nan
    found = decomposition.solve(a, b)
    np.testing.assert_allclose(found[:, [0, 2]], expected[:, [0, 2]], rtol=1e-9)
    assert np.isnan(found[:, 1]).all()


@pytest.mark.usefixtures("without_numpy_fallback")
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_and_huge_numbers(dtype, rng):
    limits = np.finfo(dtype)
    a = rng.normal(size=(20, 20)) + 8 * np.eye(20)
    for scale in (limits.tiny * 16, limits.max / 64):
        x = (a * scale).astype(dtype)
        np.testing.assert_allclose(
            decomposition.solve(x, x[:, :3]), np.eye(20)[:, :3], rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    ("matrix", "columns", "dtype"),
    [
        ((513, 513), 1, "float32"),
        ((2, 2), 513, "float32"),
        ((3, 3), 2, "complex64"),
        ((0, 0), 2, "float32"),
        ((0, 3, 3), 2, "float32"),
        ((3, 3), 0, "float64"),
    ],
)
def test_inputs_that_c_does_not_support_match_numpy(matrix, columns, dtype, rng):
    a = (rng.normal(size=matrix) + np.eye(matrix[-1])).astype(dtype)
    b = rng.normal(size=(*matrix[:-1], columns)).astype(dtype)
    assert decomposition.solve_or_invert(a, b, columns) is None
    np.testing.assert_array_equal(decomposition.solve(a, b), np.linalg.solve(a, b))
    np.testing.assert_allclose(decomposition.inverse(a), np.linalg.inv(a), rtol=0.01, atol=1e-4)
