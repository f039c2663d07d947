"""The exponential, the logarithm and powers of matrices, against SciPy, with gradients."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

import plugrad
from plugrad import linalg
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

DTYPES = ("float32", "float64", "complex64", "complex128")
MATRIX = np.array([[0.3, 1.4, -0.2], [0.5, -0.6, 0.7], [-0.6, 0.1, 0.8]])
"""A matrix with different eigenvalues."""


def raise_to_power(x):
    return linalg.fractional_matrix_power(x, 1.3)


def supported_tensors(x):
    """Yield the matrix in each dtype that the backend supports, with the tolerance of the dtype."""
    for dtype in DTYPES:
        if dtype in plugrad.which().backend.dtypes():
            values = x + 1j * x.swapaxes(-1, -2) if "complex" in dtype else x
            yield values.astype(dtype), 1e-5 if dtype in ("float32", "complex64") else 1e-13


@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 6.0, 50.0])
def test_exponentials(size, backend):
    for x, allowed in supported_tensors(np.stack([MATRIX * size, MATRIX.T * -size])):
        found, expected = linalg.expm(x), scipy.linalg.expm(x.astype("complex128"))
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        with np.errstate(all="ignore"):
            scale = np.abs(expected).max() * (1 + size)
        if scale < 1e30:
            np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed * scale)


def test_exponentials_of_matrices_with_one_eigenvector(backend):
    found = linalg.expm([[2.0, 1.0], [0.0, 2.0]]).numpy()
    np.testing.assert_allclose(found, np.exp(2) * np.array([[1, 1], [0, 1]]), rtol=1e-6)


def test_large_and_infinite_matrices(backend):
    x = np.array([[[-1e6]], [[1e9]], [[np.inf]], [[np.nan]], [[1.0]]], "float32")
    np.testing.assert_allclose(
        linalg.expm(x).numpy()[:, 0, 0], [0, np.nan, np.nan, np.nan, np.e], rtol=1e-6
    )


def test_roots(backend):
    for x, allowed in supported_tensors(
        np.stack([MATRIX @ MATRIX.T + np.eye(3), MATRIX + 3 * np.eye(3), 1e4 * np.eye(3)])
    ):
        root = linalg.sqrtm(x)
        assert (root.dtype, root.shape) == (x.dtype, x.shape)
        for mine, matrix in zip(root.numpy(), x, strict=True):
            expected = scipy.linalg.sqrtm(matrix.astype("complex128"))
            np.testing.assert_allclose(mine, expected, rtol=50 * allowed, atol=50 * allowed)


def test_matrices_without_a_square_root(backend):
    assert np.isnan(linalg.sqrtm([[-1.0, 0.0], [0.0, 2.0]]).numpy()).all()
    assert np.isnan(linalg.sqrtm([[0.0, 1.0], [0.0, 0.0]]).numpy()).any()
    for wrong in (np.nan, np.inf):
        with pytest.raises(ArgumentValueError, match="must be finite"):
            linalg.sqrtm([[wrong]])


def test_roots_of_negative_numbers_are_complex(backend):
    x = np.array([[-4.0, 0.0], [0.0, 2.0]], "complex64")
    np.testing.assert_allclose(linalg.sqrtm(x), np.diag([2j, 2**0.5]), rtol=1e-6)


def test_roots_of_singular_matrices(backend, rng):
    """The covariance of fewer examples than variables has eigenvalues of 0, which rounding changes."""
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    x = turn * [1.0, 2.0, 3.0, 0.0, 0.0, 0.0] @ turn.T
    expected = turn * [1.0, 2.0**0.5, 3.0**0.5, 0.0, 0.0, 0.0] @ turn.T
    for dtype, allowed in (("float32", 1e-3), ("float64", 1e-7)):
        if dtype in plugrad.which().backend.dtypes():
            np.testing.assert_allclose(linalg.sqrtm(x.astype(dtype)), expected, atol=allowed)
    assert linalg.sqrtm(np.zeros((2, 2), "float32")).tolist() == [[0, 0], [0, 0]]


def test_roots_of_matrices_with_one_eigenvector(backend, rng):
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    matrix = turn @ (2 * np.eye(7) + np.diag([1.0] * 6, 1)) @ turn.T
    for x, allowed in supported_tensors(matrix):
        root = linalg.sqrtm(x).numpy()
        np.testing.assert_allclose(root @ root, x, atol=100 * allowed)


def relative_error(found, expected):
    return max(np.linalg.norm(found - expected) / np.linalg.norm(expected), 1e-17)


RECORDED_SQUARE_ROOTS = json.loads((Path(__file__).parent / "square_roots.json").read_text("utf-8"))
"""Nearly singular matrices and what mpmath gives for their roots; `record_square_roots.py` records it."""


def test_roots_of_nearly_singular_matrices_are_as_exact_as_those_of_scipy():
    ratios = []
    for each in RECORDED_SQUARE_ROOTS:
        x, expected = np.array(each["x"]), np.array(each["root"])
        with plugrad.use("cpu"):
            error = relative_error(linalg.sqrtm(x).numpy(), expected)
        ratios.append(error / relative_error(scipy.linalg.sqrtm(x), expected))
    assert np.exp(np.mean(np.log(ratios))) < 2, ratios
    assert max(ratios) < 20, ratios


def test_sizes_of_roots(backend, rng):
    """Sizes include those that are solved recursively in halves."""
    for n in (1, 2, 33, 70):
        x = (np.eye(n) * n + rng.uniform(-0.5, 0.5, (2, n, n))).astype("float32")
        root = linalg.sqrtm(x).numpy()
        np.testing.assert_allclose(root @ root, x, atol=1e-5 * n)


def test_sylvester(backend, rng):
    for rows, columns in ((1, 1), (3, 2), (2, 5), (40, 3), (3, 40)):
        b, q = rng.normal(size=(columns, columns)), rng.normal(size=(rows, columns))
        a = rng.normal(size=(rows, rows)) + 3 * (rows + columns) ** 0.5 * np.eye(rows)
        found = linalg.solve_sylvester(*(x.astype("float32") for x in (a, b, q)))
        assert found.dtype == "float32"
        expected = scipy.linalg.solve_sylvester(a, b, q)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    a = np.array([[1.0, 2.0], [0.0, 2.0]], "complex64")
    found = linalg.solve_sylvester(a, [[[1]], [[2]]], np.array([[1j], [2]], "complex64"))
    expected = [scipy.linalg.solve_sylvester(a, [[b]], np.array([[1j], [2]])) for b in (1, 2)]
    assert (found.dtype, found.shape) == ("complex64", (2, 2, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.isnan(linalg.solve_sylvester([[1.0]], [[-1.0]], [[1.0]]).item())
    assert linalg.solve_sylvester(*(np.zeros(s, "f4") for s in ((0, 0), (1, 1), (0, 1)))).shape == (
        0,
        1,
    )
    for bad in (([[1.0, 2.0]], [[1.0]], [[1.0]]), ([[1.0]], [[1.0]], [[1.0, 2.0]])):
        with pytest.raises(ShapeError):
            linalg.solve_sylvester(*bad)
    with pytest.raises(DTypeError):
        linalg.solve_sylvester([["a"]], [[1.0]], [[1.0]])
    with pytest.raises(ArgumentValueError, match="must be finite"):
        linalg.solve_sylvester([[np.inf]], [[1.0]], [[1.0]])


MATRICES = np.stack(
    [
        MATRIX @ MATRIX.T + np.eye(3),
        MATRIX + 3 * np.eye(3),
        1e4 * np.eye(3),
        np.diag([1e-4, 1.0, 1e4]),
        [[2.0, 5.0, 0.0], [0.0, 2.0, 5.0], [0.0, 0.0, 2.0]],  # one eigenvector
        [[np.cos(3), -np.sin(3), 0.0], [np.sin(3), np.cos(3), 0.0], [0.0, 0.0, 1.0]],
        np.eye(3) + 1e-3 * MATRIX,
    ]
)


def test_logarithms(backend):
    for x, allowed in supported_tensors(MATRICES):
        found = linalg.logm(x)
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        for mine, matrix in zip(found.numpy(), x, strict=True):
            expected = scipy.linalg.logm(matrix.astype("complex128"))
            tolerance = allowed * max(1, np.abs(expected).max()) * np.linalg.cond(matrix) ** 0.5
            np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance)


RECORDED_LOGARITHMS = json.loads((Path(__file__).parent / "logarithms.json").read_text("utf-8"))
"""Matrices and what mpmath gives for their logarithms; `record_logarithms.py` records it."""


@pytest.mark.filterwarnings("ignore")
def test_logarithms_are_as_exact_as_those_of_scipy():
    ratios = {}
    for kind, recorded in RECORDED_LOGARITHMS.items():
        ratios[kind] = []
        for each in recorded:
            x, expected = np.array(each["x"]), np.array(each["logarithm"])
            with plugrad.use("cpu"):
                error = relative_error(linalg.logm(x).numpy(), expected)
            ratios[kind].append(error / relative_error(scipy.linalg.logm(x), expected))
    means = {kind: np.exp(np.mean(np.log(values))) for kind, values in ratios.items()}
    assert max(means.values()) < 5, means
    del means["near the identity"]  # where SciPy is off by thousands of units in the last place
    assert np.exp(np.mean(np.log(list(means.values())))) < 2, means


def test_logarithms_near_the_identity(backend):
    for x, allowed in supported_tensors(1e-3 * MATRIX):
        x = np.eye(3, dtype=x.dtype) + x
        rest = x.astype(np.clongdouble) - np.eye(3)
        power, expected = rest, rest
        for k in range(2, 9):
            power = power @ rest
            expected = expected - power * (-1) ** k / k
        found = linalg.logm(x).numpy()
        assert np.abs(found - expected).max() < allowed * 1e-3


def test_logarithms_of_large_and_small_numbers(backend):
    for size in (1e-30, 1e-8, 1e8, 1e30):
        x = np.array([[size, size], [0, 2 * size]], "float32")
        found, ratio = linalg.logm(x).numpy(), np.log(2)
        expected = [[np.log(size), ratio], [0, np.log(2 * size)]]
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=2e-5)


@pytest.mark.parametrize("power", [0.5, -0.3, 2.7, -1.6, 3, -1, 0])
def test_powers(power, backend):
    for x, allowed in supported_tensors(MATRICES[[0, 1, 4, 5, 6]]):
        found = linalg.fractional_matrix_power(x, power)
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        for mine, matrix in zip(found.numpy(), x, strict=True):
            expected = scipy.linalg.fractional_matrix_power(matrix.astype("complex128"), power)
            tolerance = 10 * allowed * np.abs(expected).max()
            np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance)


def test_matrices_without_a_logarithm(backend):
    for function in (linalg.logm, raise_to_power):
        assert np.isnan(function([[-1.0, 0.0], [0.0, 2.0]]).numpy()).all()
        with pytest.raises(ArgumentValueError, match="singular"):
            function([[0.0]])
    assert linalg.fractional_matrix_power([[-2.0]], 3).item() == -8
    for power in (np.nan, np.inf, "2", 1j, 10**400, plugrad.asarray(0.5)):
        with pytest.raises(ArgumentError, match=r"must be a (finite )?number"):
            linalg.fractional_matrix_power([[2.0]], power)


@pytest.mark.parametrize("function", [linalg.expm, linalg.sqrtm, linalg.logm, raise_to_power])
def test_empty_matrices(function, backend):
    assert function(np.zeros((2, 0, 0), "float32")).shape == (2, 0, 0)
    assert function(np.zeros((0, 3, 3), "float32")).shape == (0, 3, 3)
    with pytest.raises(ShapeError, match="must be square"):
        function([[1.0, 2.0]])
    with pytest.raises(DTypeError):
        function([["a"]])
    assert function([[4]]).dtype == "float32"


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (linalg.expm, MATRIX),
        (linalg.expm, 9 * MATRIX),
        (linalg.expm, MATRIX + 1j * MATRIX.T),
        (linalg.sqrtm, MATRIX @ MATRIX.T + np.eye(3)),
        (linalg.sqrtm, MATRIX + (3 + 1j) * np.eye(3)),
        (linalg.logm, MATRIX @ MATRIX.T + np.eye(3)),
        (linalg.logm, MATRIX + (3 + 1j) * np.eye(3)),
        (raise_to_power, MATRIX + 3 * np.eye(3)),
    ],
)
def test_gradients(function, x):
    with plugrad.use("cpu"):
        check_gradient(function, plugrad.asarray(x))


def test_gradients_of_sylvester():
    with plugrad.use("cpu"):
        check_gradient(
            linalg.solve_sylvester, MATRIX + 3 * np.eye(3), MATRIX[:2, :2], MATRIX[:, :2]
        )
        check_gradient(
            linalg.solve_sylvester,
            MATRIX + (3 + 1j) * np.eye(3),
            MATRIX[:2, :2] * 1j,
            MATRIX[:, :2] + 0j,
        )


@pytest.mark.filterwarnings("ignore")
def test_gradients_of_roots_of_nearly_singular_matrices():
    """The derivative of the root along the matrix itself is half of the root."""
    for each in RECORDED_SQUARE_ROOTS:
        x, weights = np.array(each["x"]), np.linspace(1, 2, len(each["x"]) ** 2)
        weights = weights.reshape(np.shape(x))
        with plugrad.use("cpu"):
            slope = plugrad.grad(lambda x, w=weights: plugrad.sum(linalg.sqrtm(x) * w))(x).numpy()
        size = np.abs(slope).sum() * np.abs(x).max()
        assert abs((slope * x).sum() - (np.array(each["root"]) * weights).sum() / 2) < 1e-9 * size


@pytest.mark.parametrize("function", [linalg.expm, linalg.sqrtm, linalg.logm, raise_to_power])
def test_traced_and_batched(function, backend):
    x = plugrad.asarray(
        np.stack([MATRIX + 2 * np.eye(3), MATRIX.T + 3 * np.eye(3)]), dtype="float32"
    )
    expected = function(x).numpy()
    np.testing.assert_allclose(plugrad.jit(function)(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(plugrad.vmap(function)(x), expected, rtol=1e-5, atol=1e-5)
