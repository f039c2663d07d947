"""Dtypes that shaders do not have: integers of 8 and of 64 bits, and float16, as exact as NumPy's."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import (
    as_dtype,
    bool_,
    complex64,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)
from plugrad.kernels import (
    activation,
    binary,
    bitwise,
    creation,
    indexing,
    linalg,
    morphology,
    movement,
    pooling,
    reduction,
    resize,
    scan,
    scatter,
    unary,
)
from plugrad_webgpu import elementwise, reduction as reduction_of
from plugrad_webgpu.algorithms.ordering import argsort_rows
from plugrad_webgpu.algorithms.reduce import MAX_LOOP_STEPS

ALL_FLOAT16_VALUES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
INT64_VALUES = np.array(
    [
        *(0, 1, -1, 2, -2, 3, 7, -7, 10**12 + 7, -(10**15) - 3, 0xFFFF_FFFF, -0xFFFF_FFFF),
        *(1 << 31, -(1 << 31), 1 << 32, -(1 << 32), (1 << 32) + 1, (1 << 53) + 1),
        *((1 << 63) - 1, -(1 << 63), 1 - (1 << 63), (1 << 62) + 12345, 0x1234_5678_9ABC_DEF0),
    ],
    np.int64,
)
LEFT_OPERAND, RIGHT_OPERAND = (
    grid.ravel().copy() for grid in np.meshgrid(INT64_VALUES, INT64_VALUES)
)


def assert_identical(actual, expected):
    np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.fixture(autouse=True)
def without_warnings():
    with np.errstate(all="ignore"):
        yield


def without_division_by_0(f):
    """Return a NumPy function with result 0 for a divisor of 0."""
    return lambda a, b: np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))).astype(a.dtype)


def without_negative_shifts(f):
    """Return a NumPy function that treats negative shift counts as larger than all others."""
    bits = 8 * np.dtype(np.int64).itemsize
    return lambda a, b: f(a, np.where((b < 0) | (b >= bits), bits, b).astype(a.dtype))


ARITHMETIC_KERNELS = [
    (binary.add, np.add),
    (binary.subtract, np.subtract),
    (binary.multiply, np.multiply),
    (binary.squared_difference, lambda a, b: (a - b) * (a - b)),
    (binary.floor_divide, without_division_by_0(np.floor_divide)),
    (binary.remainder, without_division_by_0(np.remainder)),
    (binary.maximum, np.maximum),
    (binary.minimum, np.minimum),
    (bitwise.bitwise_and, np.bitwise_and),
    (bitwise.bitwise_or, np.bitwise_or),
    (bitwise.bitwise_xor, np.bitwise_xor),
    (bitwise.left_shift, without_negative_shifts(np.left_shift)),
    (bitwise.right_shift, without_negative_shifts(np.right_shift)),
    (binary.equal, np.equal),
    (binary.not_equal, np.not_equal),
    (binary.less, np.less),
    (binary.less_equal, np.less_equal),
    (binary.greater, np.greater),
    (binary.greater_equal, np.greater_equal),
]
UNARY_KERNELS = [
    (unary.abs, np.abs),
    (unary.negative, np.negative),
    (unary.square, np.square),
    (unary.sign, np.sign),
    (unary.round, np.asarray),
    (bitwise.invert, np.invert),
    (activation.relu, lambda x: np.maximum(x, 0)),
    (activation.relu6, lambda x: np.clip(x, 0, 6)),
]


def kernel_name(value):
    return getattr(value, "name", "")


# --- integers of 64 bits ----------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "f"), ARITHMETIC_KERNELS, ids=kernel_name)
def test_int64_arithmetic(run, kernel, f):
    assert_identical(run(kernel, LEFT_OPERAND, RIGHT_OPERAND), f(LEFT_OPERAND, RIGHT_OPERAND))
    assert_identical(
        run(kernel, LEFT_OPERAND[:, None], RIGHT_OPERAND[:3]),
        f(LEFT_OPERAND[:, None], RIGHT_OPERAND[:3]),
    )  # rows that are no vectors


@pytest.mark.parametrize(("kernel", "f"), UNARY_KERNELS, ids=kernel_name)
def test_int64_unary_functions(run, kernel, f):
    assert_identical(run(kernel, INT64_VALUES), f(INT64_VALUES))


def test_int64_powers(run):
    exponents = np.array([0, 1, 2, 3, 63, 64, 1 << 40, -1, -2, -(1 << 62)])
    a, b = (grid.ravel().copy() for grid in np.meshgrid(INT64_VALUES, exponents))

    def power(x, y):
        if y < 0:
            return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)
        return pow(x, y, 1 << 64)

    expected = [power(int(x), int(y)) % (1 << 64) for x, y in zip(a, b, strict=True)]
    assert_identical(run(binary.power, a, b), np.array(expected, np.uint64).view(np.int64))


def test_numbers_that_shaders_take_for_longs(run):
    low, high = -(1 << 40) - 5, (1 << 50) + 3
    clipped = run(unary.clip_by_value, INT64_VALUES, clip_value_min=low, clip_value_max=high)
    assert_identical(clipped, np.clip(INT64_VALUES, low, high))
    assert_identical(run(unary.step, INT64_VALUES, alpha=low), np.where(INT64_VALUES > 0, 1, low))
    assert_identical(run(creation.fill, shape=(2, 3), value=low, dtype=int64), np.full((2, 3), low))
    padded = run(movement.pad, INT64_VALUES, paddings=((1, 2),), constant_value=high)
    assert_identical(padded, np.pad(INT64_VALUES, (1, 2), constant_values=high))
    positions = np.array([1, 0], np.int32)
    hot = run(indexing.one_hot, positions, depth=2, on_value=high, off_value=low, dtype=int64)
    assert_identical(hot, np.array([[low, high], [high, low]]))
    assert_identical(
        run(movement.pad, INT64_VALUES[:1], paddings=((0, 0),), constant_value=0), INT64_VALUES[:1]
    )


def test_int64_select(run):
    assert_identical(
        run(binary.select, LEFT_OPERAND > RIGHT_OPERAND, LEFT_OPERAND, RIGHT_OPERAND),
        np.maximum(LEFT_OPERAND, RIGHT_OPERAND),
    )


def test_long_to_float_rounds_once(run):
    ties = np.array([((1 << 24) + n << shift) + d for shift in (8, 20, 38) for n in (1, 2, 3, 5)
                     for half in (1 << shift - 1,) for d in (half - 1, half, half + 1)])  # fmt: skip
    values = np.concatenate([INT64_VALUES, ties, -ties])
    assert_identical(run(unary.cast, values, dtype=float32), values.astype(np.float32))


def test_casts_of_longs(run):
    for dtype in (int32, uint32, int8, int16, uint8, uint16, bool_, complex64, float16):
        assert_identical(run(unary.cast, INT64_VALUES, dtype=dtype), INT64_VALUES.astype(dtype))
    for values in (
        np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32),
        np.array([0, 2**32 - 1], np.uint32),
        np.array([-128, -1, 0, 127], np.int8),
        np.array([-(2**15), -1, 0, 2**15 - 1], np.int16),
        np.array([0, 255], np.uint8),
        np.array([0, 2**16 - 1], np.uint16),
        np.array([True, False]),
        np.array([1.9, -1.9, 1e9, -3e9, 2**23 + 1, 2**24 - 1, 2**40, -(2.0**62)], np.float32),
    ):
        assert_identical(run(unary.cast, values, dtype=int64), values.astype(np.int64))
    beyond = np.array([2.0**63, np.inf, -(2.0**63), -1e30, np.nan], np.float32)
    limits = np.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 0])
    assert_identical(run(unary.cast, beyond, dtype=int64), limits)


@pytest.mark.parametrize("shape", [(5,), (3, 7), (7, 4), (2, 5, 3), (3000, 3), (3, 3000), (0, 2)])
def test_int64_reductions(run, rng, shape):
    x = rng.integers(-(2**63), 2**63 - 1, shape)
    for axis in ((0,), (len(shape) - 1,), tuple(range(len(shape)))):
        assert_identical(run(reduction.sum, x, axis=axis), np.asarray(x.sum(axis)))
        assert_identical(run(reduction.prod, x, axis=axis), np.asarray(x.prod(axis)))
        if x.size:
            assert_identical(run(reduction.max, x, reduction_indices=axis), np.asarray(x.max(axis)))
            assert_identical(run(reduction.min, x, axis=axis), np.asarray(x.min(axis)))
    if x.size:
        x[-1] = x[0]  # of equal elements, the first counts
        for axis in range(x.ndim):
            assert_identical(run(reduction.argmax, x, axis=axis), x.argmax(axis).astype(np.int32))
            assert_identical(run(reduction.argmin, x, axis=axis), x.argmin(axis).astype(np.int32))


@pytest.mark.parametrize("shape", [(5,), (3, 8), (2, 5000), (5000, 2)])
def test_long_running_totals(run, rng, shape):
    x = rng.integers(-(2**63), 2**63 - 1, shape)
    for axis in range(len(shape)):
        assert_identical(run(scan.cumsum, x, axis=axis), x.cumsum(axis))
        assert_identical(run(scan.cumprod, x, axis=axis), x.cumprod(axis))
        back = run(scan.cumsum, x, axis=axis, exclusive=True, reverse=True)
        assert_identical(back, np.flip(np.flip(x, axis).cumsum(axis), axis) - x)


@pytest.mark.parametrize("depth", [0, 1, 5, 130, MAX_LOOP_STEPS + 3])
def test_int64_matrix_products(run, rng, depth):
    a = rng.integers(-(2**63), 2**63 - 1, (2, 6, depth))
    b = rng.integers(-(2**63), 2**63 - 1, (depth, 2))
    assert_identical(run(linalg.matmul, a, b), a @ b)
    turned = run(
        linalg.matmul, a.swapaxes(1, 2).copy(), b.T.copy(), transpose_a=True, transpose_b=True
    )
    assert_identical(turned, a @ b)
    for rows in (1, 3):
        part = a[:, :rows].copy()
        assert_identical(run(linalg.matmul, part, b[:, :1].copy()), part @ b[:, :1])
        assert_identical(run(linalg.matmul, part[:1], b), part[:1] @ b)
    assert_identical(run(linalg.einsum, a, b, equation="xyz,zw->wx"), np.einsum("xyz,zw->wx", a, b))


def test_long_segment_sums_carry(run, rng):
    x = rng.integers(-(2**63), 2**63 - 1, (4000, 2))
    labels = rng.integers(-1, 4, 4000)
    expected = np.stack([x[labels == n].sum(0) for n in range(3)])
    assert_identical(run(indexing.unsorted_segment_sum, x, labels, num_segments=3), expected)
    added = run(scatter.scatter_nd, np.zeros((4000, 1), np.int64), x, shape=(2, 2))
    assert_identical(added, np.stack([x.sum(0), [0, 0]]))
    weights = run(reduction.bincount, labels, x[:, 0].copy(), size=3)
    assert_identical(weights, expected[:, 0])


def test_long_positions_are_not_cut_off(run):
    """The low words of these int64 indices are in range, the indices are not."""
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    far = np.array([1, -1, (1 << 32) + 1, -(1 << 32), 1 << 31, (1 << 63) - 1])
    gathered = np.where(np.arange(6)[:, None] < 2, x[[1, -1, 0, 0, 0, 0]], 0).astype(np.int32)
    assert_identical(run(indexing.gather, x, far, axis=0), gathered)
    assert_identical(run(indexing.gather_nd, x, far[:, None].copy()), gathered)
    hot = run(indexing.one_hot, far, depth=3, on_value=1, off_value=0, dtype=int32)
    assert_identical(hot, np.array([[0, 1, 0], *[[0] * 3] * 5], np.int32))
    ones = np.ones(6, np.int32)
    assert_identical(
        run(indexing.unsorted_segment_sum, ones, far, num_segments=3), np.int32([0, 1, 0])
    )
    counts = run.call(reduction.bincount, run.to_device(far), None, size=3)
    assert_identical(run.to_host(counts), np.int32([0, 1, 0]))
    assert_identical(
        run(scatter.scatter_nd, far[:, None].copy(), ones, shape=(3,)), np.int32([0, 1, 1])
    )
    updated = run(scatter.tensor_scatter_update, x[:, 0].copy(), far, ones)
    assert_identical(updated, np.int32([0, 1, 1]))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (40,), (3, 500), (2, 3000), (2, 0)])
def test_long_order(run, rng, shape, descending):
    """Many numbers have equal high words, equal low words, or are equal."""
    x = rng.integers(-3, 3, shape) * (1 << 32) + rng.integers(-3, 3, shape)
    positions = np.argsort(~x if descending else x, axis=-1, stable=True)
    assert_identical(
        run.to_host(argsort_rows(run.to_device(x), descending=descending)),
        positions.astype(np.int32),
    )


def test_int64_images(run, rng):
    x = rng.integers(-(2**63), 2**63 - 1, (2, 3, 5, 3))
    attributes = {"align_corners": False, "half_pixel_centers": False}
    resized = run(resize.resize_nearest_neighbor, x, size=(6, 10), **attributes)
    assert_identical(resized, x.repeat(2, axis=1).repeat(2, axis=2))


def test_int64_pooling_and_morphology(run, rng):
    x = rng.integers(-3, 3, (2, 8, 8, 4)) * (1 << 62) + rng.integers(-9, 9, (2, 8, 8, 4))
    cells = x.reshape(2, 4, 2, 4, 2, 4).transpose(0, 1, 3, 5, 2, 4).reshape(2, 4, 4, 4, 4)
    attributes = {"filter_size": (2, 2), "strides": (2, 2), "pad": "valid"}
    assert_identical(run(pooling.max_pool, x, **attributes), cells.max(-1))
    y, found = run(pooling.max_pool_with_argmax, x, **attributes, include_batch_in_index=True)
    assert_identical(y, cells.max(-1))
    assert_identical(x.ravel()[found], y)
    weights = np.array([1 << 61, 0, -5, 1 << 32]).reshape(2, 2, 1) * np.ones(4, np.int64)
    sums = cells + weights.reshape(4, 4).T
    attributes = {"strides": (2, 2), "pad": "valid", "dilations": (1, 1)}
    assert_identical(run(morphology.dilation2d, x, weights, **attributes), sums.max(-1))
    dy = rng.integers(-(2**63), 2**63 - 1, y.shape)
    shares = np.where(np.arange(4) == sums.argmax(-1)[..., None], dy[..., None], 0)
    for_weights = run(morphology.dilation2d_filter_gradient, x, weights, dy, **attributes)
    assert_identical(for_weights, shares.sum((0, 1, 2)).T.reshape(2, 2, 4))
    for_x = run(morphology.dilation2d_input_gradient, x, weights, dy, **attributes)
    pixels = shares.reshape(2, 4, 4, 4, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(x.shape)
    assert_identical(for_x, pixels)


# --- integers of 8 bits -----------------------------------------------------------------------------


@pytest.fixture(params=[np.int8, np.uint8], ids=["int8", "uint8"])
def all_byte_values(request):
    return np.arange(256, dtype=np.uint8).view(request.param)


@pytest.mark.parametrize(("kernel", "f"), ARITHMETIC_KERNELS, ids=kernel_name)
def test_arithmetic_of_all_bytes(run, all_byte_values, kernel, f):
    a, b = (grid.copy() for grid in np.meshgrid(all_byte_values, all_byte_values))
    assert_identical(run(kernel, a, b), f(a, b))


@pytest.mark.parametrize(("kernel", "f"), UNARY_KERNELS, ids=kernel_name)
def test_functions_of_all_bytes(run, all_byte_values, kernel, f):
    assert_identical(run(kernel, all_byte_values), f(all_byte_values))


def test_powers_of_bytes(run, all_byte_values):
    exponents = np.arange(9).astype(all_byte_values.dtype)[:, None]
    assert_identical(run(binary.power, all_byte_values, exponents), all_byte_values**exponents)


def test_casts_of_bytes(run, all_byte_values):
    for dtype in (int8, uint8, int32, uint32, float32, float16, bool_, complex64):
        assert_identical(
            run(unary.cast, all_byte_values, dtype=dtype), all_byte_values.astype(dtype)
        )
    for wide in (np.int32, np.uint32):
        values = np.array([0, 1, 127, 128, 255, 256, 300, 2**31 - 1]).astype(wide)
        assert_identical(
            run(unary.cast, values, dtype=as_dtype(all_byte_values.dtype)),
            values.astype(all_byte_values.dtype),
        )
    limits = np.iinfo(all_byte_values.dtype)
    floats = np.array([1.9, -1.9, 300, -300, np.nan, np.inf, -np.inf], np.float32)
    expected = [1, max(-1, limits.min), limits.max, limits.min, 0, limits.max, limits.min]
    assert_identical(
        run(unary.cast, floats, dtype=as_dtype(all_byte_values.dtype)),
        np.array(expected, all_byte_values.dtype),
    )


def test_sums_of_bytes_wrap(run, all_byte_values):
    x = np.concatenate([all_byte_values, all_byte_values[200:]]).reshape(39, 8)
    dtype = all_byte_values.dtype
    for axis in ((0,), (1,), (0, 1)):
        assert_identical(run(reduction.sum, x, axis=axis), np.asarray(x.sum(axis, dtype)))
        assert_identical(
            run(reduction.prod, x | 1, axis=axis), np.asarray((x | 1).prod(axis, dtype))
        )
        assert_identical(run(reduction.max, x, reduction_indices=axis), np.asarray(x.max(axis)))
    assert_identical(run(scan.cumsum, x, axis=0), x.cumsum(0, dtype))
    assert_identical(run(linalg.matmul, x.T.copy(), x), x.T @ x)
    assert_identical(run(linalg.einsum, x, x, equation="xy,xy->y"), np.einsum("xy,xy->y", x, x))
    labels = np.arange(39, dtype=np.int32) % 2
    expected = np.stack([x[labels == n].sum(0, dtype) for n in (0, 1)])
    assert_identical(run(indexing.unsorted_segment_sum, x, labels, num_segments=2), expected)
    assert_identical(run(scatter.scatter_nd, labels[:, None].copy(), x, shape=(2, 8)), expected)


def test_windows_over_bytes(run, all_byte_values):
    """The maximum is taken of sums that wrapped around."""
    x = all_byte_values.reshape(1, 16, 16, 1)
    weights = np.array([100, 0, 0, 27]).astype(all_byte_values.dtype).reshape(2, 2, 1)
    attributes = {"strides": (1, 1), "pad": "valid", "dilations": (1, 1)}
    seen = np.stack([x[:, i : i + 15, j : j + 15] + weights[i, j] for i in (0, 1) for j in (0, 1)])
    assert_identical(run(morphology.dilation2d, x, weights, **attributes), seen.max(0))
    dy = np.full((1, 15, 15, 1), 100, all_byte_values.dtype)
    counts = np.bincount(seen.argmax(0).ravel(), minlength=4).reshape(2, 2, 1)
    shares = run(morphology.dilation2d_filter_gradient, x, weights, dy, **attributes)
    assert_identical(shares, (counts * 100).astype(all_byte_values.dtype))
    pooled = run(pooling.max_pool, x, filter_size=(4, 1), strides=(4, 1), pad="valid")
    assert_identical(pooled, x.reshape(1, 4, 4, 16, 1).max(2))


def test_bytes_as_positions(run, all_byte_values):
    x = np.arange(256, dtype=np.float32)
    assert_identical(run(indexing.gather, x, all_byte_values, axis=0), x[all_byte_values])


# --- float16 ----------------------------------------------------------------------------------------


def test_every_half_stays_the_same(run):
    assert_identical(run.to_host(run.to_device(ALL_FLOAT16_VALUES)), ALL_FLOAT16_VALUES)
    assert_identical(
        run(unary.cast, ALL_FLOAT16_VALUES, dtype=float32), ALL_FLOAT16_VALUES.astype(np.float32)
    )
    assert_identical(
        run(unary.cast, ALL_FLOAT16_VALUES.astype(np.float32), dtype=float16), ALL_FLOAT16_VALUES
    )
    assert_identical(run(unary.negative, ALL_FLOAT16_VALUES), -ALL_FLOAT16_VALUES)
    assert_identical(run(movement.reverse, ALL_FLOAT16_VALUES, dims=(0,)), ALL_FLOAT16_VALUES[::-1])
    for value in ALL_FLOAT16_VALUES[[1, 0x3FF, 0x7BFF, 0x7C00, 0x8001]]:
        assert_identical(
            run(creation.fill, shape=(), value=float(value), dtype=float16), np.asarray(value)
        )


def test_rounding_to_half(run, rng):
    halves = np.sort(ALL_FLOAT16_VALUES[np.isfinite(ALL_FLOAT16_VALUES)]).astype(np.float32)
    ties = (halves[1:] + halves[:-1]) / 2
    near = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    patterns = rng.integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    limits = np.float32([65504, 65519.996, 65520, 1e30, 2**-25, 2.0000002 * 2**-26, 1e-40, 1e-8])
    values = np.concatenate([ties, *near, patterns, limits, -limits])
    assert_identical(run(unary.cast, values, dtype=float16), values.astype(np.float16))


def test_half_arithmetic_is_rounded_after_each_step(run, rng):
    a, b = rng.integers(0, 1 << 16, (2, 50_000), np.uint16).view(np.float16)
    for kernel, f in [
        (binary.add, np.add),
        (binary.subtract, np.subtract),
        (binary.multiply, np.multiply),
        (binary.divide, np.divide),
        (binary.maximum, np.maximum),
        (binary.less, np.less),
        (binary.next_after, np.nextafter),
    ]:
        assert_identical(run(kernel, a, b), f(a, b))
    assert_identical(run(unary.sqrt, a), np.sqrt(a))
    assert_identical(
        run(unary.clip_by_value, a, clip_value_min=-0.1, clip_value_max=1e6), a.clip(-0.1, np.inf)
    )


def test_next_after_in_float16(run):
    up, down = (
        run(binary.next_after, ALL_FLOAT16_VALUES, np.float16(end)) for end in (np.inf, -np.inf)
    )
    assert_identical(up, np.nextafter(ALL_FLOAT16_VALUES, np.float16(np.inf)))
    assert_identical(down, np.nextafter(ALL_FLOAT16_VALUES, np.float16(-np.inf)))


def test_half_sums_keep_small_terms(run, rng):
    """A running sum in float16 would stop growing at 2048."""
    ones = np.ones((5000, 3), np.float16)
    assert_identical(run(reduction.sum, ones, axis=(0,)), np.full(3, 5000, np.float16))
    assert_identical(run(linalg.matmul, ones.T.copy(), ones), np.full((3, 3), 5000, np.float16))
    assert_identical(run(scan.cumsum, ones, axis=0)[-1], np.full(3, 5000, np.float16))
    labels = np.zeros(5000, np.int32)
    summed = run(indexing.unsorted_segment_sum, ones, labels, num_segments=1)
    assert_identical(summed, np.full((1, 3), 5000, np.float16))
    assert_identical(run(reduction.mean, ones, axis=(0, 1)), np.float16(1).reshape(()))
    assert_identical(
        run(reduction.sum, np.full(70, 1000, np.float16), axis=(0,)), np.asarray(np.float16(7e4))
    )


def test_custom_kernels_take_narrow_dtypes(run, rng):
    """The engine calls the backend's wrapper of the kernel, which converts half precision."""
    a, b = rng.standard_normal((2, 3, 50)).astype(np.float16)
    blend = run.backend.wrap_implementation("Add", elementwise("0.5 * a + b", ("a", "b")))
    exact = np.float32(0.5) * a.astype(np.float32) + b.astype(np.float32)
    assert_identical(
        run.to_host(blend(run.to_device(a), run.to_device(b))), exact.astype(np.float16)
    )
    own = reduction_of("maximum(a, b)", {float32: float("-inf")})
    largest = run.backend.wrap_implementation(
        "Sum", lambda x, axis, keep_dims: own(x, axis, keep_dims)
    )
    assert_identical(run.to_host(largest(run.to_device(a), axis=(1,), keep_dims=False)), a.max(1))


# --- integers of 16 bits ----------------------------------------------------------------------------


@pytest.fixture(params=[np.int16, np.uint16], ids=["int16", "uint16"])
def int16_values(request, rng):
    """The extremes of an integer dtype, their neighbours, and some numbers between."""
    ends = np.array([0, 1, 2, 3, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**15 + 1, 2**16 - 1])
    return np.concatenate([ends, rng.integers(0, 2**16, 52)]).astype(np.uint16).view(request.param)


@pytest.mark.parametrize(("kernel", "f"), ARITHMETIC_KERNELS, ids=kernel_name)
def test_arithmetic_of_shorts(run, int16_values, kernel, f):
    a, b = (grid.copy() for grid in np.meshgrid(int16_values, int16_values))
    assert_identical(run(kernel, a, b), f(a, b))


@pytest.mark.parametrize(("kernel", "f"), UNARY_KERNELS, ids=kernel_name)
def test_functions_of_all_shorts(run, kernel, f):
    every = np.arange(2**16, dtype=np.uint16)
    for values in (every, every.view(np.int16)):
        assert_identical(run(kernel, values), f(values))


def test_casts_of_shorts(run, int16_values):
    for dtype in (int8, uint8, int16, uint16, int32, uint32, float32, float16, bool_, complex64):
        with np.errstate(over="ignore"):  # the largest are beyond float16
            assert_identical(run(unary.cast, int16_values, dtype=dtype), int16_values.astype(dtype))
    for wide in (np.int32, np.uint32):
        values = np.array([0, 1, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 70_000, 2**31 - 1], wide)
        assert_identical(
            run(unary.cast, values, dtype=as_dtype(int16_values.dtype)),
            values.astype(int16_values.dtype),
        )
    limits = np.iinfo(int16_values.dtype)
    floats = np.array([1.9, -1.9, 7e4, -7e4, np.nan, np.inf, -np.inf], np.float32)
    expected = [1, max(-1, limits.min), limits.max, limits.min, 0, limits.max, limits.min]
    assert_identical(
        run(unary.cast, floats, dtype=as_dtype(int16_values.dtype)),
        np.array(expected, int16_values.dtype),
    )


def test_sums_of_shorts_wrap(run, int16_values):
    x, dtype = int16_values.reshape(8, 8), int16_values.dtype
    for axis in ((0,), (1,), (0, 1)):
        assert_identical(run(reduction.sum, x, axis=axis), np.asarray(x.sum(axis, dtype)))
        assert_identical(run(reduction.max, x, reduction_indices=axis), np.asarray(x.max(axis)))
        assert_identical(run(reduction.min, x, axis=axis), np.asarray(x.min(axis)))
    assert_identical(run(scan.cumsum, x, axis=0), x.cumsum(0, dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16])
def test_order_of_narrow_dtypes(run, rng, dtype):
    x = rng.integers(0, 100, (3, 300)).astype(dtype)
    assert_identical(
        run.to_host(argsort_rows(run.to_device(x))),
        np.argsort(x, axis=-1, stable=True).astype(np.int32),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, np.int64, np.float16])
def test_chains_match_separate_calls(run, rng, dtype):
    a, b = rng.integers(-(2**63), 2**63 - 1, (2, 60, 5)).view(np.int8)[..., :5].astype(dtype)
    for _ in range(3):  # the first time, calls are recorded one by one
        x, y = run.to_device(a), run.to_device(b)
        product = run.call(binary.multiply, run.call(binary.add, x, y), x)
        wide = run.call(unary.cast, product, dtype=float32)
        is_less = run.call(binary.less, run.call(unary.square, product), y)
        chosen = run.call(binary.select, is_less, run.call(unary.negative, product), y)
        results = [run.to_host(z) for z in (chosen, wide, is_less, product)]
        expected = (a + b) * a
        less = expected * expected < b
        chosen = np.where(less, -expected, b)
        for actual, right in zip(
            results, (chosen, expected.astype(np.float32), less, expected), strict=True
        ):
            assert_identical(actual, right)


def test_a_chain_of_many_limits(run):
    """Ten calls have more parameters than a shader accepts, and each takes two words."""
    limits = [((1 << 40) - n, (1 << 41) + n) for n in range(10)]
    for _ in range(3):
        x = run.to_device(INT64_VALUES)
        for low, high in limits:
            x = run.call(unary.clip_by_value, x, clip_value_min=low, clip_value_max=high)
        assert_identical(run.to_host(x), INT64_VALUES.clip(1 << 40, 1 << 41))


@pytest.mark.parametrize("name", ["int16", "uint16"])
def test_integers_of_16_bits_stay_as_they_are(name):
    a, b = np.array([30_000, 3], name), np.array([5, 60_000 if name[0] == "u" else -30_000], name)
    with plugrad.use("webgpu"):
        found = plugrad.squared_difference(a, b)
        assert found.dtype == name
        np.testing.assert_array_equal(found.numpy(), (a - b) ** 2)
        assert plugrad.asarray(a, dtype=name).dtype == name
