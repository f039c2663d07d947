"""Derivatives of factorizations at singular matrices and at equal eigenvalues or singular values."""

import numpy as np
import pytest

import plugrad
from plugrad import linalg
from plugrad.errors import ArgumentValueError, NotFinite
from plugrad.testing import check_gradient


def random_matrix_of_rank(rng, n, rank, dtype="float64"):
    """Return a random n by n matrix of a rank."""
    a, b = rng.normal(size=(2, n, rank))
    if dtype == "complex128":
        a, b = a + 1j * b, b - 2j * a
    return (a @ b.T).astype(dtype)


def reference_cofactors(x):
    """Return the cofactors by definition, one minor at a time."""
    found = np.zeros(x.shape, x.dtype)
    for i, j in np.ndindex(x.shape):
        minor = np.delete(np.delete(x, i, 0), j, 1)
        found[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return found


def det_plus_sum(x):
    """Return the determinant plus a sum, so that derivatives are nonzero where those of the determinant vanish."""
    return linalg.det(x) + plugrad.sum(x)


SIZES_AND_RANKS = [(n, rank) for n in range(1, 6) for rank in range(n + 1)]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("n", "rank"), SIZES_AND_RANKS)
def test_determinants_have_two_derivatives_at_every_rank(n, rank, dtype, rng):
    x = random_matrix_of_rank(rng, n, rank, dtype)
    check_gradient(det_plus_sum, x)
    scale = max(1, np.abs(x).max()) ** (n - 1)
    actual = plugrad.grad(lambda x: plugrad.real(linalg.det(x)))(x).numpy()
    np.testing.assert_allclose(
        np.conj(actual), reference_cofactors(x), rtol=1e-10, atol=1e-12 * scale
    )


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
    expected = reference_cofactors(np.array(x))
    np.testing.assert_allclose(
        gradient.numpy(), expected, rtol=2e-5, atol=1e-5 * np.abs(expected).max()
    )


def test_gradients_of_determinants_of_several_ranks_at_once(rng, backend):
    x = np.stack([random_matrix_of_rank(rng, 4, rank) for rank in (4, 2, 3, 0, 1, 4)]).reshape(
        2, 3, 4, 4
    )
    single = x.astype("float32")
    gradient = plugrad.grad(lambda x: linalg.det(x).sum())(single).numpy()
    expected = np.stack([reference_cofactors(m) for m in x.reshape(6, 4, 4)]).reshape(x.shape)
    np.testing.assert_allclose(gradient, expected, atol=1e-4 * np.abs(expected).max())
    if backend == "cpu":
        check_gradient(det_plus_sum, x)


def test_gradients_of_determinants_of_empty_matrices(backend):
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
    """The determinant of a 3 by 3 matrix is linear in each row, so its third derivative at 0 is 1, -1 or 0."""
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


def rank_one_approximation(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u[:, :1] * s[:1].astype(x.dtype) @ vh[:1]


def product_of_singular_vectors(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u * s.astype(x.dtype) @ vh


def pinv_with_large_rtol(x):
    return linalg.pinv(x, rtol=0.1)


ORTHOGONAL_MATRIX = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
FUNCTIONS_WITH_GRADIENT = [
    (lambda x: plugrad.sum(linalg.eigvalsh(x + x.mT)), np.eye(3)),
    (lambda x: plugrad.sum(plugrad.exp(linalg.eigvalsh(x + x.mT))), np.eye(3)),
    (
        lambda x: plugrad.sum(plugrad.exp(linalg.eigvalsh(x + x.mT))),
        ORTHOGONAL_MATRIX * [2, 2, 1] @ ORTHOGONAL_MATRIX.T,
    ),
    (lambda x: plugrad.sum(linalg.svdvals(x)), ORTHOGONAL_MATRIX),
    (lambda x: plugrad.sum(linalg.svdvals(x) ** 2), np.zeros((3, 2))),
    (lambda x: linalg.matrix_norm(x, ord="nuc"), np.eye(4)[:, :2]),
    (projection, np.diag([1.0, 2.0, 2.0])),
    (projection, np.diag([1.0, 1.0, 2.0, 2.0])),
    (polar_factor, np.eye(3)),
    (polar_factor, np.eye(3) + 0j),
    (polar_factor, ORTHOGONAL_MATRIX),
    (polar_factor, np.eye(4)[:, :2]),
    (rank_one_approximation, np.ones((3, 3))),
    (rank_one_approximation, np.diag([3.0, 1.0, 1.0])),
    (rank_one_approximation, np.diag([3.0, 0.0, 0.0])),
    (product_of_singular_vectors, np.diag([3.0, 2.0, 0.0])),
    (linalg.pinv, np.eye(3)),
    (linalg.pinv, ORTHOGONAL_MATRIX * 2),
    (linalg.pinv, np.eye(4)[:2]),
    (linalg.pinv, np.eye(4)[:, :2] + 0j),
    (linalg.pinv, np.stack([np.eye(2), np.diag([3.0, 1.0])])),
    (pinv_with_large_rtol, np.ones((3, 3))),
    (pinv_with_large_rtol, np.ones((4, 2))),
    (pinv_with_large_rtol, np.diag([2.0, 2.0, 0.0, 0.0])),
    (pinv_with_large_rtol, np.diag([1.0, 1.0, 0.05])),
]


@pytest.mark.parametrize(
    "x", [np.eye(3), ORTHOGONAL_MATRIX * 2, ORTHOGONAL_MATRIX * [2, 2, 1] @ ORTHOGONAL_MATRIX.T]
)
def test_pinv_of_matrices_with_an_inverse_has_its_derivatives(x):
    check_gradient(linalg.pinv, x)


@pytest.mark.parametrize(("function", "x"), FUNCTIONS_WITH_GRADIENT, ids=lambda x: "")
def test_first_derivatives_at_equal_values(function, x):
    check_gradient(function, x, order=1)


@pytest.mark.parametrize("x", [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0] * 3] * 2])
def test_first_derivatives_at_singular_values_of_zero(x):
    """The function has a kink like that of abs, at which central differences are 0."""
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


def symmetric_logarithm(x):
    """Return the logarithm of a symmetric matrix; its eigenvalues vanish at the identity."""
    values, vectors = linalg.eigh(x)
    return vectors * plugrad.log(values) @ vectors.mT


def mixed_singular_vectors(x):
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ plugrad.asarray([[1.0, 2.0], [0.0, 1.0]]) @ vh


FUNCTIONS_WITHOUT_GRADIENT = [
    (eigenvectors_of, np.eye(2)),
    (symmetric_logarithm, np.eye(2)),
    (product_of_singular_vectors, np.eye(2)),
    (product_of_singular_vectors, np.zeros((2, 2))),
    (product_of_singular_vectors, np.diag([1.0, 0.0]) + 0j),
    (product_of_singular_vectors, np.ones((3, 2))),
    (polar_factor, np.zeros((2, 2))),
    (polar_factor, np.ones((3, 2))),
    (polar_factor, np.ones((2, 3))),
    (mixed_singular_vectors, np.eye(2)),
    (lambda x: plugrad.log(linalg.svdvals(x)), np.zeros((2, 2))),
    (lambda x: linalg.slogdet(x).logabsdet, np.ones((2, 2))),
    (lambda x: linalg.slogdet(x).sign * 1, np.zeros((2, 2)) + 0j),
    (lambda x: linalg.qr(x).Q, np.ones((2, 2))),
    (lambda x: linalg.qr(x).R, np.zeros((2, 3))),
]


def weighted_sum_of(function):
    """Return a function that computes a sum of another function's elements, each with another weight."""

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


@pytest.mark.parametrize(("function", "x"), FUNCTIONS_WITHOUT_GRADIENT)
def test_gradients_that_are_not_determined_are_nan(function, x, backend):
    """The gradients of the other matrices of a batch are not affected."""
    dtype = best_dtype(x, backend)
    gradient = plugrad.grad(weighted_sum_of(function))
    assert np.isnan(gradient(plugrad.asarray(x.astype(dtype))).numpy()).any()
    if function is symmetric_logarithm:  # of matrices, whose columns it weights
        return
    other = (
        np.diag([1.0, 2.0])
        if x.shape[0] == x.shape[1]
        else np.eye(*x.shape) * [1, 2, 3][: x.shape[1]]
    )
    batch = plugrad.asarray(np.stack([other, x]).astype(dtype))
    found = plugrad.grad(
        lambda b: weighted_sum_of(function)(b[0]) + weighted_sum_of(function)(b[1])
    )(batch)
    assert np.isfinite(found[0].numpy()).all()
    assert np.isnan(found[1].numpy()).any()


@pytest.mark.parametrize(
    ("function", "x"), [*FUNCTIONS_WITHOUT_GRADIENT[:10], *FUNCTIONS_WITHOUT_GRADIENT[-2:]]
)  # the others take logarithms of 0
def test_the_finite_check_finds_gradients_that_are_not_determined(function, x):
    with (
        plugrad.config.override("check_finite", True),
        pytest.raises(NotFinite, match="RealDiv"),
    ):
        plugrad.grad(weighted_sum_of(function))(plugrad.asarray(x))


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
        plugrad.grad(weighted_sum_of(function))(plugrad.asarray(x.astype("float32")))


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
    """Equal eigenvalues outside of the slice do not matter."""

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
