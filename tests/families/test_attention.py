"""Attention: averages of values, weighted by how well keys match queries."""

import tracemalloc

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError

MATRIX = np.ones((2, 3), "f")


def reference_softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference_attention(q, k, v, mask=0):
    return reference_softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask) @ v


def test_batches_and_dtypes_are_those_of_all_operands(backend, rng):
    shapes = [(3, 1, 4, 2), (5, 6, 2), (1, 1, 6, 3), (5, 1, 6)]
    Case(plugrad.attention, reference_attention, [uniform(-1, 1)] * 4, shapes).check_values(rng)
    q, k, v = (rng.integers(-2, 3, (4, 4)) for _ in range(3))
    y = plugrad.attention(*(x.astype("int32") for x in (q, k, v)), [True, True, False, True])
    assert y.dtype == "float32"
    expected = reference_attention(q, k, v, [0, 0, -np.inf, 0])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_mask_of_bools_stops_gradients(backend, rng):
    """A key that no query attends to has no gradient, nor has a query without keys."""
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
    """The kernel and its gradient allocate much less than the whole matrix of weights, which has 16 MiB."""
    x = plugrad.asarray(rng.normal(size=(2048, 2)).astype("f"), device="cpu")
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.attention(x, x, x)))
    tracemalloc.start()  # NumPy reports its arrays
    try:
        gradient(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.attention(MATRIX[0], MATRIX, MATRIX),
        ShapeError,
        ["attention", "q", "two axes"],
    ),
    ErrorCase(
        lambda: plugrad.attention(MATRIX, MATRIX[:, :2], MATRIX),
        ShapeError,
        ["(2, 3)", "(2, 2)", "last axes"],
    ),
    ErrorCase(
        lambda: plugrad.attention(MATRIX, MATRIX, MATRIX[:1]), ShapeError, ["k", "v", "rows"]
    ),
    ErrorCase(
        lambda: plugrad.attention(MATRIX, MATRIX, MATRIX, MATRIX),
        ShapeError,
        ["mask", "(2, 3)", "(2, 2)"],
    ),
    ErrorCase(
        lambda: plugrad.attention(MATRIX, MATRIX, ["a", "b"]),
        DTypeError,
        ["attention (v)", "string"],
    ),
    ErrorCase(
        lambda: plugrad.attention(MATRIX, MATRIX, MATRIX, scale=np.nan),
        ArgumentValueError,
        ["scale", "finite"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_number_as_mask_takes_the_dtype_of_tensors(dtype, backend):
    if plugrad.as_dtype(dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    x = plugrad.asarray([[1.0, 2.0], [4.0, 8.0]], dtype=dtype)
    for mask in (0.1, 1, True):
        found = plugrad.attention(x, x, x, mask)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.astype("float32").numpy(),
            plugrad.attention(x, x, x).astype("float32").numpy(),
            rtol=1e-2,
        )
