"""The largest element and the average of windows."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import FLOATS, REALS, VIEWS, Case, Refusal
from families.domains import Domain, different, uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import pooling

IMAGES = (2, 6, 7, 3)
SLIDING = [
    {"filter_size": 2},
    {"filter_size": 3},
    {"filter_size": (2, 3), "strides": 1},
    {"filter_size": (3, 2), "strides": (1, 2)},
    {"filter_size": 2, "strides": 3},
    {"filter_size": 3, "strides": 2, "pad": "same"},
    {"filter_size": 2, "strides": 1, "pad": "same"},
    {"filter_size": 3, "strides": 2, "pad": 1},
    {"filter_size": (2, 3), "strides": (1, 2), "pad": ((1, 0), (0, 2))},
    {"filter_size": 3, "strides": 2, "pad": 1, "dim_rounding_mode": "ceil"},
    {"filter_size": 3, "strides": (2, 3), "dim_rounding_mode": "ceil"},
    {"filter_size": 3, "strides": (2, 3), "dim_rounding_mode": "round"},
    {"filter_size": 1, "strides": 2},
    {"filter_size": (6, 7)},
]
LARGEST = [
    Case(plugrad.max_pool, windows.max_pool, [different()], [IMAGES], attrs, REALS)
    for attrs in SLIDING
]
AVERAGE = [
    Case(plugrad.avg_pool, windows.avg_pool, [uniform(-2, 2)], [IMAGES], attrs, FLOATS)
    for attrs in SLIDING
]
CASES = [*LARGEST, *AVERAGE]


def complete(attrs):
    """Return the attributes as the kernels get them."""
    size = windows.both(attrs["filter_size"])
    return {
        "filter_size": size,
        "strides": windows.both(attrs.get("strides", size)),
        "pad": windows.four(attrs.get("pad", "valid")),
        "dim_rounding_mode": attrs.get("dim_rounding_mode"),
    }


def gradient_kernels(attrs, images=IMAGES, ties=False):
    """Return the cases of the gradients of both poolings."""
    attrs = complete(attrs)
    x = np.random.default_rng(1).permutation(int(np.prod(images))).reshape(images) / 4
    x = x % 3 if ties else x
    y = windows.max_pool(x, **attrs)
    known = [Domain(lambda rng, shape, dtype, values=v: values.astype(dtype)) for v in (x, y)]
    dy = uniform(-2, 2)
    return [
        Case(
            pooling.max_pool_gradient,
            windows.max_pool_gradient,
            *([dy, *known], [y.shape, images, y.shape], attrs),
        ),
        Case(
            pooling.avg_pool_gradient,
            windows.avg_pool_gradient,
            *([dy, known[0]], [y.shape, images], attrs),
        ),
    ]


KERNELS = [kernel for attrs in SLIDING for kernel in gradient_kernels(attrs)]
WITH_TIES = [gradient_kernels(attrs, ties=True)[0] for attrs in SLIDING]


@pytest.mark.parametrize("case", [*CASES, *KERNELS], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", WITH_TIES, ids=str)
def test_the_first_of_equal_elements_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", [*CASES, *KERNELS[:6]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", [*LARGEST[:9:2], *AVERAGE[1:9:2], *KERNELS[:14:3]], ids=str)
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


@pytest.mark.parametrize("channels", [1, 4, 5])
@pytest.mark.parametrize(
    ("op", "reference"),
    [(plugrad.max_pool, windows.max_pool), (plugrad.avg_pool, windows.avg_pool)],
)
def test_many_elements(op, reference, channels, backend, rng):
    attrs = {"filter_size": 2, "strides": 2, "pad": "same"}
    shape = (2, 201, 203, channels) if channels == 1 else (1, 129, 131, channels)
    Case(op, reference, [uniform(-2, 2)], [shape], attrs).check_values(rng)


def test_images_without_a_batch_axis(backend, rng):
    x = rng.uniform(-2, 2, IMAGES[1:]).astype("float32")
    for op in (plugrad.max_pool, plugrad.avg_pool):
        assert op(x, 2).tolist() == op(x[None], 2)[0].tolist()


def test_special_values(backend):
    x = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    x[0, 1, 1], x[0, 0, 4], x[0, 4, 0] = np.nan, np.inf, -np.inf
    x[0, 2:4, 2:4] = -np.inf
    attrs = {"filter_size": 2}
    Case(plugrad.max_pool, windows.max_pool, [], attrs=attrs).check_values_of([x])
    Case(plugrad.avg_pool, windows.avg_pool, [], attrs=attrs).check_values_of([x])


def test_padding_is_never_the_largest(backend):
    x = plugrad.full((1, 2, 2, 1), -5.0)
    assert plugrad.max_pool(x, 2, 1, 1).numpy().max() == -5


def test_no_images(backend):
    for op in (plugrad.max_pool, plugrad.avg_pool):
        assert op(plugrad.zeros((0, 4, 4, 2)), 2).shape == (0, 2, 2, 2)
        assert op(plugrad.zeros((1, 4, 4, 0)), 2).shape == (1, 2, 2, 0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    images = (1, 6, 7, 1) if case.attrs["filter_size"] == (6, 7) else (1, 5, 4, 2)
    case.with_shapes(images).check_gradient(rng, backend)


@pytest.mark.parametrize(
    "attrs", SLIDING, ids=lambda attrs: " ".join(f"{k}={v}" for k, v in attrs.items())
)
def test_gradient_of_gradients(attrs, backend, rng):
    """Both are linear in dy; where the images change smoothly, the result does not change."""
    images = (1, 6, 7, 1) if attrs["filter_size"] == (6, 7) else (1, 5, 4, 2)
    for case in gradient_kernels(attrs, images):
        fixed = case.drawn(rng, "float64")[1:]

        def of_dy(dy, case=case, fixed=fixed, **attrs):
            rest = [plugrad.asarray(x.astype(dy.dtype), device=dy.device) for x in fixed]
            return case.op(dy, *rest, **attrs)

        Case(of_dy, of_dy, case.domains[:1], case.shapes[:1], case.attrs).check_gradient(
            rng, backend
        )


def image(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(lambda: plugrad.max_pool(image(2, 2), 2), ShapeError, ["max_pool", "(2, 2)", "batch"]),
    Refusal(
        lambda: plugrad.avg_pool(image(1, 2, 2, 1), 3),
        ShapeError,
        ["(3, 3)", "(2, 2)", "pad='same'"],
    ),
    Refusal(
        lambda: plugrad.max_pool(image(1, 4, 4, 1), 0),
        ArgumentValueError,
        ["max_pool", "filter_size=0", "at least 1"],
    ),
    Refusal(
        lambda: plugrad.avg_pool(image(1, 4, 4, 1), 2, (1, 2, 3)),
        ArgumentValueError,
        ["avg_pool", "strides=(1, 2, 3)", "one or 2"],
    ),
    Refusal(
        lambda: plugrad.max_pool(image(1, 4, 4, 1), 2, pad="full"),
        ArgumentValueError,
        ["max_pool", "pad='full'", "'valid'"],
    ),
    Refusal(
        lambda: plugrad.max_pool(image(1, 4, 4, 1), 2, dim_rounding_mode="down"),
        ArgumentValueError,
        ["dim_rounding_mode='down'", "'floor'", "'ceil'"],
    ),
    Refusal(
        lambda: plugrad.max_pool(image(1, 4, 4, 1) > 0, 2),
        DTypeError,
        ["max_pool", "bool", "astype"],
    ),
    Refusal(
        lambda: pooling.avg_pool_gradient(
            image(1, 4, 4, 1), image(1, 4, 4, 1), filter_size=(2, 2), strides=(2, 2), pad="valid"
        ),
        ShapeError,
        ["AvgPoolGrad", "(1, 4, 4, 1)", "(1, 2, 2, 1)"],
    ),
    Refusal(
        lambda: pooling.max_pool_gradient(
            *(image(1, 2, 2, 1), image(1, 4, 4, 1), image(1, 3, 3, 1)),
            filter_size=(2, 2),
            strides=(2, 2),
            pad="valid",
        ),
        ShapeError,
        ["MaxPoolGrad", "(1, 3, 3, 1)", "(1, 2, 2, 1)"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
