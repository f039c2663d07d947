"""Max pooling and average pooling of images."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import distinct, repeated_integers, uniform
from families.pools import check_gradient_kernel, gradient_cases
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.extend import pool_window
from plugrad.kernels import pooling

IMAGES_SHAPE = (2, 6, 7, 3)
WINDOW_ATTRIBUTES = [
    {"window_size": 2},
    {"window_size": 3},
    {"window_size": (2, 3), "strides": 1},
    {"window_size": (3, 2), "strides": (1, 2)},
    {"window_size": 2, "strides": 3},
    {"window_size": 3, "strides": 2, "padding": "same"},
    {"window_size": 2, "strides": 1, "padding": "same"},
    {"window_size": 3, "strides": 2, "padding": 1},
    {"window_size": (2, 3), "strides": (1, 2), "padding": ((1, 0), (0, 2))},
    {"window_size": 3, "strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    {"window_size": 3, "strides": (2, 3), "dim_rounding_mode": "ceil"},
    {"window_size": 3, "strides": (2, 3), "dim_rounding_mode": "round"},
    {"window_size": 1, "strides": 2},
    {"window_size": (6, 7)},
]
DILATED_WINDOW_ATTRIBUTES = [
    {"window_size": 2, "dilations": (2, 1)},
    {"window_size": (2, 3), "dilations": 2, "strides": 1, "padding": "same"},
]
CHANNELS_FIRST_ATTRIBUTES = [
    {**attrs, "data_format": "NCHW"}
    for attrs in (*WINDOW_ATTRIBUTES[4:6], DILATED_WINDOW_ATTRIBUTES[0])
]
MAX_POOL_CASES = [
    Case(
        *(plugrad.max_pool, windows.max_pool, [distinct()]),
        *([(2, 3, 6, 7) if "data_format" in attrs else IMAGES_SHAPE], attrs, REAL_DTYPES),
    )
    for attrs in (*WINDOW_ATTRIBUTES, *DILATED_WINDOW_ATTRIBUTES, *CHANNELS_FIRST_ATTRIBUTES)
]
AVERAGE_POOL_CASES = [
    Case(
        *(plugrad.avg_pool, windows.avg_pool, [uniform(-2, 2)]),
        *([(2, 3, 6, 7) if "data_format" in attrs else IMAGES_SHAPE], attrs, FLOAT_DTYPES),
    )
    for attrs in (*WINDOW_ATTRIBUTES, *DILATED_WINDOW_ATTRIBUTES, *CHANNELS_FIRST_ATTRIBUTES)
]
CASES = [*MAX_POOL_CASES, *AVERAGE_POOL_CASES]


GRADIENT_KERNELS = (pooling.max_pool_gradient, pooling.avg_pool_gradient)
GRADIENT_CASES = [
    kernel
    for attrs in WINDOW_ATTRIBUTES
    for kernel in gradient_cases(GRADIENT_KERNELS, attrs, IMAGES_SHAPE)
]
CASES_WITH_TIES = [
    gradient_cases(GRADIENT_KERNELS, attrs, IMAGES_SHAPE, ties=True)[0]
    for attrs in WINDOW_ATTRIBUTES
]


def values_and_positions(values, positions):
    """Return values and positions as floats, so that they can be compared as one list."""
    return [values, positions.astype(values.dtype)]


def max_pool_with_positions(x, **attrs):
    return values_and_positions(*plugrad.max_pool_with_argmax(x, **attrs))


POSITION_CASES = [
    Case(
        *(max_pool_with_positions, windows.max_pool_with_argmax, [domain], [IMAGES_SHAPE]),
        {**attrs, "include_batch_in_index": batch},
        (*FLOAT_DTYPES, "int32", "uint8"),
        is_differentiable=label == "different",  # a tie is a kink
        name=f"max_pool_with_argmax {attrs} {batch} {label}".replace(", ", ","),
    )
    for attrs in WINDOW_ATTRIBUTES
    if "dim_rounding_mode" not in attrs
    for label, domain, batch in [
        ("different", distinct(), False),
        ("ties", repeated_integers(0, 2), True),
    ]
]
IMAGES_AND_WINDOWS = [
    ((2, 6, 7, 3), {"window_size": 2}),
    ((1, 5, 6, 70), {"window_size": 3, "padding": "same"}),
    ((2, 6, 7, 3), {"window_size": (2, 3), "dilations": 2, "strides": 1}),
    ((2, 6, 7, 3), {"window_size": 2, "dilations": (3, 2), "strides": (1, 2)}),
    ((2, 6, 7, 3), {"window_size": 2, "dilations": (2, 1), "padding": "same", "strides": 1}),
    ((2, 6, 7, 3), {"window_size": 3, "dilations": 2, "padding": ((1, 2), (0, 1)), "strides": 2}),
    (
        (2, 6, 7, 3),
        {"window_size": 2, "dilations": 2, "padding": 1, "strides": 2, "dim_rounding_mode": "ceil"},
    ),
    ((2, 9, 3), {"window_size": (3,), "dilations": (2,), "padding": ((2, 1),)}),
    ((2, 9, 3), {"window_size": (2,), "strides": 2}),
    ((2, 3, 4, 5, 2), {"window_size": (2, 1, 2), "strides": 2}),
    ((2, 3, 4, 5, 2), {"window_size": (2, 2, 3), "dilations": (1, 2, 1)}),
    ((1, 2, 3, 2, 3, 2), {"window_size": (2, 2, 1, 2)}),
    ((2, 4, 3, 6, 8), {"window_size": (2, 1, 2), "strides": (2, 1, 2)}),
    ((1, 2, 3, 2, 3, 2), {"window_size": (1, 2, 1, 2), "strides": 1}),
    ((2, 3, 9), {"window_size": (2,), "strides": 1, "data_format": "NCW"}),
    ((2, 2, 3, 4, 5), {"window_size": (2, 1, 2), "dilations": 2, "data_format": "NCDHW"}),
]
POOL_CASES = [
    Case(
        *(plugrad.pool, windows.pool, [domain], [images], {**attrs, "pooling_type": kind}),
        dtypes=(*FLOAT_DTYPES, "int32") if kind == "max" else FLOAT_DTYPES,
    )
    for images, attrs in IMAGES_AND_WINDOWS
    for kind, domain in [("max", distinct()), ("avg", uniform(-2, 2))]
]


def case_id(case):
    return f"{case} {case.shapes[0]}"


CASES_WITH_MANY_CHANNELS = [
    made
    for channels in (8, 70)
    for made in [
        *(
            case.with_shapes((2, 5, 6, channels))
            for case in (
                MAX_POOL_CASES[0],
                AVERAGE_POOL_CASES[0],
                POSITION_CASES[0],
                POSITION_CASES[1],
            )
        ),
        *gradient_cases(GRADIENT_KERNELS, WINDOW_ATTRIBUTES[5], (2, 5, 6, channels), ties=True),
    ]
]
CASES_WITH_TILING_WINDOWS = [  # images that windows of four cells cover, each cell once
    made
    for images, size in [
        ((2, 4, 6, 3), 2),
        ((2, 4, 6, 8), 2),
        ((1, 3, 8, 4), (1, 4)),
        ((2, 8, 3, 68), (4, 1)),
    ]
    for made in [
        replace(MAX_POOL_CASES[0], shapes=[images], attrs={"window_size": size}),
        gradient_cases(GRADIENT_KERNELS, {"window_size": size}, images, ties=True)[0],
    ]
]


@pytest.mark.rows(
    "case",
    [
        *CASES,
        *GRADIENT_CASES,
        *POSITION_CASES,
        *POOL_CASES,
        *CASES_WITH_MANY_CHANNELS,
        *CASES_WITH_TILING_WINDOWS,
    ],
    ids=case_id,
)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES_WITH_TIES, ids=str)
def test_the_first_of_equal_elements_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*CASES, *GRADIENT_CASES[:6], *POSITION_CASES, *POOL_CASES], ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


CASES_TESTED_WITH_VIEWS = [
    *MAX_POOL_CASES[:9:2],
    *AVERAGE_POOL_CASES[1:9:2],
    *GRADIENT_CASES[:14:3],
    *POSITION_CASES[:9:4],
    *POOL_CASES[:9:4],
]


@pytest.mark.rows("case", CASES_TESTED_WITH_VIEWS, ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("channels", [1, 4, 5])
@pytest.mark.parametrize(
    ("op", "reference"),
    [(plugrad.max_pool, windows.max_pool), (plugrad.avg_pool, windows.avg_pool)],
)
def test_many_elements(op, reference, channels, backend, rng):
    attrs = {"window_size": 2, "strides": 2, "padding": "same"}
    shape = (2, 201, 203, channels) if channels == 1 else (1, 129, 131, channels)
    Case(op, reference, [uniform(-2, 2)], [shape], attrs).check_values(rng)


def test_images_without_a_batch_axis(backend, rng):
    x = rng.uniform(-2, 2, IMAGES_SHAPE[1:]).astype("float32")
    for op in (plugrad.max_pool, plugrad.avg_pool):
        assert op(x, 2).tolist() == op(x[None], 2)[0].tolist()


def test_special_values(backend):
    x = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    x[0, 1, 1], x[0, 0, 4], x[0, 4, 0] = np.nan, np.inf, -np.inf
    x[0, 2:4, 2:4] = -np.inf
    attrs = {"window_size": 2}
    Case(plugrad.max_pool, windows.max_pool, [], attrs=attrs).check_values_of_arrays([x])
    Case(plugrad.avg_pool, windows.avg_pool, [], attrs=attrs).check_values_of_arrays([x])


def test_half_precision_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x = plugrad.full((1, 64, 64, 1), 1000, dtype="float16")
    for y in (plugrad.avg_pool(x, 64), plugrad.pool(x, 64, "avg")):
        assert (y.item(), y.dtype) == (1000, "float16")


def test_positions_in_half_precision(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x = plugrad.reshape(plugrad.arange(16, dtype="float16"), (1, 4, 4, 1))
    y, positions = plugrad.max_pool_with_argmax(x, 2)
    assert (y.dtype, positions.dtype) == ("float16", "int32")
    assert y.tolist() == positions.tolist() == [[[[5], [7]], [[13], [15]]]]


def test_padding_is_never_the_largest(backend):
    x = plugrad.full((1, 2, 2, 1), -5.0)
    assert plugrad.max_pool(x, 2, 1, 1).numpy().max() == -5


def test_batches_of_zero_images(backend):
    for op in (plugrad.max_pool, plugrad.avg_pool):
        assert op(plugrad.zeros((0, 4, 4, 2)), 2).shape == (0, 2, 2, 2)
        assert op(plugrad.zeros((1, 4, 4, 0)), 2).shape == (1, 2, 2, 0)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    images = (1, 6, 7, 1) if case.attrs["window_size"] == (6, 7) else (1, 5, 6, 2)
    case.with_shapes(images).check_gradient(rng, backend)


@pytest.mark.rows("case", POOL_CASES, ids=case_id)
def test_gradient_of_pools(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("case", POSITION_CASES[::2], ids=str)
def test_gradient_of_the_values_with_positions(case, backend, rng):
    def values(x, **attrs):
        return plugrad.max_pool_with_argmax(x, **attrs)[0]

    images = (1, 6, 7, 1) if case.attrs["window_size"] == (6, 7) else (1, 5, 4, 2)
    Case(values, values, case.domains, [images], case.attrs).check_gradient(rng, backend)


@pytest.mark.parametrize("attrs", WINDOW_ATTRIBUTES, ids=str)
def test_gradient_of_gradients(attrs, backend, rng):
    images = (1, 6, 7, 1) if attrs["window_size"] == (6, 7) else (1, 5, 4, 2)
    for case in gradient_cases(GRADIENT_KERNELS, attrs, images):
        check_gradient_kernel(case, rng, backend)


@pytest.mark.parametrize("rounding", ["ceil", "round"])
def test_window_beyond_the_image_is_dropped(rounding, backend):
    """The third window would start in the padding after the image; it is dropped as in PyTorch's ceil_mode."""
    x = plugrad.reshape(plugrad.arange(16.0), (1, 4, 4, 1))
    attrs = {"strides": 3, "padding": 1, "dim_rounding_mode": rounding}
    assert plugrad.max_pool(x, 2, **attrs)[0, :, :, 0].tolist() == [[0, 3], [12, 15]]
    assert plugrad.avg_pool(x, 2, **attrs)[0, :, :, 0].tolist() == [[0, 2.5], [10, 12.5]]


def test_largest_below_all_numbers_has_a_position(backend):
    x = plugrad.full((1, 2, 2, 1), -np.inf)
    values, positions = plugrad.max_pool_with_argmax(x, 2, 1, 1)
    assert np.isneginf(values.numpy()).all()
    assert positions[0, :, :, 0].tolist() == [[0, 0, 1], [0, 0, 1], [2, 2, 3]]


def test_nan_is_the_largest_and_the_first_has_the_position(backend):
    x = plugrad.asarray(np.array([[1, np.nan], [np.inf, np.nan]], "float32").reshape(1, 2, 2, 1))
    values, positions = plugrad.max_pool_with_argmax(x, 2)
    assert np.isnan(values.item())
    assert positions.item() == 1


@pytest.mark.parametrize("size", [2, (1, 4)], ids=str)
def test_first_nan_of_a_window_gets_the_gradient(size, backend):
    x = np.arange(64, dtype="float32").reshape(1, 4, 4, 4)
    x[0, 0, 1, 2] = x[0, 1, 1, 2] = x[0, 3, 3, 1] = np.nan
    x[0, 2, 2, 3] = np.inf
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.max_pool(x, size)))(x)
    attrs = {"window_size": size, "strides": size, "padding": "valid"}
    y = windows.max_pool(x, **attrs)
    expected = windows.max_pool_gradient(np.ones_like(y), x, y, **attrs)
    np.testing.assert_array_equal(gradient.numpy(), expected)


def ones_image(*shape):
    return plugrad.ones(shape)


CUBIC_WINDOW = pool_window((4,) * 3, (2,) * 3, (2,) * 3, "valid")
DILATED_WINDOW = pool_window((4, 4), (2, 2), (1, 1), "valid", (2, 2))

ERROR_CASES = [
    ErrorCase(
        lambda: pooling.max_pool(ones_image(1, 4, 4, 1), window=DILATED_WINDOW),
        ArgumentValueError,
        ["MaxPool: ", "dilations=(2, 2)", "use Pool"],
    ),
    ErrorCase(
        lambda: pooling.pool(ones_image(1, 5, 4, 1), window=DILATED_WINDOW, pooling_type="max"),
        ShapeError,
        ["Pool: ", "out=(2, 2)", "(1, 5, 4, 1)", "(3, 2) positions", "pool_window"],
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(1, 2, 2, 2, 2, 1), (1,) * 4, "max", data_format="NHWC"),
        ArgumentValueError,
        ["pool: ", "4 spatial axes", "omit data_format='NHWC'"],
    ),
    *(
        ErrorCase(
            lambda op=op: op(ones_image(1, 4, 4, 1), 2, padding=2),
            ShapeError,
            ["(2, 2)", "(4, 4)", "in the padding", "less padding"],
        )
        for op in (plugrad.max_pool, plugrad.avg_pool, plugrad.max_pool_with_argmax)
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(1, 2, 2, 1), 2, "max", 1, ((3, 2), (2, 3)), dilations=4),
        ShapeError,
        ["dilations (4, 4)", "in the padding"],
    ),
    ErrorCase(
        lambda: plugrad.avg_pool(plugrad.ones((1, 4, 4, 1), dtype="int32"), 2),
        DTypeError,
        ["avg_pool: x is int32", "a float", "plugrad.astype(x, 'float32')", "scale"],
    ),
    ErrorCase(
        lambda: plugrad.pool(np.ones((1, 4, 4, 1), "int32"), 2, "avg"),
        DTypeError,
        ["pool: x is int32", "a float", "plugrad.astype(x, 'float32')"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(
            ones_image(1, 4, 4, 1), 2, padding="same", dim_rounding_mode="ceil"
        ),
        ArgumentValueError,
        ["max_pool", "dim_rounding_mode='ceil'", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(1, 4, 4, 1), 2, "sum"),
        ArgumentValueError,
        ["pool", "pooling_type='sum'", "'avg'"],
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(4, 4, 1), (2, 2, 2), "avg"),
        ShapeError,
        ["pool", "(4, 4, 1)", "4 or 5 axes"],
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(1, 4), (2, 2), "avg"),
        ShapeError,
        ["pool", "(1, 4)", "4 axes"],
    ),
    ErrorCase(
        lambda: plugrad.pool(ones_image(1, 4, 4, 1), 2, "max", dilations=0),
        ArgumentValueError,
        ["pool: dilations=0", "at least 1"],
    ),
    ErrorCase(
        lambda: pooling.max_pool(ones_image(1, 4, 4, 4, 1), window=CUBIC_WINDOW),
        ShapeError,
        ["2 spatial axes", "(1, 4, 4, 4, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(ones_image(2, 2), 2), ShapeError, ["max_pool", "(2, 2)", "batch"]
    ),
    ErrorCase(
        lambda: plugrad.avg_pool(ones_image(1, 2, 2, 1), 3),
        ShapeError,
        ["(3, 3)", "(2, 2)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(ones_image(1, 4, 4, 1), 0),
        ArgumentValueError,
        ["max_pool", "window_size=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.avg_pool(ones_image(1, 4, 4, 1), 2, (1, 2, 3)),
        ArgumentValueError,
        ["avg_pool", "strides=(1, 2, 3)", "one or 2"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(ones_image(1, 4, 4, 1), 2, padding="full"),
        ArgumentValueError,
        ["max_pool", "padding='full'", "'valid'"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(ones_image(1, 4, 4, 1), 2, dim_rounding_mode="down"),
        ArgumentValueError,
        ["dim_rounding_mode='down'", "'floor'", "'ceil'"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool(ones_image(1, 4, 4, 1) > 0, 2),
        DTypeError,
        ["max_pool", "bool", "astype"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(pooling.avg_pool_gradient)(
            ones_image(1, 4, 4, 1),
            ones_image(1, 4, 4, 1),
            window_size=(2, 2),
            strides=(2, 2),
            padding="valid",
        ),
        ShapeError,
        ["AvgPoolGrad", "(1, 4, 4, 1)", "(1, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(pooling.max_pool_gradient)(
            *(ones_image(1, 2, 2, 1), ones_image(1, 4, 4, 1), ones_image(1, 3, 3, 1)),
            window_size=(2, 2),
            strides=(2, 2),
            padding="valid",
        ),
        ShapeError,
        ["MaxPoolGrad", "(1, 3, 3, 1)", "(1, 2, 2, 1)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
