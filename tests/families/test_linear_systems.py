"""LU, triangular systems, least squares and eigenvalues of general matrices, against SciPy, with gradients."""

import numpy as np
import pytest
import scipy.linalg

import plugrad
from plugrad import linalg
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = [(4, 4), (5, 3), (3, 5), (2, 3, 3), (70, 40), (40, 70), (0, 2, 2), (0, 3), (3, 0)]


def random_array(rng, shape, dtype):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def tolerances(dtype, factor=1):
    allowed = factor * (2e-5 if dtype in ("float32", "complex64") else 2e-12)
    return {"rtol": allowed, "atol": allowed}


def stored_dtypes():
    return [d for d in DTYPES if d in plugrad.which().backend.dtypes()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_match_lapack(shape, backend, rng):
    for dtype in stored_dtypes():
        x = random_array(rng, shape, dtype)
        found = linalg.lu(x)
        permutation, lower, upper = (y.numpy() for y in found)
        assert {str(y.dtype) for y in found} == {dtype}
        np.testing.assert_allclose(permutation @ lower @ upper, x, **tolerances(dtype, 10))
        if x.size:
            for mine, theirs in zip((permutation, lower, upper), scipy.linalg.lu(x), strict=True):
                np.testing.assert_allclose(mine, theirs, **tolerances(dtype, 50))


def test_factors_of_a_singular_matrix(backend):
    permutation, lower, upper = linalg.lu([[0.0, 1.0], [0.0, 2.0]])
    np.testing.assert_array_equal((permutation @ lower @ upper).numpy(), [[0, 1], [0, 2]])


@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [3, 70])
def test_triangular_systems(n, lower, unit_diagonal, backend, rng):
    for dtype in stored_dtypes():
        a = (random_array(rng, (n, n), dtype) / n + np.eye(n)).astype(dtype)
        for shape in [(n,), (n, 2), (2, n, 1)]:
            b = random_array(rng, shape, dtype)
            options = {"lower": lower, "unit_diagonal": unit_diagonal}
            found = linalg.solve_triangular(a, b, **options)
            expected = scipy.linalg.solve_triangular(a, b, **options)
            assert (str(found.dtype), found.shape) == (dtype, b.shape)
            np.testing.assert_allclose(found, expected, **tolerances(dtype, 20))


def test_the_other_triangle_is_ignored(backend):
    a = plugrad.asarray([[2.0, plugrad.nan], [1.0, 4.0]])
    assert linalg.solve_triangular(a, [2.0, 5.0], lower=True).numpy().tolist() == [1, 1]
    assert linalg.solve_triangular([[0.0]], [1.0]).item() == np.inf


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 0), (0, 2, 2)], ids=str)
def test_eigenvalues_and_eigenvectors(shape, backend, rng):
    for dtype in stored_dtypes():
        if "complex" not in dtype and {"float32": "complex64", "float64": "complex128"}[
            dtype
        ] not in map(str, plugrad.which().backend.dtypes()):
            continue
        x = random_array(rng, shape, dtype)
        values, vectors = (y.numpy() for y in linalg.eig(x))
        assert values.dtype.kind == "c"
        np.testing.assert_allclose(
            x @ vectors, vectors * values[..., None, :], **tolerances(dtype, 50)
        )
        np.testing.assert_allclose(
            np.linalg.norm(vectors, axis=-2), np.ones(values.shape), **tolerances(dtype)
        )
        expected = np.sort_complex(np.linalg.eigvals(x))
        np.testing.assert_allclose(
            np.sort_complex(linalg.eigvals(x).numpy()), expected, **tolerances(dtype, 50)
        )


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5), (2, 4, 2)], ids=str)
def test_least_squares(shape, backend, rng):
    for dtype in stored_dtypes():
        a, b = random_array(rng, shape, dtype), random_array(rng, (*shape[:-1], 2), dtype)
        x, residuals, rank, values = (y.numpy() for y in linalg.lstsq(a, b))
        np.testing.assert_allclose(x, np.linalg.pinv(a) @ b, **tolerances(dtype, 100))
        np.testing.assert_allclose(
            residuals, np.sum(np.abs(b - a @ x) ** 2, axis=-2), **tolerances(dtype, 10)
        )
        np.testing.assert_array_equal(rank, np.full(shape[:-2], min(shape[-2:])))
        np.testing.assert_allclose(
            values, np.linalg.svd(a, compute_uv=False), **tolerances(dtype, 10)
        )
    assert linalg.lstsq(a, b[..., 0] if a.ndim == 2 else b).x.shape[-1] in (shape[-1], 2)


def test_the_shortest_solution_of_a_matrix_without_full_rank(backend):
    x, residuals, rank, _ = linalg.lstsq([[1.0, 1.0], [1.0, 1.0]], [2.0, 4.0])
    np.testing.assert_allclose(x, [1.5, 1.5], rtol=1e-5)
    np.testing.assert_allclose(residuals, 2, rtol=1e-5)
    assert rank.item() == 1
    assert linalg.lstsq([[1.0, 0.0], [0.0, 0.1]], [1.0, 1.0], rcond=0.5).rank.item() == 1


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers(p, backend, rng):
    x = rng.normal(size=(2, 3, 3)).astype("float32")
    np.testing.assert_allclose(linalg.cond(x, p=p), np.linalg.cond(x, p), rtol=1e-3)


REGULAR_MATRIX = np.array([[3.0, 0.4, -0.2], [0.5, 5.0, 0.7], [-0.6, 0.1, 8.0]])
MATRIX_WITH_COMPLEX_EIGENVALUES = REGULAR_MATRIX + np.array([[0.0, -4, 0], [4, 0, 0], [0, 0, 0]])


def lu_factors(x):
    _, lower, upper = linalg.lu(x)
    return plugrad.concat([plugrad.reshape(lower, (-1,)), plugrad.reshape(upper, (-1,))])


def matrix_square_by_eig(x):
    values, vectors = linalg.eig(x)
    return plugrad.matmul(vectors * values * values, linalg.inv(vectors))


DIFFERENTIABLE_FUNCTIONS = {
    "lu": (lu_factors, REGULAR_MATRIX),
    "lu tall": (lu_factors, REGULAR_MATRIX[:, :2]),
    "lu wide": (lu_factors, REGULAR_MATRIX[:2]),
    "lu permuted": (lu_factors, REGULAR_MATRIX[::-1]),
    "lu complex": (lu_factors, REGULAR_MATRIX[None] + 1j * REGULAR_MATRIX.T),
    "eigvals": (linalg.eigvals, MATRIX_WITH_COMPLEX_EIGENVALUES),
    "eigvals complex": (linalg.eigvals, REGULAR_MATRIX + 1j * REGULAR_MATRIX.T),
    "sizes of eigenvectors": (
        lambda x: plugrad.abs(linalg.eig(x).eigenvectors),
        MATRIX_WITH_COMPLEX_EIGENVALUES,
    ),
    "function of eigenvectors": (matrix_square_by_eig, MATRIX_WITH_COMPLEX_EIGENVALUES),
    "lstsq": (lambda x: linalg.lstsq(x[:, :2], x[:, 2]).x, REGULAR_MATRIX),
    "residuals": (lambda x: linalg.lstsq(x[:, :2], x[:, 2]).residuals, REGULAR_MATRIX),
    "lstsq wide": (lambda x: linalg.lstsq(x[:2], x[2, :2]).x, REGULAR_MATRIX),
    "cond": (linalg.cond, REGULAR_MATRIX),
    "cond 1": (lambda x: linalg.cond(x, p=1), REGULAR_MATRIX),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE_FUNCTIONS)
def test_gradients(name):
    function, x = DIFFERENTIABLE_FUNCTIONS[name]
    with plugrad.use("cpu"):
        check_gradient(function, plugrad.asarray(x))


@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_gradients_of_triangular_systems(lower, unit_diagonal):
    with plugrad.use("cpu"):
        check_gradient(
            lambda a, b: linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal),
            plugrad.asarray(np.stack([REGULAR_MATRIX, MATRIX_WITH_COMPLEX_EIGENVALUES])),
            plugrad.asarray(REGULAR_MATRIX[:, :2]),
        )


def test_gradients_that_depend_on_a_phase_are_nan():
    with plugrad.use("cpu"):
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.imag(linalg.eig(x).eigenvectors)))
        assert np.isnan(gradient(plugrad.asarray(MATRIX_WITH_COMPLEX_EIGENVALUES)).numpy()).all()
        assert not gradient(plugrad.asarray(REGULAR_MATRIX)).numpy().any()  # of real vectors


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: linalg.lu([1.0]), ShapeError),
        (lambda: linalg.eig([[1.0, 2.0]]), ShapeError),
        (lambda: linalg.eig([[np.nan]]), ArgumentValueError),
        (lambda: linalg.eig([["a"]]), DTypeError),
        (lambda: linalg.solve_triangular([[1.0, 2.0]], [1.0]), ShapeError),
        (lambda: linalg.solve_triangular([[1.0]], [1.0, 2.0]), ShapeError),
        (lambda: linalg.solve_triangular([[1.0]], [1.0], lower="yes"), ArgumentError),
        (lambda: linalg.lstsq([[1.0]], [1.0, 2.0]), ShapeError),
        (lambda: linalg.lstsq([1.0], [1.0]), ShapeError),
        (lambda: linalg.cond([1.0]), ShapeError),
        (lambda: linalg.cond(np.zeros((0, 0), "float32")), ShapeError),
        (lambda: linalg.cond([[1.0]], p=3), ArgumentValueError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
