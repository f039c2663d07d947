"""Factorizations of matrices: values against NumPy, products against the matrix, gradients by differences."""

import numpy as np
import pytest

import plugrad
from families.case import Case, Refusal
from families.domains import Domain
from plugrad import linalg
from plugrad.errors import ArgumentValueError, DTypeError, NotFinite, ShapeError
from plugrad.kernels import decomposition
from plugrad.testing import check_gradient


def spread():
    """Matrices that are far from singular, with singular values that differ: random ones plus a diagonal."""

    def draw(rng, shape, dtype):
        x = rng.normal(size=shape)
        if dtype.startswith("complex"):
            x = x + 1j * rng.normal(size=shape)
        return (x + 2 * np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1)).astype(dtype)

    return Domain(draw)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive(x):
    """Return a Hermitian, positive definite matrix made of any."""
    return x @ adjoint(x) + np.eye(x.shape[-1])


def definite():
    inner = spread()
    return Domain(lambda rng, shape, dtype: positive(inner.draw(rng, shape, dtype)).astype(dtype))


SQUARES = [(3, 3), (1, 1), (2, 3, 3), (2, 1, 2, 2), (0, 2, 2)]
TYPES = ("float32", "float64")
INVERTED = [
    Case(op, reference, [domain], [shape], dtypes=TYPES, is_sum=True, is_differentiable=False)
    for op, reference, domain in [
        (decomposition.cholesky, np.linalg.cholesky, definite()),
        (decomposition.inverse, np.linalg.inv, spread()),
        (decomposition.determinant, np.linalg.det, spread()),
        (decomposition.log_determinant, lambda x: list(np.linalg.slogdet(x)), spread()),
    ]
    for shape in SQUARES
]
SOLVED = [
    Case(
        decomposition.solve,
        np.linalg.solve,
        [spread(), spread()],
        shapes,
        dtypes=TYPES,
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
VALUES = [
    Case(
        lambda x, part=part, kernel=kernel: kernel(x)[part],
        lambda x, part=part, reference=reference: reference(x)[part],
        [domain],
        [shape],
        dtypes=TYPES,
        is_sum=True,
        is_differentiable=False,
        name=f"{kernel.name} {shape}",
    )
    for kernel, reference, part, domain, shapes in [
        (decomposition.eigh, np.linalg.eigh, 0, definite(), SQUARES),
        (decomposition.svd, np.linalg.svd, 1, spread(), [(3, 3), (4, 2), (2, 2, 3), (0, 2, 2)]),
        (decomposition.qr, np.linalg.qr, 1, spread(), [(3, 3), (4, 2), (2, 2, 3), (0, 2, 2)]),
    ]
    for shape in shapes
]
CASES = [*INVERTED, *SOLVED, *VALUES]


def label(case):
    return f"{case} {case.shapes}".replace(", ", ",")


@pytest.mark.parametrize("case", CASES, ids=label)
def test_values(case, backend, rng):
    for dtype in case.dtypes:
        if dtype not in plugrad.which().backend.dtypes():
            continue
        arrays = case.drawn(rng, dtype)
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
    x = spread().draw(rng, shape, dtype)
    t, close = plugrad.asarray(x), {"rtol": 1e-4, "atol": 1e-4}
    for full in (False, True):
        u, s, vh = (y.numpy() for y in linalg.svd(t, full_matrices=full))
        inner = np.zeros((*shape[:-2], u.shape[-1], vh.shape[-2]), s.dtype)
        for i in range(s.shape[-1]):
            inner[..., i, i] = s[..., i]
        np.testing.assert_allclose(u @ inner @ vh, x, **close)
        np.testing.assert_allclose(
            adjoint(u) @ u,
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
    x = definite().draw(rng, shape, dtype)
    values, vectors = (y.numpy() for y in linalg.eigh(plugrad.asarray(x)))
    np.testing.assert_allclose(vectors * values[..., None, :] @ adjoint(vectors), x, atol=1e-10)
    np.testing.assert_allclose(linalg.eigvalsh(x).numpy(), values)
    lower = linalg.cholesky(x).numpy()
    np.testing.assert_allclose(lower @ adjoint(lower), x, atol=1e-10)
    np.testing.assert_allclose(linalg.cholesky(x, upper=True).numpy(), adjoint(lower))


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
    a, b = spread().draw(rng, (3, 3), "float64"), rng.normal(size=3)
    np.testing.assert_allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a, b))
    check_gradient(linalg.solve, a, b)


# --- gradients ---------------------------------------------------------------------------------------


def symmetric(x):
    return plugrad.matmul(x, plugrad.conj(x.mT)) + plugrad.asarray(np.eye(x.shape[-1]))


def through_eigenvectors(x):
    values, vectors = linalg.eigh(symmetric(x))
    return (
        vectors
        * plugrad.exp(-values * 0.1).astype(x.dtype)[..., None, :]
        @ plugrad.conj(vectors.mT)
    )


def through_singular_vectors(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return (u * plugrad.sqrt(s).astype(x.dtype)[..., None, :]) @ vh


def through_q(x):
    q, r = linalg.qr(x)
    return q @ plugrad.asarray(np.ones((q.shape[-1], 2))).astype(x.dtype) * 0.5 + plugrad.sum(r * r)


FUNCTIONS = {
    "inv": linalg.inv,
    "det": linalg.det,
    "solve": lambda x: linalg.solve(x, x @ x),
    "cholesky": lambda x: linalg.cholesky(symmetric(x)),
    "eigvalsh": lambda x: linalg.eigvalsh(symmetric(x)),
    "eigenvectors": through_eigenvectors,
    "svdvals": linalg.svdvals,
    "singular vectors": through_singular_vectors,
    "pinv": linalg.pinv,
    "qr": through_q,
    "nuclear norm": lambda x: linalg.matrix_norm(x, ord="nuc"),
    "power": lambda x: linalg.matrix_power(x, -2),
}


SAME = [
    Case(function, function, [spread()], [shape], dtypes=("float64",), name=f"{name} {shape}")
    for name, function in {
        **FUNCTIONS,
        "logarithm of determinant": lambda x: linalg.slogdet(x).logabsdet,
    }.items()
    for shape in [(3, 3), (1, 1), (2, 2, 2)]
]


@pytest.mark.parametrize("case", SAME, ids=str)
def test_gradient(case, rng):
    case.check_gradient(rng, "cpu")


@pytest.mark.parametrize("shape", [(4, 2), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("name", ["svdvals", "singular vectors", "pinv", "qr", "nuclear norm"])
def test_gradient_of_oblong_matrices(name, shape, rng):
    check_gradient(FUNCTIONS[name], spread().draw(rng, shape, "float64"), rtol=1e-5)


COMPLEX = ["inv", "det", "solve", "cholesky", "eigvalsh", "eigenvectors", "svdvals", "pinv"]


@pytest.mark.parametrize("name", [*COMPLEX, "singular vectors", "qr"])
def test_gradient_of_complex_matrices(name, rng):
    check_gradient(FUNCTIONS[name], spread().draw(rng, (3, 3), "complex128"), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradient_of_the_logarithm_of_a_determinant(dtype, rng):
    x = spread().draw(rng, (2, 3, 3), dtype)
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


# --- gradients at singular matrices and equal values -------------------------------------------------


def of_rank(rng, n, rank, dtype="float64"):
    """Return an n by n matrix of a rank."""
    a, b = rng.normal(size=(2, n, rank))
    if dtype == "complex128":
        a, b = a + 1j * b, b - 2j * a
    return (a @ b.T).astype(dtype)


def cofactors(x):
    """Return the cofactors from their definition, one minor at a time."""
    found = np.zeros(x.shape, x.dtype)
    for i, j in np.ndindex(x.shape):
        minor = np.delete(np.delete(x, i, 0), j, 1)
        found[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return found


def det_plus_sum(x):
    """Return a function of the determinant whose derivatives are not all 0 where those of the determinant are."""
    return linalg.det(x) + plugrad.sum(x)


RANKS = [(n, rank) for n in range(1, 6) for rank in range(n + 1)]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("n", "rank"), RANKS)
def test_determinants_have_two_derivatives_at_every_rank(n, rank, dtype, rng):
    x = of_rank(rng, n, rank, dtype)
    check_gradient(det_plus_sum, x)
    scale = max(1, np.abs(x).max()) ** (n - 1)
    actual = plugrad.grad(lambda x: plugrad.real(linalg.det(x)))(x).numpy()
    np.testing.assert_allclose(np.conj(actual), cofactors(x), rtol=1e-10, atol=1e-12 * scale)


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 2.0], [2.0, 4.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]],
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]],
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]],
        [[1e8, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[1e-30, 0.0], [0.0, 1e-30]],
        [[0.0]],
        [[5.0]],
    ],
    ids=str,
)
def test_gradient_of_a_determinant_is_made_of_cofactors(x, backend):
    gradient = plugrad.grad(linalg.det)(plugrad.asarray(x))
    expected = cofactors(np.array(x))
    np.testing.assert_allclose(
        gradient.numpy(), expected, rtol=2e-5, atol=1e-5 * np.abs(expected).max()
    )


def test_gradients_of_determinants_of_several_ranks_at_once(rng, backend):
    x = np.stack([of_rank(rng, 4, rank) for rank in (4, 2, 3, 0, 1, 4)]).reshape(2, 3, 4, 4)
    single = x.astype("float32")
    gradient = plugrad.grad(lambda x: linalg.det(x).sum())(single).numpy()
    expected = np.stack([cofactors(m) for m in x.reshape(6, 4, 4)]).reshape(x.shape)
    np.testing.assert_allclose(gradient, expected, atol=1e-4 * np.abs(expected).max())
    if backend == "cpu":
        check_gradient(det_plus_sum, x)


def test_gradients_of_determinants_of_nothing(backend):
    for shape in ((0, 0), (3, 0, 0), (0, 2, 2)):
        assert plugrad.grad(lambda x: linalg.det(x).sum())(plugrad.zeros(shape)).shape == shape


def test_nan_reaches_only_its_determinant():
    x = plugrad.asarray([[[np.nan, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]], dtype="float64")
    value, gradient = plugrad.value_and_grad(linalg.det)(x, dy=[1.0, 1.0])
    np.testing.assert_array_equal(value.numpy(), [np.nan, 0.0])
    np.testing.assert_allclose(
        gradient.numpy(), [[[np.nan] * 2] * 2, [[4.0, -2.0], [-2.0, 1.0]]], rtol=1e-14
    )


def test_third_derivative_of_a_determinant():
    """The determinant of 3 by 3 matrices is linear in each row: its third derivative at 0 is a sign."""
    along = [np.diag(np.eye(3)[i]) for i in range(3)]

    def slope(f, direction):
        return lambda x: plugrad.sum(plugrad.grad(f)(x) * plugrad.asarray(direction))

    f = linalg.det
    for direction in along:
        f = slope(f, direction)
    for x in (np.zeros((3, 3)), np.ones((3, 3)), np.diag([2.0, 0.0, 0.0])):
        assert f(plugrad.asarray(x)).item() == pytest.approx(1.0)
    f = linalg.det
    for i in range(3):
        f = slope(f, np.diag(np.eye(5)[i]))
    for last in ([2.0, 3.0], [0.0, 3.0], [0.0, 0.0]):
        for first in ([4.0, 5.0, 7.0], [4.0, 5.0, 0.0], [4.0, 0.0, 0.0]):
            x = plugrad.asarray(np.diag(first + last))
            if np.count_nonzero(first + last) >= 3:  # with more zeros, the third one is lost
                assert f(x).item() == pytest.approx(np.prod(last), abs=1e-12)


def projection(x):
    vectors = linalg.eigh(x + x.mT).eigenvectors[:, -2:]
    return vectors @ vectors.mT


def polar_factor(x):
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ vh


def first_term(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u[:, :1] * s[:1].astype(x.dtype) @ vh[:1]


def product(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u * s.astype(x.dtype) @ vh


def pinv_of_large(x):
    return linalg.pinv(x, rtol=0.1)


TURNED = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
FOUND = [
    (lambda x: plugrad.sum(linalg.eigvalsh(x + x.mT)), np.eye(3)),
    (lambda x: plugrad.sum(plugrad.exp(linalg.eigvalsh(x + x.mT))), np.eye(3)),
    (lambda x: plugrad.sum(plugrad.exp(linalg.eigvalsh(x + x.mT))), TURNED * [2, 2, 1] @ TURNED.T),
    (lambda x: plugrad.sum(linalg.svdvals(x)), TURNED),
    (lambda x: plugrad.sum(linalg.svdvals(x) ** 2), np.zeros((3, 2))),
    (lambda x: linalg.matrix_norm(x, ord="nuc"), np.eye(4)[:, :2]),
    (projection, np.diag([1.0, 2.0, 2.0])),
    (projection, np.diag([1.0, 1.0, 2.0, 2.0])),
    (polar_factor, np.eye(3)),
    (polar_factor, np.eye(3) + 0j),
    (polar_factor, TURNED),
    (polar_factor, np.eye(4)[:, :2]),
    (first_term, np.ones((3, 3))),
    (first_term, np.diag([3.0, 1.0, 1.0])),
    (first_term, np.diag([3.0, 0.0, 0.0])),
    (product, np.diag([3.0, 2.0, 0.0])),
    (linalg.pinv, np.eye(3)),
    (linalg.pinv, TURNED * 2),
    (linalg.pinv, np.eye(4)[:2]),
    (linalg.pinv, np.eye(4)[:, :2] + 0j),
    (linalg.pinv, np.stack([np.eye(2), np.diag([3.0, 1.0])])),
    (pinv_of_large, np.ones((3, 3))),
    (pinv_of_large, np.ones((4, 2))),
    (pinv_of_large, np.diag([2.0, 2.0, 0.0, 0.0])),
    (pinv_of_large, np.diag([1.0, 1.0, 0.05])),
]


@pytest.mark.parametrize("x", [np.eye(3), TURNED * 2, TURNED * [2, 2, 1] @ TURNED.T])
def test_pinv_of_matrices_with_an_inverse_has_its_derivatives(x):
    check_gradient(linalg.pinv, x)


@pytest.mark.parametrize(("function", "x"), FOUND, ids=lambda x: "")
def test_first_derivatives_at_equal_values(function, x):
    check_gradient(function, x, order=1)


@pytest.mark.parametrize("x", [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0] * 3] * 2])
def test_first_derivatives_at_singular_values_of_zero(x):
    """There is a kink, like that of abs, whose central differences are 0."""
    check_gradient(lambda x: linalg.matrix_norm(x, ord="nuc"), x, order=1, eps=1e-6, rtol=1e-5)


def test_second_derivatives_at_equal_values_that_do_not_depend_on_them():
    total = lambda x: plugrad.sum(linalg.eigvalsh(x + x.mT))  # noqa: E731
    assert not plugrad.hessian(total)(np.eye(2)).numpy().any()
    nuclear = plugrad.hessian(lambda x: linalg.matrix_norm(x, ord="nuc"))(np.eye(2)).numpy()
    antisymmetric = np.array([0.0, 1.0, -1.0, 0.0])
    np.testing.assert_allclose(
        nuclear.reshape(4, 4), np.outer(antisymmetric, antisymmetric) / 2, atol=1e-15
    )


def test_singular_value_of_zero_has_gradient_zero(backend):
    total = plugrad.grad(lambda x: plugrad.sum(linalg.svdvals(x)))
    assert total(plugrad.zeros((2, 3))).tolist() == [[0.0] * 3] * 2
    np.testing.assert_allclose(total(plugrad.ones((2, 3))).numpy(), 1 / np.sqrt(6), rtol=1e-6)


def eigenvectors_of(x):
    return linalg.eigh(x).eigenvectors


def logarithm(x):
    """Return the logarithm of symmetric matrices, whose factors vanish at the unit matrix."""
    values, vectors = linalg.eigh(x)
    return vectors * plugrad.log(values) @ vectors.mT


def left_by_right(x):
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ plugrad.asarray([[1.0, 2.0], [0.0, 1.0]]) @ vh


NOT_DETERMINED = [
    (eigenvectors_of, np.eye(2)),
    (logarithm, np.eye(2)),
    (product, np.eye(2)),
    (product, np.zeros((2, 2))),
    (product, np.diag([1.0, 0.0]) + 0j),
    (product, np.ones((3, 2))),
    (polar_factor, np.zeros((2, 2))),
    (polar_factor, np.ones((3, 2))),
    (polar_factor, np.ones((2, 3))),
    (left_by_right, np.eye(2)),
    (lambda x: plugrad.log(linalg.svdvals(x)), np.zeros((2, 2))),
    (lambda x: linalg.slogdet(x).logabsdet, np.ones((2, 2))),
    (lambda x: linalg.slogdet(x).sign * 1, np.zeros((2, 2)) + 0j),
    (lambda x: linalg.qr(x).Q, np.ones((2, 2))),
    (lambda x: linalg.qr(x).R, np.zeros((2, 3))),
]


def weighted(function):
    """Return the sum of a function's elements, each with another weight."""

    def total(x):
        y = function(x)
        weights = plugrad.reshape(plugrad.arange(1.0, y.size + 1) ** 2, y.shape)
        return plugrad.sum(y * weights.astype(y.dtype))

    return total


def best_dtype(x, backend):
    dtype = "complex64" if np.iscomplexobj(x) else "float32"
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    return dtype


@pytest.mark.parametrize(("function", "x"), NOT_DETERMINED)
def test_gradients_that_are_not_determined_are_nan(function, x, backend):
    """Those of the other matrices of a batch are what they are."""
    dtype = best_dtype(x, backend)
    gradient = plugrad.grad(weighted(function))
    assert np.isnan(gradient(plugrad.asarray(x.astype(dtype))).numpy()).any()
    if function is logarithm:  # of matrices, whose columns it weights
        return
    other = (
        np.diag([1.0, 2.0])
        if x.shape[0] == x.shape[1]
        else np.eye(*x.shape) * [1, 2, 3][: x.shape[1]]
    )
    batch = plugrad.asarray(np.stack([other, x]).astype(dtype))
    found = plugrad.grad(lambda b: weighted(function)(b[0]) + weighted(function)(b[1]))(batch)
    assert np.isfinite(found[0].numpy()).all()
    assert np.isnan(found[1].numpy()).any()


@pytest.mark.parametrize(
    ("function", "x"), [*NOT_DETERMINED[:10], *NOT_DETERMINED[-2:]]
)  # the others take logarithms of 0
def test_the_finite_check_finds_gradients_that_are_not_determined(function, x):
    with (
        plugrad.config.override("check_finite", True),
        pytest.raises(NotFinite, match="RealDiv"),
    ):
        plugrad.grad(weighted(function))(plugrad.asarray(x))


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (linalg.inv, np.ones((2, 2)), "MatrixInverse: .* singular .*pinv"),
        (lambda x: linalg.solve(x, x), np.ones((2, 2)), "MatrixSolve: .* singular .*pinv"),
        (linalg.cholesky, np.ones((2, 2)), r"Cholesky: .* not positive definite; .*eye\(2\)"),
    ],
)
def test_matrices_without_a_result_are_refused(function, x, message, backend):
    with pytest.raises(ArgumentValueError, match=message):
        plugrad.grad(weighted(function))(plugrad.asarray(x.astype("float32")))


def test_second_derivatives_that_depend_on_equal_values_are_nan():
    squares = lambda x: plugrad.sum(linalg.eigvalsh(x + x.mT) ** 3)  # noqa: E731
    assert np.isnan(plugrad.hessian(squares)(np.eye(2)).numpy()).any()
    inverse = plugrad.hessian(lambda x: linalg.pinv(x)[0, 1])(np.eye(3)[:2])
    assert np.isnan(inverse.numpy()).any()


def test_singular_matrices_that_the_result_does_not_use_have_gradient_zero(backend):
    x = plugrad.asarray([[[3.0, 0.0], [0.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    is_singular = linalg.det(x) == 0

    def logarithms(x):
        return plugrad.where(is_singular, 0, linalg.slogdet(x).logabsdet)

    def triangles(x):
        return plugrad.where(is_singular[:, None, None], 0, linalg.qr(x).R)

    for function in (logarithms, triangles):
        gradient = plugrad.grad(lambda x, f=function: plugrad.sum(f(x)))(x).numpy()
        assert np.isfinite(gradient).all()
        assert gradient[0].any()
        assert not gradient[1].any()


def test_slices_of_vectors_of_different_values_have_a_gradient():
    """Equal values elsewhere do not matter."""

    def first(x):
        values, vectors = linalg.eigh(x + x.mT)
        return values[0] * linalg.outer(vectors[:, 0], vectors[:, 0])

    check_gradient(first, np.diag([1.0, 2.0, 2.0]), order=1)


def test_values_that_are_not_finite_are_no_warning():
    x = plugrad.asarray([[np.nan, 1.0], [1.0, 1.0]], device="cpu")
    assert np.isnan(linalg.det(x).item())
    assert np.isnan(linalg.slogdet(x).logabsdet.item())
    with pytest.raises(ArgumentValueError, match="singular or not finite"):
        linalg.inv(x)


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

OBLONG = plugrad.ones((2, 3), device="cpu")
REFUSALS = [
    *(
        Refusal(lambda f=f: f(OBLONG), ShapeError, ["(2, 3)", "square"])
        for f in (linalg.inv, linalg.det, linalg.cholesky, linalg.eigh, linalg.slogdet)
    ),
    Refusal(lambda: linalg.solve(OBLONG, OBLONG), ShapeError, ["MatrixSolve", "(2, 3)", "square"]),
    Refusal(
        lambda: linalg.solve(plugrad.ones((2, 2)), plugrad.ones(3)),
        ShapeError,
        ["(3, 1)", "2 rows"],
    ),
    Refusal(lambda: linalg.qr(plugrad.ones(3)), ShapeError, ["Qr", "(3,)", "two axes"]),
    Refusal(lambda: linalg.svd(plugrad.ones(3)), ShapeError, ["Svd", "(3,)"]),
    Refusal(lambda: linalg.inv(plugrad.zeros((2, 2))), ArgumentValueError, ["singular"]),
    Refusal(
        lambda: linalg.cholesky(-plugrad.ones((1, 1))),
        ArgumentValueError,
        ["not positive definite"],
    ),
    Refusal(
        lambda: linalg.qr(OBLONG, mode="half"), ArgumentValueError, ["mode='half'", "'reduced'"]
    ),
    Refusal(
        lambda: linalg.inv(plugrad.ones((2, 2)).astype("float16")), DTypeError, ["inv", "float16"]
    ),
    Refusal(lambda: linalg.gram_schmidt(plugrad.ones((3, 2))), ShapeError, ["(3, 2)", "vectors"]),
    Refusal(lambda: linalg.gram_schmidt([]), ShapeError, ["gram_schmidt"]),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal):
    refusal.check()
