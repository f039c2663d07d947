"""Halves in elementwise shaders: the bits of float32 kernels between two casts, and no dispatches for the casts."""

import numpy as np
import pytest

import plugrad
from plugins.webgpu.bits import assert_same_bits
from plugins.webgpu.test_chains import recorded_dispatches  # noqa: F401 - a fixture
from plugrad.extend import KERNELS, broadcast, compute_in_wider_dtype, float16
from plugrad.kernels import unary
from plugrad_webgpu.algorithms.expressions import is_elementwise
from plugrad_webgpu.halves import COMPUTE_DTYPES
from plugrad_webgpu.kernels import table
from plugrad_webgpu.kernels.unary import cast

pytestmark = pytest.mark.usefixtures("run", "webgpu")

HALF_DTYPES = (float16, plugrad.bfloat16)
KERNEL_ATTRIBUTES = {"clip_value_min": -0.5, "clip_value_max": 2.0, "alpha": 0.25}
SHAPES_BY_INPUT_COUNT = {
    1: [[(0,)], [()], [(1,)], [(5,)], [(3, 7)], [(1030,)]],
    2: [
        *([(0,), ()], [(5,), (5,)], [(3, 5), ()], [(3, 5), (5,)], [(3, 1), (1, 5)], [(3, 8), (8,)]),
        *([(4, 1), (4, 8)], [(2, 3, 4), (3, 1)], [(1, 1), (1,)], [(8,), (3, 8)]),
    ],
    3: [[(5,), (5,), (5,)], [(3, 1), (3, 8), (8,)], [(3, 7), (7,), ()], [(3, 8), (), (8,)]],
}
KERNELS_WITHOUT_HALVES = frozenset(
    {
        *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift"),
        *("LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor"),
        *("Complex", "ComplexAbs", "Conj", "Imag", "Real"),
        "NextAfter",  # which looks at the bits of halves
    }
)
"""The elementwise kernels that take no floats, or do not round what float32 gives."""
ELEMENTWISE_KERNELS = {
    config.kernel_name: config.kernel_func
    for config in table
    if is_elementwise(config.kernel_func) and config.kernel_name not in KERNELS_WITHOUT_HALVES
}


def random_with_special_values(rng, shape, dtype):
    """Return numbers of all magnitudes, with some special values."""
    values = np.ldexp(rng.standard_normal(shape), rng.integers(-30, 18, shape))
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape)
    with np.errstate(over="ignore"):
        return np.where(rng.random(shape) < 0.1, special, values).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", HALF_DTYPES, ids=str)
@pytest.mark.parametrize("name", ELEMENTWISE_KERNELS)
def test_halves_have_the_bits_of_float32_between_casts(run, rng, name, dtype):
    kernel = KERNELS[name]
    widened = compute_in_wider_dtype(kernel, ELEMENTWISE_KERNELS[name], cast, COMPUTE_DTYPES)
    attrs = {a: KERNEL_ATTRIBUTES[a] for a in kernel.attributes if a in KERNEL_ATTRIBUTES}
    for shapes in SHAPES_BY_INPUT_COUNT[len(kernel.inputs)]:
        values = [random_with_special_values(rng, shape, dtype) for shape in shapes]
        if name in ("Select", "SelectV2"):
            values[0] = values[0] > 0
        arrays = [run.to_device(x) for x in values]
        found = run.configs[name].kernel_func(*arrays, **kernel.fill_defaults(attrs))
        expected = widened(*arrays, **kernel.fill_defaults(attrs))
        assert found.shape == broadcast(*shapes)
        bits, other = (run.to_host(x) for x in (found, expected))
        assert bits.dtype == other.dtype
        if bits.dtype != bool:
            bits, other = (np.asarray(x, np.float32) for x in (bits, other))
        assert_same_bits(bits, other)


def test_elementwise_kernels_are_among_those_tested():
    assert len(ELEMENTWISE_KERNELS) > 60
    assert {"Add", "Relu", "Tanh", "Exp", "Less", "Maximum"} <= ELEMENTWISE_KERNELS.keys()


@pytest.mark.parametrize("dtype", HALF_DTYPES, ids=str)
@pytest.mark.parametrize("columns", [7, 8])
def test_chains_round_after_each_call(run, rng, dtype, columns):
    x, y = (rng.standard_normal((6, columns)) for _ in range(2))
    b = rng.standard_normal(columns)

    def program(x, y, b):
        z = x * y + b
        return plugrad.relu(z) * z - x, (z / y).astype("float32"), z - z

    def unfused_program(x, y, b):
        """Return the result of separate calls in float32, rounded after each."""
        x, y, b = (plugrad.asarray(v, dtype=dtype) for v in (x, y, b))

        def round_to_half(v):
            return v.astype(dtype).numpy()

        wide = [v.astype("float32") for v in (x, y, b)]
        product = plugrad.asarray(round_to_half(wide[0] * wide[1])).astype("float32")
        z = plugrad.asarray(round_to_half(product + wide[2])).astype("float32")
        squares = plugrad.asarray(round_to_half(plugrad.relu(z) * z)).astype("float32")
        quotient = plugrad.asarray(round_to_half(z / wide[1])).astype("float32").numpy()
        return round_to_half(squares - wide[0]), quotient, round_to_half(z - z)

    expected = unfused_program(x, y, b)
    given = [plugrad.asarray(v, dtype=dtype) for v in (x, y, b)]
    for function in (program, program, program, plugrad.jit(program)):
        for found, value in zip(function(*given), expected, strict=True):
            assert_same_bits(np.asarray(found.numpy(), np.float32), np.asarray(value, np.float32))


def test_infinity_minus_itself_is_not_a_number(run):
    x = plugrad.asarray(np.full(8, np.inf, np.float16))
    for _ in range(3):
        assert np.isnan((plugrad.relu(x) - plugrad.relu(x)).numpy()).all()


def test_a_layer_in_halves_takes_as_many_dispatches_as_products_and_casts(recorded_dispatches):  # noqa: F811
    """The shader after the product also rounds the product's result."""
    x, w, b = (plugrad.ones(shape, dtype="float16") for shape in ((8, 16), (16, 12), (12,)))
    layer = plugrad.jit(lambda x, w, b: plugrad.tanh(x @ w + b) * 2)
    layer(x, w, b).numpy()
    recorded_dispatches.clear()
    layer(x, w, b).numpy()
    assert len(recorded_dispatches) == 4  # two casts, the product, and the rest


def test_a_cast_kernel_of_others_leaves_halves_to_the_backend(run):
    """A replacement that supports only float32 is called only for float32."""
    seen = []

    def own(x, *, dtype):
        seen.append(x.dtype)
        return cast(x, dtype=dtype)

    replaced = run.backend.wrap_implementation(unary.cast.name, own)
    x = run.to_device(np.arange(5, dtype=np.float32))
    assert_same_bits(run.to_host(replaced(x, dtype=float16)), np.arange(5, dtype=np.float16))
    assert seen == []
    replaced(x, dtype=plugrad.int32)
    assert seen == [plugrad.float32]
