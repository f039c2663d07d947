"""NaN and infinity go through every kernel as in NumPy, though shader compilers assume neither."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import bool_, complex64, float32, int32, uint32
from plugrad.kernels import (
    activation,
    binary,
    complex as complex_kernels,
    image,
    normalization,
    pooling,
    reduction,
    scan,
    unary,
)
from plugrad_webgpu import elementwise
from plugrad_webgpu.shaders import sources

NAN, INF = np.nan, np.inf
SPECIAL_VALUES = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 3e38, -3e38, 1e-30, 88.8, -104],
    np.float32,
)
LEFT_OPERAND, RIGHT_OPERAND = (
    grid.ravel().copy() for grid in np.meshgrid(SPECIAL_VALUES, SPECIAL_VALUES)
)
MIN_NORMAL_FLOAT32 = 1.2e-38  # below, a device may flush to zero

UNARY_KERNELS = [
    (unary.abs, np.abs),
    (unary.negative, np.negative),
    (unary.square, np.square),
    (unary.sign, np.sign),
    (unary.reciprocal, np.reciprocal),
    (unary.sqrt, np.sqrt),
    (unary.rsqrt, lambda x: 1 / np.sqrt(x)),
    (unary.ceil, np.ceil),
    (unary.floor, np.floor),
    (unary.round, np.round),
    (unary.exp, np.exp),
    (unary.expm1, np.expm1),
    (unary.log, np.log),
    (unary.log1p, np.log1p),
    (unary.log2, np.log2),
    (unary.log10, np.log10),
    (unary.trunc, np.trunc),
    (unary.sign_bit, np.signbit),
    (unary.asin, np.arcsin),
    (unary.acos, np.arccos),
    (unary.atan, np.arctan),
    (unary.sinh, np.sinh),
    (unary.cosh, np.cosh),
    (unary.tanh, np.tanh),
    (unary.asinh, np.arcsinh),
    (unary.acosh, np.arccosh),
    (unary.atanh, np.arctanh),
    (activation.relu, lambda x: np.maximum(x, 0)),
    (activation.relu6, lambda x: np.clip(x, 0, 6)),
    (activation.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    (activation.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (activation.softplus, lambda x: np.logaddexp(x, 0)),
    (unary.is_nan, np.isnan),
    (unary.is_inf, np.isinf),
    (unary.is_finite, np.isfinite),
]
BINARY_KERNELS = [
    (binary.add, np.add),
    (binary.subtract, np.subtract),
    (binary.multiply, np.multiply),
    (binary.divide, np.divide),
    (binary.maximum, np.maximum),
    (binary.minimum, np.minimum),
    (binary.power, np.power),
    (binary.remainder, np.remainder),
    (binary.floor_divide, np.floor_divide),
    (binary.atan2, np.arctan2),
    (binary.hypot, np.hypot),
    (binary.log_add_exp, np.logaddexp),
    (binary.equal, np.equal),
    (binary.not_equal, np.not_equal),
    (binary.less, np.less),
    (binary.less_equal, np.less_equal),
    (binary.greater, np.greater),
    (binary.greater_equal, np.greater_equal),
]


def assert_same_values(actual, expected):
    if expected.dtype == bool:
        np.testing.assert_array_equal(actual, expected)
        return
    is_tiny = np.abs(expected) < MIN_NORMAL_FLOAT32
    assert (np.abs(actual[is_tiny]) < MIN_NORMAL_FLOAT32).all()
    np.testing.assert_allclose(actual[~is_tiny], expected[~is_tiny], rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "reference"), UNARY_KERNELS, ids=lambda v: getattr(v, "name", "")
)
def test_unary_kernels_of_special_values(run, kernel, reference):
    with np.errstate(all="ignore"):
        expected = reference(SPECIAL_VALUES.astype(np.float64))
        expected = expected if expected.dtype == bool else expected.astype(np.float32)
    assert_same_values(run(kernel, SPECIAL_VALUES), expected)


@pytest.mark.parametrize("kernel", [unary.sin, unary.cos, unary.tan], ids=lambda k: k.name)
def test_infinite_angles_have_no_sine(run, kernel):
    assert np.isnan(run(kernel, SPECIAL_VALUES[:3])).all()


@pytest.mark.parametrize(
    ("kernel", "reference"), BINARY_KERNELS, ids=lambda v: getattr(v, "name", "")
)
def test_binary_kernels_of_special_values(run, kernel, reference):
    with np.errstate(all="ignore"):
        expected = reference(LEFT_OPERAND, RIGHT_OPERAND)
    assert_same_values(run(kernel, LEFT_OPERAND, RIGHT_OPERAND), expected)


GPU_RECIPROCAL_WGSL = (
    "fn gpu_reciprocal(x: f32) -> f32 { return select(1.0 / x, 0.0, abs(x) > 8.507059e37); }"
)
"""What GPUs divide by: the reciprocal of a number above 2^126 is subnormal, and so 0."""


@pytest.fixture
def use_gpu_reciprocal(make_runner, monkeypatch):
    snippets = sources._snippets_by_name()
    divide = snippets["divide"].replace("/ (b * scale)", "* gpu_reciprocal(b * scale)")
    assert divide != snippets["divide"]
    changed = {**snippets, "divide": divide, "gpu_reciprocal": GPU_RECIPROCAL_WGSL}
    monkeypatch.setattr(sources, "_snippets_by_name", lambda: changed)
    monkeypatch.setattr(sources, "_snippets_called_by", sources._snippets_called_by.__wrapped__)
    return make_runner()


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (k, f)
        for k, f in BINARY_KERNELS
        if k.name in {"RealDiv", "FloorDiv", "Mod", "Atan2", "Hypot"}
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_large_divisors_on_gpus(use_gpu_reciprocal, kernel, reference):
    """Infinity divided by 3e38 was NaN, and 3e38 divided by itself was 0."""
    with np.errstate(all="ignore"):
        expected = reference(LEFT_OPERAND, RIGHT_OPERAND)
    assert_same_values(use_gpu_reciprocal(kernel, LEFT_OPERAND, RIGHT_OPERAND), expected)


def float_from_bits(bits):
    return np.array(bits, np.uint32).view(np.float32)


CASTS_TO_INTEGERS = [  # a float, as int32, as uint32
    (NAN, 0, 0),
    (float_from_bits(0xFFC00000), 0, 0),  # a negative NaN
    (float_from_bits(0x7F800001), 0, 0),  # a signalling NaN
    (float_from_bits(0xFFFFFFFF), 0, 0),
    (INF, 2147483647, 4294967295),
    (-INF, -2147483648, 0),
    (3.4e38, 2147483647, 4294967295),
    (-3.4e38, -2147483648, 0),
    (float_from_bits(0x4F7FFFFF), 2147483647, 4294967040),  # the last float below 2^32
    (4294967296.0, 2147483647, 4294967295),
    (3e9, 2147483647, 3000000000),
    (float_from_bits(0x4EFFFFFF), 2147483520, 2147483520),  # the last float below 2^31
    (2147483648.0, 2147483647, 2147483648),
    (-2147483520.0, -2147483520, 0),
    (-2147483648.0, -2147483648, 0),
    (-2147483904.0, -2147483648, 0),
    (1.9, 1, 1),
    (-1.9, -1, 0),
    (0.999, 0, 0),
    (-0.999, 0, 0),
    (-0.0, 0, 0),
    (1e-40, 0, 0),
    (16777217.0, 16777216, 16777216),
    (-7.0, -7, 0),
]


@pytest.mark.parametrize(
    "count", [len(CASTS_TO_INTEGERS), len(CASTS_TO_INTEGERS) - 1, 1], ids=["vectors", "rest", "one"]
)
def test_casts_to_integers_saturate_and_cut_off_fractions(run, count):
    values, signed, unsigned = zip(*CASTS_TO_INTEGERS, strict=True)
    for start in range(0, len(CASTS_TO_INTEGERS), count) if count == 1 else [0]:
        part = slice(start, start + count)
        x = np.array(values[part], np.float32)
        assert run(unary.cast, x, dtype=int32).tolist() == list(signed[part])
        assert run(unary.cast, x, dtype=uint32).tolist() == list(unsigned[part])


def test_casts_to_bool_are_false_for_zero_only(run):
    x = np.array([NAN, -NAN, INF, -INF, 1e30, 0.5, 0.0, -0.0], np.float32)
    expected = [True, True, True, True, True, True, False, False]
    assert run(unary.cast, x, dtype=bool_).tolist() == expected


def test_computed_values_saturate_too(run):
    expected = [2147483647, -2147483648, 0, 2147483647, -2147483648]
    a, b = (
        run.to_device(np.float32([1, -1, 0, 3e38, -3e38])),
        run.to_device(np.zeros(5, np.float32)),
    )
    quotient = run.call(binary.divide, a, b)
    assert run.to_host(run.call(unary.cast, quotient, dtype=int32)).tolist() == expected
    # A compiler sees through an expression within one shader, unlike a value that is loaded.
    kernel = elementwise("saturated_i32(a / b)", ("a", "b"), result=int32)
    assert run.to_host(kernel(a, b)).tolist() == expected


@pytest.mark.parametrize(
    ("value", "signed", "unsigned"),
    [(NAN, 0, 0), (INF, 2147483647, 4294967295), (-1e30, -2147483648, 0), (-2.9, -2, 0)],
)
def test_float_attributes_convert_to_integers_as_casts_do(run, value, signed, unsigned):
    zeros = np.zeros(3, np.int32)
    assert run(unary.step, zeros, alpha=value).tolist() == [signed] * 3
    assert run(unary.step, zeros.astype(np.uint32), alpha=value).tolist() == [unsigned] * 3


def test_cancellation_is_not_folded(run):
    with np.errstate(all="ignore"):
        difference, product = SPECIAL_VALUES - SPECIAL_VALUES, SPECIAL_VALUES * 0
    assert_same_values(run(binary.subtract, SPECIAL_VALUES, SPECIAL_VALUES), difference)
    assert_same_values(run(binary.multiply, SPECIAL_VALUES, np.float32(0)), product)


@pytest.mark.parametrize("at", [0, 3, 500, 999])
def test_reductions_find_nan(run, at):
    x = np.ones(1000, np.float32)
    x[at] = NAN
    for values, axis in ((x, 0), (x.reshape(1, -1), 1), (x.reshape(-1, 1).repeat(4, 1), 0)):
        assert np.isnan(run(reduction.max, values, reduction_indices=(axis,))).all()
        assert np.isnan(run(reduction.min, values, axis=(axis,))).all()
        assert np.isnan(run(reduction.sum, values, axis=(axis,))).all()
        np.testing.assert_array_equal(run(reduction.argmax, values, axis=axis), at)
        np.testing.assert_array_equal(run(reduction.argmin, values, axis=axis), at)


def test_reductions_of_infinities(run):
    x = np.array([-INF, -INF], np.float32)
    assert run(reduction.max, x, reduction_indices=(0,)) == -INF
    assert run(reduction.min, -x, axis=(0,)) == INF


def test_clipping_and_steps_keep_nan(run):
    x = np.array([NAN, 5, -5], np.float32)
    clipped = run(unary.clip_by_value, x, clip_value_min=-1, clip_value_max=INF)
    np.testing.assert_array_equal(clipped, [NAN, 5, -1])
    np.testing.assert_array_equal(run(unary.step, x, alpha=0.0), [NAN, 1, 0])
    np.testing.assert_array_equal(run(activation.leaky_relu, x, alpha=0.5), [NAN, 5, -2.5])


def test_zeros_as_attributes_keep_their_sign(webgpu):
    """Plans of calls are cached, and 0.0 equals -0.0."""
    x = plugrad.asarray([[-1.0]])
    for alpha in (0.0, -0.0, 0.0):
        found = (
            plugrad.leaky_relu(x, alpha=alpha),
            plugrad.fused.matmul(x, [[1.0]], activation="leakyrelu", leakyrelu_alpha=alpha),
            -plugrad.clip(x, alpha, 1),
            -plugrad.step(x, alpha),
        )
        assert {np.signbit(y.item()) for y in found} == {not np.signbit(alpha)}


def test_pooling_finds_nan(run):
    x = np.zeros((1, 2, 2, 1), np.float32)
    x[0, 1, 0, 0] = NAN
    attrs = {"filter_size": (2, 2), "strides": (2, 2), "pad": "valid"}
    largest = run(pooling.max_pool, x, **attrs)
    assert np.isnan(largest).all()
    dx = run(pooling.max_pool_gradient, np.ones_like(largest), x, largest, **attrs)
    np.testing.assert_array_equal(dx.ravel(), [0, 0, 1, 0])


def test_softmax_of_large_and_infinite_logits(run):
    x = np.array([[1000, 1000, -INF], [NAN, 0, 0]], np.float32)
    np.testing.assert_array_equal(run(normalization.softmax, x, dim=1)[0], [0.5, 0.5, 0])
    assert np.isnan(run(normalization.softmax, x, dim=1)[1]).all()


def test_image_gradients_of_infinities(run):
    """The sums are integers, which cannot represent infinity."""
    shown_twice = np.array([[0.5, 0, 0, 0, 1, 0, 0, 0]], np.float32)
    dy = [INF, 1, -INF, -INF, INF, -INF, 3, NAN, 4, 5]
    dx = run(
        image.transform_image_gradient,
        np.array(dy, np.float32).reshape(1, 1, 10, 1),
        shown_twice,
        image_shape=(1, 1, 6, 1),
        interpolation="nearest",
        fill_mode="constant",
    )
    # The points 0, 0.5 and so on show the pixels 0, 1, 1, 2, 2, 3, 3, 4, 4, 5.
    np.testing.assert_array_equal(dx.ravel(), [INF, -INF, NAN, -INF, NAN, 5])


def test_running_sums_that_overflow(run):
    large = np.float32(3e38)
    sums = run(scan.cumsum, np.array([large, large, 1, -INF, 1], np.float32), axis=0)
    np.testing.assert_array_equal(sums, [large, INF, INF, NAN, NAN])


REAL_PARTS, IMAGINARY_PARTS = (grid.ravel() for grid in np.meshgrid(SPECIAL_VALUES, SPECIAL_VALUES))
COMPLEX_VALUES = np.empty(REAL_PARTS.size, np.complex64)
COMPLEX_VALUES.real, COMPLEX_VALUES.imag = REAL_PARTS, IMAGINARY_PARTS
COMPLEX_KERNELS = [
    (complex_kernels.real, np.real),
    (complex_kernels.imag, np.imag),
    (complex_kernels.conj, np.conj),
    (complex_kernels.complex_abs, np.abs),
    (unary.negative, np.negative),
    (unary.sqrt, np.sqrt),
    (unary.log, np.log),
    (unary.is_nan, np.isnan),
    (unary.is_inf, np.isinf),
    (unary.is_finite, np.isfinite),
]


@pytest.mark.parametrize(
    ("kernel", "reference"), COMPLEX_KERNELS, ids=lambda v: getattr(v, "name", "")
)
def test_complex_numbers(run, kernel, reference):
    with np.errstate(all="ignore"):
        expected = reference(COMPLEX_VALUES.astype(np.complex128))
        assert_same_parts(
            run(kernel, COMPLEX_VALUES), expected.astype(run(kernel, COMPLEX_VALUES).dtype)
        )


def test_complex_numbers_are_equal_part_by_part(run):
    for kernel, reference in ((binary.equal, np.equal), (binary.not_equal, np.not_equal)):
        for turns in range(3):
            np.testing.assert_array_equal(
                run(kernel, COMPLEX_VALUES, np.roll(COMPLEX_VALUES, turns)),
                reference(COMPLEX_VALUES, np.roll(COMPLEX_VALUES, turns)),
            )


def test_complex_numbers_by_zero(run):
    a, zero = np.complex64([1, 1j, 0, -2 + 0j]), np.complex64([0])
    with np.errstate(all="ignore"):
        assert_same_parts(run(binary.divide, a, zero), a / zero)
    assert np.isnan(run(unary.reciprocal, zero)).all()
    np.testing.assert_array_equal(run(binary.power, np.complex64([0, NAN]), zero), [1, 1])


def test_casts_of_complex_numbers_take_the_real_part(run):
    z = np.complex64([2.7 + 9j, complex(NAN, 1), -1e30 + 1j, 1j, 0])
    np.testing.assert_array_equal(run(unary.cast, z, dtype=float32), z.real)
    np.testing.assert_array_equal(run(unary.cast, z, dtype=int32), [2, 0, -(2**31), 0, 0])
    np.testing.assert_array_equal(run(unary.cast, z, dtype=uint32), [2, 0, 0, 0, 0])
    np.testing.assert_array_equal(run(unary.cast, z, dtype=bool_), [True] * 4 + [False])
    for values in (np.float32([1.5, -0.0]), np.int32([-3, 4]), np.array([True, False])):
        np.testing.assert_array_equal(
            run(unary.cast, values, dtype=complex64), values.astype("complex64")
        )


def assert_same_parts(actual, expected):
    if np.iscomplexobj(expected):
        for part in ("real", "imag"):
            assert_same_values(getattr(actual, part), getattr(expected, part))
    else:
        assert_same_values(actual, expected)


@pytest.mark.parametrize("size", [7, 8, 132])
@pytest.mark.parametrize("is_software", [True, False])
def test_softmax_of_every_kind_of_row(run, monkeypatch, is_software, size):
    monkeypatch.setattr(run.device, "is_software", is_software)
    inf, largest = np.float32(np.inf), np.finfo(np.float32).max
    rows = np.zeros((18, size), np.float32)
    rows[1] = -inf
    rows[2, -1] = -inf
    rows[3, 5] = np.nan
    rows[4, 2] = inf
    rows[5] = -largest
    rows[6] = largest
    rows[7] = np.linspace(-80, 80, size)  # the maximum grows
    rows[8] = np.linspace(80, -80, size)
    with np.errstate(all="ignore"):
        shifted = (rows - rows.max(axis=1, keepdims=True)).astype(np.float64)
        sums = np.exp(shifted).sum(axis=1, keepdims=True)
        expected = np.exp(shifted) / sums, shifted - np.log(sums)
    found = (
        run(normalization.softmax, rows, dim=1),
        run(normalization.log_softmax, rows, axis=1),
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-6, atol=1e-37)
    # The sum is at least 1, to which a float cannot add what is below 6e-8.
    np.testing.assert_allclose(found[1], expected[1], rtol=2e-6, atol=1e-7)
