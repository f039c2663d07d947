"""Halves in C: every value is converted as ml_dtypes and NumPy do, and rows give what float32 gives, rounded."""

import importlib.util
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import plugrad
from plugrad_cpu.threads import thread_pool
from plugrad_native import variants
from plugrad_native.declare import C_MIN_BYTES
from plugrad_native.halves import BINARY_KERNEL_NAMES, COMPARISON_NAMES, UNARY_KERNEL_NAMES

pytestmark = pytest.mark.usefixtures("on_cpu")
HALF_DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
RESOLUTION_BY_DTYPE = {"float16": 2**-10, "bfloat16": 2**-7}


@pytest.fixture
def on_cpu():
    with plugrad.use("cpu"):
        yield


def all_values(half):
    return np.arange(1 << 16, dtype=np.uint16).view(HALF_DTYPES[half])


def assert_same_numbers(found, expected):
    with np.errstate(invalid="ignore"):  # of signalling NaN
        found, expected = (x.astype(np.float32) for x in (found, expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_every_value_is_converted(half):
    values = all_values(half)
    wide = plugrad.asarray(values).astype("float32")
    assert_same_numbers(wide.numpy(), values.astype(np.float32))
    assert_same_numbers(wide.astype(half).numpy(), values)


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_every_double_is_rounded_once(half):
    """Rounding to float32 first would move numbers near the midpoint of two half-precision numbers."""
    with np.errstate(invalid="ignore"):
        values = all_values(half).astype(np.float64)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    for factor, side in ((1 + 2.0**-40, 1), (1 - 2.0**-40, -1)):
        given = middles * factor
        expected = np.where(
            (given > middles) if side else (given >= middles), values[1:], values[:-1]
        )
        found = plugrad.asarray(given, dtype="float64").astype(half).numpy().astype(np.float64)
        assert_same_numbers(found, np.where(given == middles, found, expected))


UNARY_KERNELS = [(family, name) for family, names in UNARY_KERNEL_NAMES.items() for name in names]


@pytest.mark.parametrize(("family", "name"), UNARY_KERNELS, ids=[name for _, name in UNARY_KERNELS])
def test_functions_of_every_value(family, name):
    kernel = vars(family)[name]
    x = plugrad.asarray(all_values("bfloat16"))
    expected = kernel(x.astype("float32")).astype("bfloat16")
    assert_same_numbers(kernel(x).numpy(), expected.numpy())


BINARY_KERNELS = [(f, name) for f, names in BINARY_KERNEL_NAMES.items() for name in names] + [
    (next(iter(BINARY_KERNEL_NAMES)), name) for name in COMPARISON_NAMES
]


@pytest.mark.parametrize(
    ("family", "name"), BINARY_KERNELS, ids=[name for _, name in BINARY_KERNELS]
)
@pytest.mark.parametrize(
    "shapes", [((700,), (700,)), ((30, 40), (40,)), ((600,), ()), ((50, 1), (1, 30))]
)
def test_binary_kernels_of_bfloat16(rng, family, name, shapes):
    kernel = vars(family)[name]
    a, b = (plugrad.asarray(rng.normal(size=s).astype(ml_dtypes.bfloat16)) for s in shapes)
    assert a.size * 2 >= C_MIN_BYTES or a.size > 1
    expected = kernel(a.astype("float32"), b.astype("float32"))
    found = kernel(a, b)
    assert found.dtype == ("bool" if name in COMPARISON_NAMES else "bfloat16")
    assert_same_numbers(found.numpy(), expected.astype(found.dtype).numpy())


@pytest.mark.parametrize("half", HALF_DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 1000), (1, 300_000), (40, 257), (2, 3, 64)])
def test_row_kernels_of_halves(rng, half, shape):
    x = plugrad.asarray(rng.normal(0.1, 2, shape).astype(HALF_DTYPES[half]))
    wide = x.astype("float32")
    offset, scale = (plugrad.asarray(rng.normal(size=shape[-1:]), dtype=half) for _ in range(2))
    statistics = [plugrad.asarray(rng.uniform(1, 2, shape[-1:]), dtype=half) for _ in range(2)]

    def results(x, *parts):
        mean, variance, offset, scale = parts
        return {
            "sum": plugrad.sum(x),
            "rows": plugrad.sum(x, axis=-1),
            "mean": plugrad.mean(x, axis=-1, keepdims=True),
            "columns": plugrad.sum(x, axis=0),
            "layer": plugrad.layer_norm(x, offset=offset, scale=scale),
            "plain": plugrad.layer_norm(x),
            "batch": plugrad.batch_norm(x, mean, variance, offset=offset, scale=scale),
            "without": plugrad.batch_norm(x, mean, variance),
        }

    given = (*statistics, offset, scale)
    expected = results(wide, *(part.astype("float32") for part in given))
    for name, found in results(x, *given).items():
        right = expected[name].numpy()
        assert (found.dtype, found.shape) == (half, right.shape)
        size = np.abs(right).max()
        np.testing.assert_allclose(
            found.numpy().astype("float32"),
            right,
            RESOLUTION_BY_DTYPE[half],
            RESOLUTION_BY_DTYPE[half] * size,
            err_msg=name,
        )


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_rows_that_are_empty_or_not_finite(half):
    empty = plugrad.zeros((0, 4), dtype=half)
    assert plugrad.sum(empty).item() == 0
    assert plugrad.layer_norm(empty).shape == (0, 4)
    x = plugrad.asarray([[1, np.nan, 2], [np.inf, 1, 1], [1, 2, 3]], dtype=half)
    assert np.isnan(plugrad.sum(x, axis=1).numpy().astype("float32")).tolist() == [
        True,
        False,
        False,
    ]
    assert np.isnan(plugrad.layer_norm(x).numpy().astype("float32")).all(axis=1).tolist() == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_images_are_those_of_float32_rounded(rng, half):
    x = plugrad.asarray(rng.normal(size=(2, 8, 8, 3)).astype(HALF_DTYPES[half]))
    filters = plugrad.asarray(rng.normal(size=(3, 3, 3, 4)).astype(HALF_DTYPES[half]))
    for function in (
        lambda x, w: plugrad.conv2d(x, w, 1, "same"),
        lambda x, w: plugrad.max_pool(x, 2, strides=2),
        lambda x, w: plugrad.avg_pool(x, 2, strides=2),
        lambda x, w: plugrad.grad(lambda x: plugrad.sum(plugrad.conv2d(x, w) * 0.5))(x),
    ):
        found = function(x, filters)
        expected = function(x.astype("float32"), filters.astype("float32"))
        assert found.dtype == half
        assert_same_numbers(found.numpy(), expected.astype(half).numpy())


MATMUL_SIZES = [
    (64, 64, 64),
    (5, 7, 9),
    (1, 100, 33),
    (40, 50, 3000),
    (9, 49, 1),
    (257, 385, 1025),
    (300, 2, 512),
]


@pytest.mark.parametrize("shape", MATMUL_SIZES, ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_bfloat16(rng, shape, turned):
    """Products are exact in float32, and the errors of sums are smaller than the rounding of the result."""
    rows, columns, depth = shape
    a, b = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns))
    a, b = (x.T if flag else x for x, flag in zip((a, b), turned, strict=True))
    a, b = (np.ascontiguousarray(x).astype(ml_dtypes.bfloat16) for x in (a, b))
    found = plugrad.matmul(
        plugrad.asarray(a), plugrad.asarray(b), transpose_a=turned[0], transpose_b=turned[1]
    )
    wide = [(x.T if flag else x).astype("float64") for x, flag in zip((a, b), turned, strict=True)]
    exact = wide[0] @ wide[1]
    scale = np.abs(wide[0]) @ np.abs(wide[1])
    difference = np.abs(found.numpy().astype("float64") - exact)
    assert (difference <= 2**-8 * np.abs(exact) + 1e-5 * scale).all()


@pytest.mark.parametrize(
    "shapes", [((3, 4, 5, 6), (6, 7)), ((3, 1, 5, 6), (4, 6, 7)), ((5, 6), (2, 6, 7))]
)
def test_many_products_of_bfloat16(rng, shapes):
    a, b = (plugrad.asarray(rng.normal(size=s).astype(ml_dtypes.bfloat16)) for s in shapes)
    expected = (a.astype("float32") @ b.astype("float32")).numpy()
    np.testing.assert_allclose((a @ b).numpy().astype("float32"), expected, 2**-8, 1e-4)


def test_products_of_bfloat16_with_numbers_that_are_not_finite():
    a = np.ones((3, 40), ml_dtypes.bfloat16)
    a[0, 3], a[1, 5], a[1, 6] = np.inf, np.inf, -np.inf
    found = (plugrad.asarray(a) @ plugrad.ones((40, 2), dtype="bfloat16")).numpy().astype("float32")
    np.testing.assert_array_equal(found, [[np.inf] * 2, [np.nan] * 2, [40] * 2])


def test_products_of_bfloat16_do_not_depend_on_the_number_of_threads(rng, monkeypatch):
    """A row of the result does not depend on the number of other rows either."""
    a, b = (plugrad.asarray(rng.normal(size=(700, 700)).astype(ml_dtypes.bfloat16)) for _ in "ab")
    found = []
    for count in (1, 2, 7):
        monkeypatch.setattr(thread_pool, "count", count)
        found.append((a @ b).numpy())
    assert_same_numbers(found[1], found[0])
    assert_same_numbers(found[2], found[0])
    assert_same_numbers((a[:13] @ b).numpy(), found[0][:13])


WINDOW_ATTRIBUTES = {
    "same": {"strides": 1, "padding": "same"},
    "strides": {"strides": 2, "padding": "valid"},
    "dilated": {"strides": 1, "padding": "same", "dilations": 2},
}


@pytest.mark.parametrize("window", WINDOW_ATTRIBUTES.values(), ids=WINDOW_ATTRIBUTES)
@pytest.mark.parametrize(("size", "channels"), [(3, 4), (1, 6), (3, 700), (2, 3)])
def test_convolutions_of_bfloat16(rng, window, size, channels):
    """Even numbers of channels are multiplied in pairs; 700 channels need several parts of a window."""

    def draw(*shape):
        return plugrad.asarray(rng.normal(size=shape).astype(ml_dtypes.bfloat16))

    x, filters = draw(3, 9, 10, channels), draw(size, size, channels, 37)

    def results(x, filters):
        def loss(x, filters):
            return plugrad.sum(plugrad.conv2d(x, filters, **window) * 0.5)

        return [
            plugrad.conv2d(x, filters, **window),
            *plugrad.grad(loss, argnums=(0, 1))(x, filters),
        ]

    expected = results(x.astype("float32"), filters.astype("float32"))
    for found, right in zip(results(x, filters), expected, strict=True):
        assert found.dtype == "bfloat16"
        right = right.numpy()
        largest = np.abs(right).max()
        np.testing.assert_allclose(found.numpy().astype("float32"), right, 2**-7, 1e-5 * largest)


@pytest.mark.parametrize("half", HALF_DTYPES)
@pytest.mark.parametrize("shape", [(1000, 3), (2, 600, 513), (5, 300, 7), (1, 4), (3000, 2)])
@pytest.mark.parametrize("axis", [0, -2])
def test_sums_of_columns_of_halves(rng, half, shape, axis):
    x = plugrad.asarray(rng.uniform(0, 1, shape).astype(HALF_DTYPES[half]))
    for function in (plugrad.sum, plugrad.mean):
        found = function(x, axis=axis).numpy().astype("float32")
        exact = function(x.astype("float64"), axis=axis).numpy()
        np.testing.assert_allclose(found, exact, RESOLUTION_BY_DTYPE[half])


@pytest.mark.parametrize("half", HALF_DTYPES)
@pytest.mark.parametrize("channels", [1, 5, 300])
def test_pooling_is_that_of_float32_rounded(rng, half, channels):
    x = rng.normal(size=(2, 7, 8, channels)).astype(HALF_DTYPES[half])
    x[0, 0, 0, 0], x[0, 3, 3, 0], x[1, 2, 2, 0] = np.nan, -np.inf, np.inf
    x = plugrad.asarray(x)
    for pool in (plugrad.max_pool, plugrad.avg_pool):
        for options in ({"strides": 2}, {"strides": 1, "padding": "same"}, {"dilations": 2}):
            found = pool(x, 3, **options)
            assert_same_numbers(
                found.numpy(), pool(x.astype("float32"), 3, **options).astype(half).numpy()
            )


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_steps_and_arithmetic_of_every_value(half):
    x = plugrad.asarray(all_values(half))
    wide = x.astype("float32")
    assert_same_numbers(plugrad.step(x, 0.3).numpy(), plugrad.step(wide, 0.3).astype(half).numpy())
    other = plugrad.asarray(np.resize([1.5, -3e-5, 6e4, 0.1], x.shape), dtype=half)
    for function in (plugrad.add, plugrad.multiply, plugrad.subtract):
        expected = function(wide, other.astype("float32")).astype(half)
        assert_same_numbers(function(x, other).numpy(), expected.numpy())
        assert_same_numbers(
            function(other[1], x).numpy(),
            function(other[1].astype("float32"), wide).astype(half).numpy(),
        )


VARIANT_PROGRAM = """
import sys
from plugrad_native import variants
loaded = variants.load_variant(sys.argv[1])
variants.current_variant = lambda: loaded
import numpy as np
import plugrad
rng = np.random.default_rng(0)
a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((70, 41), (41, 50)))
with plugrad.use("cpu"):
    halves = [plugrad.asarray(x).astype("bfloat16") for x in (a, b)]
    expected = halves[0].astype("float32").numpy() @ halves[1].astype("float32").numpy()
    found = plugrad.matmul(*halves).astype("float32").numpy()
np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=2.0**-8)
sys.stdout.write(str("plugrad_native.half_products" in sys.modules))
"""


@pytest.mark.parametrize("name", ["_v2", "_v3", "_v4", "_neon"])
def test_every_variant_multiplies_bfloat16_and_only_wide_ones_have_c_for_it(name):
    if importlib.util.find_spec(f"plugrad_native.{name}") is None:
        pytest.skip("it is for another architecture")
    level = variants.load_variant(variants.BASELINE_VARIANTS[name == "_neon"]).x86_64_level()
    if level and int(name.removeprefix("_v")) > level:
        pytest.skip("this processor has other instructions")
    is_wide = variants.load_variant(name).VECTOR_BYTES == 64
    run = subprocess.run(
        [sys.executable, "-c", VARIANT_PROGRAM, name], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (0, str(is_wide)), run.stderr[-2000:]
    if not is_wide:
        with pytest.raises(AttributeError, match="matmul_bfloat16"):
            variants.load_variant(name).kernel("matmul_bfloat16")
