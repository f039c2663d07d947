"""Kernels with another algorithm for large tensors, exponents or integers give the same results."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import kernels
from plugrad_cpu.kernels import movement

ARRAY_SIZE = 5003  # odd, and above the size from which elements are chosen by their bits
FLOAT_DTYPES = ["float16", "float32", "float64"]


def run_on_cpu(kernel, *inputs, **attrs):
    """Return the result of a kernel on the cpu backend, as an array."""
    with plugrad.use("cpu"):
        return kernel(*map(plugrad.asarray, inputs), **attrs).numpy()


@pytest.mark.parametrize(
    "dtype", [*FLOAT_DTYPES, "complex64", "complex128", "int8", "uint16", "int32", "uint64", "bool"]
)
def test_select_copies_bits(dtype, rng):
    t, e = (
        rng.integers(0, 256, ARRAY_SIZE * 16, np.uint8).view(dtype)[:ARRAY_SIZE] for _ in range(2)
    )
    if dtype == "bool":
        t, e = (rng.random(ARRAY_SIZE) < 0.5 for _ in range(2))
    condition = rng.random(ARRAY_SIZE) < 0.5
    for yes, no in ((t, e), (t[0], e), (t, e[:1]), (t[:1], e[1])):
        expected = np.where(condition, yes, no)
        found = run_on_cpu(kernels.binary.select, condition, yes, no)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_select_with_broadcast_operands(rng):
    condition, e = rng.random((ARRAY_SIZE, 1)) < 0.5, rng.normal(size=3)
    found = run_on_cpu(kernels.binary.select, condition, np.float64(np.nan), e)
    np.testing.assert_array_equal(found, np.where(condition, np.nan, e))


@pytest.mark.parametrize("alpha", [0, 0.25, 1, -2, 3.5])
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_leaky_relu_and_its_step(dtype, alpha, rng):
    x = rng.normal(size=ARRAY_SIZE).astype(dtype)
    x[:5] = [np.nan, np.inf, 0, -0.0, -1]
    slope = np.where(x > 0, np.ones_like(x), np.asarray(alpha, dtype))
    step = run_on_cpu(kernels.unary.step, x, alpha=alpha)
    np.testing.assert_array_equal(step, np.where(np.isnan(x), x, slope))
    assert step.dtype == dtype
    np.testing.assert_array_equal(
        run_on_cpu(kernels.activation.leaky_relu, x, alpha=alpha), np.where(x > 0, x, x * slope)
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
    found = run_on_cpu(kernels.reduction.prod, x, axis=(1,), keep_dims=False)
    expected = np.prod(x.astype("int64" if dtype == "int32" else "float64"), axis=1).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("exponent", [2, 3, 4, -1])
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_powers_with_small_integer_exponents(dtype, exponent, rng):
    x = np.concatenate([rng.normal(size=ARRAY_SIZE), [0, -0.0, np.inf, -np.inf, np.nan]]).astype(
        dtype
    )
    with np.errstate(all="ignore"):
        expected = np.power(x.astype("float64"), exponent).astype(dtype)
    for base, result in ((x, expected), (x[:9:-1], expected[:9:-1]), (x[-5:], expected[-5:])):
        found = run_on_cpu(kernels.binary.power, base, np.asarray(exponent, dtype))
        np.testing.assert_allclose(found, result, rtol=4 * np.finfo(dtype).eps, atol=1e-7)
        assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_rows_and_columns_are_repeated(name, dtype, rng):
    if name == "divide" and dtype == "int32":
        dtype = "float16"
    x = rng.uniform(1, 9, (3, 170, 210)).astype(dtype)
    shapes = (210,), (170, 1), (3, 1, 210), (3, 1, 1), (1, 1), (1, 170, 210)
    for y in (*(rng.uniform(1, 9, shape).astype(dtype) for shape in shapes), x[0, ::2, :1][:1]):
        for turned in (x, x[:, :, ::-1]):
            for a, b in ((turned, y), (y, turned)):
                found = run_on_cpu(getattr(kernels.binary, name), a, b)
                np.testing.assert_array_equal(found, getattr(np, name)(a, b))
                assert found.dtype == dtype


@pytest.mark.parametrize("least", [-50, -(2**31)], ids=["exact in float64", "wraps around"])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_products_of_integer_matrices(least, transpose_a, rng):
    a, b = (rng.integers(least, -least, (2, 40, 40), dtype=np.int32) for _ in range(2))
    found = run_on_cpu(kernels.linalg.matmul, a, b, transpose_a=transpose_a, transpose_b=False)
    expected = (a.swapaxes(1, 2) if transpose_a else a).astype(object) @ b.astype(object)
    wrapped = (expected + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(found, wrapped.astype(np.int32))


def test_a_long_segment_is_summed_in_double_precision():
    x = np.full((100_000, 1), 0.1, np.float32)
    ids = np.zeros(100_000, np.int32)
    ids[::2] = -1  # ignored, as is the next
    ids[1] = 1
    found = run_on_cpu(kernels.indexing.unsorted_segment_sum, x, ids, num_segments=1)
    np.testing.assert_array_equal(found, np.float32(49_999 * np.float64(np.float32(0.1))))


def test_erf_in_double_precision():
    x = np.concatenate([np.linspace(-7, 7, 20_001), np.logspace(-300, 0, 301)])
    expected = np.array([math.erf(value) for value in x])
    np.testing.assert_array_max_ulp(run_on_cpu(kernels.unary.erf, x), expected, 4)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
    found = run_on_cpu(kernels.unary.erf, special)
    np.testing.assert_array_equal(found, [1, -1, np.nan, 0, 0])
    assert np.signbit(found[-1])


SPECIAL_VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 7, -7, 0.1]


@pytest.mark.parametrize("quotient", [1, 1e4, 1e12])
@pytest.mark.parametrize("kernel", ["floor_divide", "remainder", "hypot", "log_add_exp"])
def test_binary_functions_match_numpy(kernel, quotient, rng):
    """NumPy's functions compute special values, and quotients that double precision cannot represent."""
    function = {"log_add_exp": np.logaddexp}.get(kernel) or getattr(np, kernel)
    a = (rng.normal(size=40_003) * quotient).astype("float32")
    b = rng.normal(size=40_003).astype("float32")
    a[20_000:20_144], b[20_000:20_144] = np.repeat(SPECIAL_VALUES, 12), np.tile(SPECIAL_VALUES, 12)
    b[30_000:30_100] = a[30_000:30_100] / np.arange(1, 101, dtype="float32")  # near whole quotients
    for x, y in ((a, b), (a, np.float32(-0.3)), (a.reshape(-1, 1), np.float32([[2.5]]))):
        with np.errstate(all="ignore"):
            expected = function(x, y)
        found = run_on_cpu(getattr(kernels.binary, kernel), x, y)
        assert found.dtype == np.float32
        if kernel == "log_add_exp":
            np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-7)
            continue
        # NumPy's quotients above 2**22 can be one too small.
        tolerance = 0 if kernel == "remainder" else 3e-7
        np.testing.assert_allclose(found, expected, rtol=tolerance)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("shape", [(40, 5000), (3, 70_001), (130_003,), (5000, 33), (2, 30, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_rows_are_as_exact_as_those_of_numpy(shape, dtype, rng):
    x = rng.uniform(0, 1, shape).astype(dtype)
    tolerance = 3e-6 if dtype == "float32" else 1e-14
    for axis in {(x.ndim - 1,), tuple(range(x.ndim)), tuple(range(1, x.ndim)) or (0,)}:
        expected = x.astype("longdouble").sum(axis, keepdims=True)
        found = run_on_cpu(kernels.reduction.sum, x, axis=axis, keep_dims=True)
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=tolerance)
    x.flat[-1] = np.inf
    assert (
        run_on_cpu(kernels.reduction.sum, x, axis=tuple(range(x.ndim)), keep_dims=False) == np.inf
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_products_of_all_elements(dtype, rng):
    x = rng.uniform(0.99, 1.01, 5003) if dtype[0] == "f" else rng.integers(1, 7, 5003)
    x = x.astype(dtype)
    found = run_on_cpu(kernels.reduction.prod, x, axis=(0,), keep_dims=True)
    expected = np.multiply.reduce(x, dtype=dtype, keepdims=True)
    assert found.shape == (1,)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype[0] == "f" else 0)


def test_positions_in_rows_may_be_negative_and_are_checked(rng):
    x = rng.normal(size=(70, 9, 3))
    places = rng.integers(-9, 9, (70, 40))
    found = run_on_cpu(kernels.indexing.gather, x, places, axis=1, batch_dims=1)
    np.testing.assert_array_equal(found, x[np.arange(70)[:, None], places])
    with pytest.raises(plugrad.errors.TensorIndexError, match="index 9 is out of range"):
        run_on_cpu(kernels.indexing.gather, x, np.full((70, 1), 9), axis=1, batch_dims=1)


@pytest.mark.parametrize("size", [(12, 20), (7, 9), (3, 5)])
@pytest.mark.parametrize("kernel", ["resize_bilinear", "resize_nearest_neighbor"])
def test_gradients_of_resizing_keep_infinities_apart(kernel, size, rng):
    """An infinity in one image affects neither the gradient of another image nor that of distant pixels."""
    x, dy = rng.normal(size=(2, 6, 10, 3)), rng.normal(size=(2, *size, 3))
    options = {"size": size, "align_corners": False, "half_pixel_centers": False}
    gradient = getattr(kernels.resize, f"{kernel}_gradient")
    finite = run_on_cpu(gradient, x, dy, **options)
    forward = run_on_cpu(getattr(kernels.resize, kernel), x, **options)
    np.testing.assert_allclose(
        (forward * dy).sum(), (x * finite).sum(), rtol=1e-12
    )  # the transpose
    dy[0, 0, 0, 0] = np.inf
    found = run_on_cpu(gradient, x, dy, **options)
    assert found[0, 0, 0, 0] == np.inf
    np.testing.assert_allclose(found[1], finite[1], rtol=1e-12)
    np.testing.assert_allclose(found[0, 3:, 5:], finite[0, 3:, 5:], rtol=1e-12)


def test_one_hot_of_positions_out_of_range(rng):
    places = rng.integers(-3, 9, (40, 5)).astype("int8")
    found = run_on_cpu(
        kernels.indexing.one_hot, places, depth=6, on_value=2, off_value=-1, dtype=plugrad.int32
    )
    np.testing.assert_array_equal(found, np.where(places[..., None] == np.arange(6), 2, -1))


@pytest.mark.parametrize(
    ("parts", "is_view"),
    [
        (lambda x: [x[:, :3], x[:, 3:7], x[:, 7:]], True),
        (lambda x: [x[:, :-3][:, ::-1], x[:, :1]], False),
        (lambda x: [x[:, 4:][:, ::-1], x[:, :4][:, ::-1]], True),
        (lambda x: [x[:, 3:], x[:, :3]], False),
        (lambda x: [x[:, :3], x[:, 4:]], False),
        (lambda x: [x[:, :6:2], x[:, 6::2]], True),
        (lambda x: [x[:, :6:2], x[:, 6:]], False),
        (lambda x: [x[::2, :5], x[::2, 5:]], True),
        (lambda x: [x[:, :4].copy(), x[:, 4:]], False),
        (lambda x: [np.repeat(x, 2, axis=1)[:, :3], np.repeat(x, 2, axis=1)[:, 3:]], False),
    ],
)
def test_adjacent_parts_are_joined_by_a_view(parts, is_view, rng):
    x = rng.normal(size=(ARRAY_SIZE, 10))
    found = movement.concatenate(parts(x), 1)
    np.testing.assert_array_equal(found, np.concatenate(parts(x), 1))
    assert np.shares_memory(found, x) == is_view


def test_frames_share_the_memory_of_their_signal(rng):
    x = rng.normal(size=(3, ARRAY_SIZE * 16))
    with plugrad.use("cpu"):
        signal = plugrad.asarray(x)
        found = plugrad.signal.frame(signal, 512, 128).numpy()
        assert np.shares_memory(found, signal.numpy())
        (dx,) = plugrad.grad(lambda x: plugrad.signal.frame(x, 512, 128), (0,))(
            signal, dy=plugrad.asarray(2 * found)
        )
    windows = np.lib.stride_tricks.sliding_window_view(x, 512, axis=-1)[:, ::128]
    np.testing.assert_array_equal(found, windows)
    times = np.zeros(x.shape[1])
    for i in range(windows.shape[1]):
        times[128 * i : 128 * i + 512] += 2
    np.testing.assert_allclose(dx.numpy(), x * times, rtol=1e-15)


def test_one_hot_of_no_positions_makes_no_array_of_the_depth():
    with plugrad.use("cpu"):
        assert plugrad.one_hot(plugrad.zeros((0,), dtype="int32"), 2**30).shape == (0, 2**30)
        assert plugrad.one_hot(plugrad.zeros((0,), dtype="int32"), 2**40).shape == (0, 2**40)
