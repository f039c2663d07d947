"""Halves in C: every value is converted as ml_dtypes and NumPy do, and rows give what float32 gives, rounded."""

import ml_dtypes
import numpy as np
import pytest

import plugrad
from plugrad_native.declare import MIN_BYTES
from plugrad_native.halves import COMPARISONS, FUNCTIONS, OPERATIONS

pytestmark = pytest.mark.usefixtures("on_cpu")
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
STEPS = {"float16": 2**-10, "bfloat16": 2**-7}


@pytest.fixture
def on_cpu():
    with plugrad.use("cpu"):
        yield


def every_value(half):
    return np.arange(1 << 16, dtype=np.uint16).view(HALVES[half])


def same(found, expected):
    with np.errstate(invalid="ignore"):  # of signalling NaN
        found, expected = (x.astype(np.float32) for x in (found, expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("half", HALVES)
def test_every_value_is_converted(half):
    values = every_value(half)
    wide = plugrad.asarray(values).astype("float32")
    same(wide.numpy(), values.astype(np.float32))
    same(wide.astype(half).numpy(), values)


@pytest.mark.parametrize("half", HALVES)
def test_every_double_is_rounded_once(half):
    """Numbers beside the middle between two halves are nearer to it than float32 can say."""
    with np.errstate(invalid="ignore"):
        values = every_value(half).astype(np.float64)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    for factor, side in ((1 + 2.0**-40, 1), (1 - 2.0**-40, -1)):
        given = middles * factor
        expected = np.where(
            (given > middles) if side else (given >= middles), values[1:], values[:-1]
        )
        found = plugrad.asarray(given, dtype="float64").astype(half).numpy().astype(np.float64)
        same(found, np.where(given == middles, found, expected))


KERNELS = [(family, name) for family, names in FUNCTIONS.items() for name in names]


@pytest.mark.parametrize(("family", "name"), KERNELS, ids=[name for _, name in KERNELS])
def test_functions_of_every_value(family, name):
    kernel = vars(family)[name]
    x = plugrad.asarray(every_value("bfloat16"))
    expected = kernel(x.astype("float32")).astype("bfloat16")
    same(kernel(x).numpy(), expected.numpy())


PAIRS = [(f, name) for f, names in OPERATIONS.items() for name in names] + [
    (next(iter(OPERATIONS)), name) for name in COMPARISONS
]


@pytest.mark.parametrize(("family", "name"), PAIRS, ids=[name for _, name in PAIRS])
@pytest.mark.parametrize(
    "shapes", [((700,), (700,)), ((30, 40), (40,)), ((600,), ()), ((50, 1), (1, 30))]
)
def test_operations(rng, family, name, shapes):
    kernel = vars(family)[name]
    a, b = (plugrad.asarray(rng.normal(size=s).astype(ml_dtypes.bfloat16)) for s in shapes)
    assert a.size * 2 >= MIN_BYTES or a.size > 1
    expected = kernel(a.astype("float32"), b.astype("float32"))
    found = kernel(a, b)
    assert found.dtype == ("bool" if name in COMPARISONS else "bfloat16")
    same(found.numpy(), expected.astype(found.dtype).numpy())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 1000), (1, 300_000), (40, 257), (2, 3, 64)])
def test_rows(rng, half, shape):
    x = plugrad.asarray(rng.normal(0.1, 2, shape).astype(HALVES[half]))
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
            found.numpy().astype("float32"), right, STEPS[half], STEPS[half] * size, err_msg=name
        )


@pytest.mark.parametrize("half", HALVES)
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


@pytest.mark.parametrize("half", HALVES)
def test_images_are_those_of_float32_rounded(rng, half):
    x = plugrad.asarray(rng.normal(size=(2, 8, 8, 3)).astype(HALVES[half]))
    filters = plugrad.asarray(rng.normal(size=(3, 3, 3, 4)).astype(HALVES[half]))
    for function in (
        lambda x, w: plugrad.conv2d(x, w, 1, "same"),
        lambda x, w: plugrad.max_pool(x, 2, strides=2),
        lambda x, w: plugrad.avg_pool(x, 2, strides=2),
        lambda x, w: plugrad.grad(lambda x: plugrad.sum(plugrad.conv2d(x, w) * 0.5))(x),
    ):
        found = function(x, filters)
        expected = function(x.astype("float32"), filters.astype("float32"))
        assert found.dtype == half
        same(found.numpy(), expected.astype(half).numpy())
