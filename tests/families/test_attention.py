"""Averages of values, weighted by how well keys match queries."""

import tracemalloc

import numpy as np
import pytest

import plugrad
from families.case import Case, Refusal
from families.domains import uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError

F = np.ones((2, 3), "f")


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(q, k, v, mask=0):
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask) @ v


def test_batches_and_dtypes_are_those_of_all_operands(backend, rng):
    shapes = [(3, 1, 4, 2), (5, 6, 2), (1, 1, 6, 3), (5, 1, 6)]
    Case(plugrad.attention, attended, [uniform(-1, 1)] * 4, shapes).check_values(rng)
    q, k, v = (rng.integers(-2, 3, (4, 4)) for _ in range(3))
    y = plugrad.attention(*(x.astype("int32") for x in (q, k, v)), [True, True, False, True])
    assert y.dtype == "float32"
    expected = attended(q, k, v, [0, 0, -np.inf, 0])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_mask_of_bools_stops_gradients(backend, rng):
    """A key that no query uses gets none, and a query without keys gives and gets none."""
    q, k, v = (plugrad.asarray(rng.normal(size=(3, 2)).astype("f")) for _ in range(3))
    mask = [[True, False, True], [False, False, False], [True, False, False]]
    y = plugrad.attention(q, k, v, mask)
    np.testing.assert_array_equal(y[1].numpy(), 0)
    np.testing.assert_allclose(y[2].numpy(), v[0].numpy(), rtol=1e-6)
    found = plugrad.grad(lambda *x: plugrad.sum(plugrad.attention(*x, mask)), (0, 1, 2))(q, k, v)
    for gradient, row in zip(found, [1, 1, 1], strict=True):
        np.testing.assert_array_equal(gradient[row].numpy(), 0)
        assert np.isfinite(gradient.numpy()).all()


def test_the_weights_of_many_queries_never_exist_at_once(rng):
    """The kernel and its gradient allocate much less than the matrix of weights, which has 16 MiB."""
    x = plugrad.asarray(rng.normal(size=(2048, 2)).astype("f"), device="cpu")
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.attention(x, x, x)))
    tracemalloc.start()  # NumPy reports its arrays
    try:
        gradient(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20


REFUSALS = [
    Refusal(lambda: plugrad.attention(F[0], F, F), ShapeError, ["attention", "q", "two axes"]),
    Refusal(
        lambda: plugrad.attention(F, F[:, :2], F), ShapeError, ["(2, 3)", "(2, 2)", "last axes"]
    ),
    Refusal(lambda: plugrad.attention(F, F, F[:1]), ShapeError, ["k", "v", "rows"]),
    Refusal(lambda: plugrad.attention(F, F, F, F), ShapeError, ["mask", "(2, 3)", "(2, 2)"]),
    Refusal(lambda: plugrad.attention(F, F, ["a", "b"]), DTypeError, ["attention (v)", "string"]),
    Refusal(
        lambda: plugrad.attention(F, F, F, scale=np.nan), ArgumentValueError, ["scale", "finite"]
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
