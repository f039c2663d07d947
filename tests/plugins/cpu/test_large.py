"""Kernels that take another way for large tensors, exponents or integers give the same there."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import kernels

SIZE = 5003  # odd, and above the size from which elements are chosen by their bits
FLOATS = ["float16", "float32", "float64"]


def on_cpu(kernel, *inputs, **attrs):
    """Return what a kernel gives on the cpu backend, as an array."""
    with plugrad.use("cpu"):
        return kernel(*map(plugrad.asarray, inputs), **attrs).numpy()


@pytest.mark.parametrize(
    "dtype", [*FLOATS, "complex64", "complex128", "int8", "uint16", "int32", "uint64", "bool"]
)
def test_select_copies_bits(dtype, rng):
    t, e = (rng.integers(0, 256, SIZE * 16, np.uint8).view(dtype)[:SIZE] for _ in range(2))
    if dtype == "bool":
        t, e = (rng.random(SIZE) < 0.5 for _ in range(2))
    condition = rng.random(SIZE) < 0.5
    expected = np.where(condition, t, e)
    found = on_cpu(kernels.binary.select, condition, t, e)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_select_broadcasts(rng):
    condition, e = rng.random((SIZE, 1)) < 0.5, rng.normal(size=3)
    found = on_cpu(kernels.binary.select, condition, np.float64(np.nan), e)
    np.testing.assert_array_equal(found, np.where(condition, np.nan, e))


@pytest.mark.parametrize("alpha", [0, 0.25, 1, -2, 3.5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_leaky_relu_and_its_step(dtype, alpha, rng):
    x = rng.normal(size=SIZE).astype(dtype)
    x[:5] = [np.nan, np.inf, 0, -0.0, -1]
    slope = np.where(x > 0, np.ones_like(x), np.asarray(alpha, dtype))
    step = on_cpu(kernels.unary.step, x, alpha=alpha)
    np.testing.assert_array_equal(step, np.where(np.isnan(x), x, slope))
    assert step.dtype == dtype
    np.testing.assert_array_equal(
        on_cpu(kernels.activation.leaky_relu, x, alpha=alpha), np.where(x > 0, x, x * slope)
    )


@pytest.mark.parametrize("length", [32, 33, 34, 1000, 1023])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_products_of_rows(dtype, length, rng):
    x = (
        rng.uniform(0.97, 1.03, (4, length))
        if dtype != "int32"
        else rng.integers(1, 9, (4, length))
    )
    x = x.astype(dtype)
    found = on_cpu(kernels.reduction.prod, x, axis=(1,), keep_dims=False)
    expected = np.prod(x.astype("int64" if dtype == "int32" else "float64"), axis=1).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("exponent", [2, 3, 4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_small_powers(dtype, exponent, rng):
    x = np.concatenate([rng.normal(size=99), [0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    found = on_cpu(kernels.binary.power, x, np.asarray(exponent, dtype))
    np.testing.assert_allclose(
        found, np.power(x.astype("float64"), exponent), rtol=4 * np.finfo(dtype).eps, atol=1e-7
    )
    assert found.dtype == dtype


@pytest.mark.parametrize("least", [-50, -(2**31)], ids=["exact in float64", "wraps around"])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_products_of_integer_matrices(least, transpose_a, rng):
    a, b = (rng.integers(least, -least, (2, 40, 40), dtype=np.int32) for _ in range(2))
    found = on_cpu(kernels.linalg.matmul, a, b, transpose_a=transpose_a, transpose_b=False)
    expected = (a.swapaxes(1, 2) if transpose_a else a).astype(object) @ b.astype(object)
    wrapped = (expected + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(found, wrapped.astype(np.int32))


def test_a_long_segment_is_summed_in_double_precision():
    x = np.full((100_000, 1), 0.1, np.float32)
    ids = np.zeros(100_000, np.int32)
    ids[::2] = -1  # ignored, as is the next
    ids[1] = 1
    found = on_cpu(kernels.indexing.unsorted_segment_sum, x, ids, num_segments=1)
    np.testing.assert_array_equal(found, np.float32(49_999 * np.float64(np.float32(0.1))))


def test_erf_in_double_precision():
    x = np.concatenate([np.linspace(-7, 7, 20_001), np.logspace(-300, 0, 301)])
    expected = np.array([math.erf(value) for value in x])
    np.testing.assert_array_max_ulp(on_cpu(kernels.unary.erf, x), expected, 4)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
    found = on_cpu(kernels.unary.erf, special)
    np.testing.assert_array_equal(found, [1, -1, np.nan, 0, 0])
    assert np.signbit(found[-1])
