"""Factorizations of matrices: values against NumPy, products against the matrix, gradients by differences."""

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain
from plugrad import linalg
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import decomposition
from plugrad.testing import check_gradient


def well_conditioned():
    """Matrices that are far from singular, with distinct singular values: random ones plus a diagonal."""

    def draw(rng, shape, dtype):
        x = rng.normal(size=shape)
        if dtype.startswith("complex"):
            x = x + 1j * rng.normal(size=shape)
        return (x + 2 * np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)).astype(dtype)

    return Domain(draw)


def conjugate_transpose(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive_definite(x):
    """Return a Hermitian, positive definite matrix made of any matrix."""
    return x @ conjugate_transpose(x) + np.eye(x.shape[-1])


def positive_definite_matrices():
    inner = well_conditioned()
    return Domain(
        lambda rng, shape, dtype: positive_definite(inner.draw(rng, shape, dtype)).astype(dtype)
    )


SQUARE_SHAPES = [(3, 3), (1, 1), (2, 3, 3), (2, 1, 2, 2), (0, 2, 2)]
FLOAT_DTYPES = ("float32", "float64")
INVERSE_AND_DETERMINANT_CASES = [
    Case(
        op, reference, [domain], [shape], dtypes=FLOAT_DTYPES, is_sum=True, is_differentiable=False
    )
    for op, reference, domain in [
        (decomposition.cholesky, np.linalg.cholesky, positive_definite_matrices()),
        (decomposition.inverse, np.linalg.inv, well_conditioned()),
        (decomposition.determinant, np.linalg.det, well_conditioned()),
        (decomposition.log_determinant, lambda x: list(np.linalg.slogdet(x)), well_conditioned()),
    ]
    for shape in SQUARE_SHAPES
]
SOLVE_CASES = [
    Case(
        decomposition.solve,
        np.linalg.solve,
        [well_conditioned(), well_conditioned()],
        shapes,
        dtypes=FLOAT_DTYPES,
        is_sum=True,
        is_differentiable=False,
    )
    for shapes in [
        ((3, 3), (3, 2)),
        ((2, 3, 3), (3, 1)),
        ((2, 1, 2, 2), (3, 2, 4)),
        ((2, 2), (2, 0)),
    ]
]
DECOMPOSITION_CASES = [
    Case(
        lambda x, part=part, kernel=kernel: kernel(x)[part],
        lambda x, part=part, reference=reference: reference(x)[part],
        [domain],
        [shape],
        dtypes=FLOAT_DTYPES,
        is_sum=True,
        is_differentiable=False,
        name=f"{kernel.name} {shape}",
    )
    for kernel, reference, part, domain, shapes in [
        (decomposition.eigh, np.linalg.eigh, 0, positive_definite_matrices(), SQUARE_SHAPES),
        (
            decomposition.svd,
            np.linalg.svd,
            1,
            well_conditioned(),
            [(3, 3), (4, 2), (2, 2, 3), (0, 2, 2)],
        ),
        (
            decomposition.qr,
            np.linalg.qr,
            1,
            well_conditioned(),
            [(3, 3), (4, 2), (2, 2, 3), (0, 2, 2)],
        ),
    ]
    for shape in shapes
]
CASES = [*INVERSE_AND_DETERMINANT_CASES, *SOLVE_CASES, *DECOMPOSITION_CASES]


def case_id(case):
    return f"{case} {case.shapes}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    for dtype in case.dtypes:
        if dtype not in plugrad.which().backend.dtypes():
            continue
        arrays = case.draw(rng, dtype)
        actual = case.op(*map(plugrad.asarray, arrays))
        expected = case.reference(*arrays)
        is_list = isinstance(actual, list)
        for got, wanted in zip(
            *((actual, expected) if is_list else ([actual], [expected])), strict=True
        ):
            assert (got.dtype, got.shape) == (dtype, wanted.shape)
            allowed = 1e-4 if dtype == "float32" else 1e-11
            np.testing.assert_allclose(got.numpy(), wanted, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 3, 2)])
def test_factors_multiply_to_the_matrix(shape, dtype, rng):
    x = well_conditioned().draw(rng, shape, dtype)
    t, close = plugrad.asarray(x), {"rtol": 1e-4, "atol": 1e-4}
    for full in (False, True):
        u, s, vh = (y.numpy() for y in linalg.svd(t, full_matrices=full))
        inner = np.zeros((*shape[:-2], u.shape[-1], vh.shape[-2]), s.dtype)
        for i in range(s.shape[-1]):
            inner[..., i, i] = s[..., i]
        np.testing.assert_allclose(u @ inner @ vh, x, **close)
        np.testing.assert_allclose(
            conjugate_transpose(u) @ u,
            np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *u.shape[-1:] * 2)),
            **close,
        )
        q, r = (y.numpy() for y in linalg.qr(t, mode="complete" if full else "reduced"))
        np.testing.assert_allclose(q @ r, x, **close)
        assert u.dtype == q.dtype == r.dtype == dtype
    np.testing.assert_allclose(x @ linalg.pinv(t).numpy() @ x, x, **close)
    np.testing.assert_array_equal(linalg.matrix_rank(t).numpy(), np.linalg.matrix_rank(x))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2)])
def test_symmetric_factors(shape, dtype, rng):
    x = positive_definite_matrices().draw(rng, shape, dtype)
    values, vectors = (y.numpy() for y in linalg.eigh(plugrad.asarray(x)))
    np.testing.assert_allclose(
        vectors * values[..., None, :] @ conjugate_transpose(vectors), x, atol=1e-10
    )
    np.testing.assert_allclose(linalg.eigvalsh(x).numpy(), values)
    lower = linalg.cholesky(x).numpy()
    np.testing.assert_allclose(lower @ conjugate_transpose(lower), x, atol=1e-10)
    np.testing.assert_allclose(linalg.cholesky(x, upper=True).numpy(), conjugate_transpose(lower))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(48, 48), (49, 49), (3, 131, 131)])
def test_inverses_of_triangular_matrices(rng, shape, dtype):
    x = well_conditioned().draw(rng, shape, dtype)
    for matrices in (np.triu(x), np.tril(x), np.triu(x, -1)):
        found = linalg.inv(plugrad.asarray(matrices)).numpy()
        expected = np.linalg.inv(matrices.astype("complex128"))
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found, expected, tolerance, tolerance * np.abs(expected).max())
        assert found.dtype == matrices.dtype
    singular = np.triu(x)
    singular[..., -1, -1] = 0
    with pytest.raises(ArgumentValueError, match="singular"):
        linalg.inv(plugrad.asarray(singular))


def test_singular_matrices():
    ones = np.ones((3, 3))
    assert linalg.matrix_rank(ones).item() == 1
    assert linalg.matrix_rank(np.diag([1.0, 1e-3]), rtol=1e-2).item() == 1
    np.testing.assert_allclose(linalg.pinv(ones).numpy(), ones / 9, atol=1e-15)
    assert linalg.det(ones).item() == pytest.approx(0, abs=1e-12)
    sign, log = linalg.slogdet(np.zeros((2, 2)))
    assert (sign.item(), log.item()) == (0.0, -np.inf)
    assert linalg.matrix_rank(np.zeros((0, 3))).item() == 0


def test_vectors_are_solved_one_by_one(rng):
    a, b = well_conditioned().draw(rng, (3, 3), "float64"), rng.normal(size=3)
    np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a, b))
    check_gradient(linalg.solve, a, b)


# --- gradients ---------------------------------------------------------------------------------------


def symmetric_part(x):
    return plugrad.matmul(x, plugrad.conj(x.mT)) + plugrad.asarray(np.eye(x.shape[-1]))


def function_of_eigenvectors(x):
    values, vectors = linalg.eigh(symmetric_part(x))
    return (
        vectors
        * plugrad.exp(-values * 0.1).astype(x.dtype)[..., None, :]
        @ plugrad.conj(vectors.mT)
    )


def function_of_singular_vectors(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return (u * plugrad.sqrt(s).astype(x.dtype)[..., None, :]) @ vh


def function_of_qr(x):
    q, r = linalg.qr(x)
    return q @ plugrad.asarray(np.ones((q.shape[-1], 2))).astype(x.dtype) * 0.5 + plugrad.sum(r * r)


DIFFERENTIABLE_FUNCTIONS = {
    "inv": linalg.inv,
    "det": linalg.det,
    "solve": lambda x: linalg.solve(x, x @ x),
    "cholesky": lambda x: linalg.cholesky(symmetric_part(x)),
    "eigvalsh": lambda x: linalg.eigvalsh(symmetric_part(x)),
    "eigenvectors": function_of_eigenvectors,
    "svdvals": linalg.svdvals,
    "singular vectors": function_of_singular_vectors,
    "pinv": linalg.pinv,
    "qr": function_of_qr,
    "nuclear norm": lambda x: linalg.matrix_norm(x, ord="nuc"),
    "power": lambda x: linalg.matrix_power(x, -2),
}


DIFFERENTIABLE_CASES = [
    Case(
        function,
        function,
        [well_conditioned()],
        [shape],
        dtypes=("float64",),
        name=f"{name} {shape}",
    )
    for name, function in {
        **DIFFERENTIABLE_FUNCTIONS,
        "logarithm of determinant": lambda x: linalg.slogdet(x).logabsdet,
    }.items()
    for shape in [(3, 3), (1, 1), (2, 2, 2)]
]


@pytest.mark.rows("case", DIFFERENTIABLE_CASES, ids=str)
def test_gradient(case, rng):
    case.check_gradient(rng, "cpu")


@pytest.mark.parametrize("shape", [(4, 2), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("name", ["svdvals", "singular vectors", "pinv", "qr", "nuclear norm"])
def test_gradient_of_oblong_matrices(name, shape, rng):
    check_gradient(
        DIFFERENTIABLE_FUNCTIONS[name], well_conditioned().draw(rng, shape, "float64"), rtol=1e-5
    )


FUNCTIONS_OF_COMPLEX_MATRICES = [
    "inv",
    "det",
    "solve",
    "cholesky",
    "eigvalsh",
    "eigenvectors",
    "svdvals",
    "pinv",
]


@pytest.mark.parametrize("name", [*FUNCTIONS_OF_COMPLEX_MATRICES, "singular vectors", "qr"])
def test_gradient_of_complex_matrices(name, rng):
    check_gradient(
        DIFFERENTIABLE_FUNCTIONS[name],
        well_conditioned().draw(rng, (3, 3), "complex128"),
        rtol=1e-5,
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradient_of_the_logarithm_of_a_determinant(dtype, rng):
    x = well_conditioned().draw(rng, (2, 3, 3), dtype)
    check_gradient(lambda x: linalg.slogdet(x).logabsdet, x)
    check_gradient(lambda x: linalg.slogdet(x).sign * plugrad.sum(x), x, rtol=1e-5)


def test_columns_that_are_not_unique_have_no_gradient(rng):
    x = plugrad.asarray(rng.normal(size=(2, 3, 2)))
    for f in (
        lambda x: linalg.svd(x).U,
        lambda x: linalg.svd(x.mT).Vh.mT,
        lambda x: linalg.qr(x, mode="complete").Q,
    ):
        gradient = plugrad.grad(lambda x, f=f: plugrad.sum(f(x)[0]) + plugrad.sum(f(x)[1, :, :2]))
        found = gradient(x).numpy()
        assert np.isnan(found[0]).all()
        assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("shape", [(3, 2), (2, 4)])
def test_parts_of_complete_factors_that_are_unique_have_a_gradient(shape, rng):
    x = rng.normal(size=shape)
    check_gradient(lambda x: linalg.svd(x).S, x)
    check_gradient(lambda x: linalg.svd(x).U[:, :2] @ linalg.svd(x).Vh[:2], x)
    check_gradient(lambda x: linalg.qr(x, mode="complete").R, x)
    check_gradient(lambda x: linalg.qr(x, mode="complete").Q[:, :2], x)


# --- Gram-Schmidt ------------------------------------------------------------------------------------


def test_gram_schmidt_gives_orthonormal_vectors(rng):
    x = rng.normal(size=(3, 4))
    y = linalg.gram_schmidt(x).numpy()
    np.testing.assert_allclose(y @ y.T, np.eye(3), atol=1e-12)
    for k in (1, 2, 3):  # the first k span the same
        assert np.linalg.matrix_rank(np.concatenate([x[:k], y[:k]])) == k
    parts = linalg.gram_schmidt([plugrad.asarray(v) for v in x])
    np.testing.assert_allclose(np.stack([part.numpy() for part in parts]), y)
    check_gradient(linalg.gram_schmidt, x)


# --- bad input ---------------------------------------------------------------------------------------

NON_SQUARE_MATRIX = plugrad.ones((2, 3), device="cpu")
ERROR_CASES = [
    *(
        ErrorCase(lambda f=f: f(NON_SQUARE_MATRIX), ShapeError, ["(2, 3)", "square"])
        for f in (linalg.inv, linalg.det, linalg.cholesky, linalg.eigh, linalg.slogdet)
    ),
    ErrorCase(
        lambda: linalg.solve(NON_SQUARE_MATRIX, NON_SQUARE_MATRIX),
        ShapeError,
        ["MatrixSolve", "(2, 3)", "square"],
    ),
    ErrorCase(
        lambda: linalg.solve(plugrad.ones((2, 2)), plugrad.ones(3)),
        ShapeError,
        ["(3, 1)", "2 rows"],
    ),
    ErrorCase(lambda: linalg.qr(plugrad.ones(3)), ShapeError, ["Qr", "(3,)", "two axes"]),
    ErrorCase(lambda: linalg.svd(plugrad.ones(3)), ShapeError, ["Svd", "(3,)"]),
    ErrorCase(lambda: linalg.inv(plugrad.zeros((2, 2))), ArgumentValueError, ["singular"]),
    ErrorCase(
        lambda: linalg.cholesky(-plugrad.ones((1, 1))),
        ArgumentValueError,
        ["not positive definite"],
    ),
    ErrorCase(
        lambda: linalg.qr(NON_SQUARE_MATRIX, mode="half"),
        ArgumentValueError,
        ["mode='half'", "'reduced'"],
    ),
    ErrorCase(
        lambda: linalg.inv(plugrad.ones((2, 2)).astype("float16")), DTypeError, ["inv", "float16"]
    ),
    ErrorCase(lambda: linalg.gram_schmidt(plugrad.ones((3, 2))), ShapeError, ["(3, 2)", "vectors"]),
    ErrorCase(lambda: linalg.gram_schmidt([]), ShapeError, ["gram_schmidt"]),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case):
    error_case.check()
