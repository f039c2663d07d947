"""vectorize: NumPy's decorator decides."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError

RNG = np.random.default_rng(0)


def random_tensors(*shapes):
    return [plugrad.asarray(RNG.normal(size=shape)) for shape in shapes]


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((4, 3), (3,)),
        ((4, 1, 3), (5, 3)),
        ((1, 3), (1, 3)),
        ((2, 1, 1, 3), (4, 5, 3)),
        ((0, 3), (1, 3)),
    ],
)
def test_axes_are_broadcast_as_in_numpy(shapes):
    a, b = random_tensors(*shapes)

    def pair(xp, x, y):
        return xp.sum(x * y), x[:2] - xp.sum(y)

    signature = "(n),(n)->(),(m)"
    found = plugrad.vectorize(lambda x, y: pair(plugrad, x, y), signature=signature)(a, b)
    if 0 in shapes[0]:
        assert [y.shape for y in found] == [(0,), (0, 2)]
        return
    expected = np.vectorize(lambda x, y: pair(np, x, y), signature=signature)(a.numpy(), b.numpy())
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y.numpy(), z, rtol=1e-12)


def test_vectorize_without_a_signature():
    a, b = random_tensors((4, 1), (3,))

    @plugrad.vectorize
    def f(x, y):
        """Choose."""
        assert x.shape == y.shape == ()
        return plugrad.where(x > y, x, y * 2), x + 1

    larger, more = f(a, b)
    x, y = a.numpy(), b.numpy()
    np.testing.assert_allclose(larger.numpy(), np.where(x > y, x, y * 2))
    np.testing.assert_allclose(more.numpy(), np.broadcast_to(x + 1, (4, 3)))
    assert f.__doc__ == "Choose."
    assert f(2.0, 1)[0].item() == 2.0


def test_arguments_that_are_excluded_and_sizes_in_the_signature():
    (points,) = random_tensors((6, 2, 3))
    f = plugrad.vectorize(lambda p, name, x: x @ p[name], signature="(3)->(k)", excluded={0, 1})
    matrix = random_tensors((3, 4))[0]
    found = f({"w": matrix}, "w", points)
    np.testing.assert_allclose(found.numpy(), points.numpy() @ matrix.numpy())


def test_gradients_and_jit():
    a, b = random_tensors((4, 1, 3), (5, 3))
    f = plugrad.vectorize(lambda x, y: plugrad.sum(plugrad.sin(x * y)), signature="(n),(n)->()")
    gradient = plugrad.grad(lambda a: plugrad.sum(f(a, b)))(a)
    expected = (np.cos(a.numpy() * b.numpy()) * b.numpy()).sum(1, keepdims=True)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(plugrad.jit(f)(a, b).numpy(), f(a, b).numpy(), rtol=1e-12)


@pytest.mark.parametrize("signature", ["", "n->m", "(n)", "(n)->", "(n),->(n)", "(n m)->()(", 3])
def test_malformed_signatures_are_rejected(signature):
    with pytest.raises(ArgumentValueError, match="must name the axes of arguments and results"):
        plugrad.vectorize(plugrad.sin, signature=signature)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x: f(x), ArgumentError, "is for 2 arguments; the call has 1"),
        (lambda f, x: f(x[0, 0], x), ShapeError, r"argument 0 has shape \(\); the signature names"),
        (lambda f, x: f(x, x[:, :2]), ShapeError, "axis n of argument 1.*size 2; .*it has 3"),
        (lambda f, x: f(x, x[:3]), ShapeError, "broadcast"),
        (lambda f, x: f(3.0, plugrad.vectorize), ArgumentError, "argument 1"),
    ],
)
def test_invalid_calls_are_rejected(call, error, message):
    f = plugrad.vectorize(lambda x, y: plugrad.sum(x * y), signature="(n),(n)->()")
    with pytest.raises(error, match=message):
        call(f, random_tensors((4, 3))[0])


def test_invalid_results_are_rejected():
    x = random_tensors((4, 3))[0]
    with pytest.raises(ShapeError, match=r"result 0 has shape \(3,\).*the signature says \(\)"):
        plugrad.vectorize(lambda x: x, signature="(n)->()")(x)
    with pytest.raises(ArgumentError, match=r"returned 2 results; the signature .* has 1"):
        plugrad.vectorize(lambda x: (x, x), signature="(n)->(n)")(x)
    with pytest.raises(ArgumentError, match="vectorize"):
        plugrad.vectorize(3)


def test_excluded_may_be_a_range_however_long():
    assert plugrad.vectorize(lambda x: x.ndim, excluded=range(2**60))(plugrad.ones(3)) == 1


@pytest.mark.parametrize("excluded", [1.5, [None], [object()], "a"])
def test_excluded_must_be_positions(excluded):
    with pytest.raises(ArgumentError, match="positions of arguments"):
        plugrad.vectorize(plugrad.exp, excluded=excluded)
