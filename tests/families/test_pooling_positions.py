"""Max pooling with indices, max unpooling, and average pooling that counts padding."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import FLOAT_DTYPES, Case, ErrorCase
from families.domains import distinct, uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)

SHAPES_BY_SPATIAL_RANK = {1: (2, 9, 3), 2: (2, 6, 7, 3), 3: (2, 4, 5, 4, 2)}
CHANNELS_FIRST_FORMATS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
WINDOW_ATTRIBUTES = [
    {"size": 2, "dilations": 2, "strides": 1},
    {"size": 3, "strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    {"size": 2, "dilations": 2, "strides": 2, "padding": "same"},
]


def attributes_for_rank(attrs, count):
    """Return the attributes for so many spatial axes."""
    return {"window_size": (attrs["size"],) * count} | {
        k: v for k, v in attrs.items() if k != "size"
    }


def reference_max_pool_with_argmax(x, *, data_format="C", include_batch_in_index=False, **attrs):
    """Return the maxima of windows, and their indices among the elements with channels last."""
    x = windows.to_channels_last(x, data_format)
    how = attrs["window_size"], attrs.get("strides"), attrs.get("padding", "valid")
    rounding, dilations = attrs.get("dim_rounding_mode"), attrs.get("dilations", 1)
    out, seen = windows.pool_windows(x, *how, rounding, dilations)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    found = np.zeros(y.shape, int)
    for stop, cells in seen.items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = (batch * include_batch_in_index, *cells[int(np.argmax(values))][1], channel)
            y[batch, *stop, channel] = np.max(values)
            found[batch, *stop, channel] = np.ravel_multi_index(place, x.shape)
    return [windows.from_channels_last(part, data_format) for part in (y, found)]


def max_pool_with_float_positions(x, **attrs):
    y, positions = plugrad.max_pool_with_argmax(x, **attrs)
    assert positions.dtype == "int32"
    return [y, positions.astype(y.dtype)]


def max_pool_values(x, **attrs):
    return plugrad.max_pool_with_argmax(x, **attrs)[0]


POSITION_CASES = [
    Case(
        *(
            max_pool_with_float_positions,
            reference_max_pool_with_argmax,
            [distinct()],
            [SHAPES_BY_SPATIAL_RANK[count]],
        ),
        {**attributes_for_rank(attrs, count), "include_batch_in_index": counts_all},
        is_differentiable=False,
    )
    for count in (1, 2, 3)
    for attrs, counts_all in zip(WINDOW_ATTRIBUTES, (False, True, True), strict=True)
]
POSITION_CASES += [
    Case(
        *(max_pool_with_float_positions, reference_max_pool_with_argmax, [distinct()]),
        [(shape[0], shape[-1], *shape[1:-1])],
        {"window_size": (2,) * count, "data_format": CHANNELS_FIRST_FORMATS[count]},
    )
    for count, shape in SHAPES_BY_SPATIAL_RANK.items()
]


def reference_average_pool(x, *, window_size, data_format="C", count_include_pad=True, **attrs):
    """Return the averages of windows over the elements inside of the image, and in explicit padding if asked for."""
    x = windows.to_channels_last(x, data_format)
    count = x.ndim - 2
    size, given = windows.per_axis(window_size, count), attrs.get("padding", "valid")
    strides, rounding = attrs.get("strides"), attrs.get("dim_rounding_mode")
    out, seen = windows.pool_windows(x, size, strides, given, rounding, attrs.get("dilations", 1))
    steps = windows.per_axis(strides or size, count)
    gaps = windows.per_axis(attrs.get("dilations", 1), count)
    sides = zip(x.shape[1:-1], size, steps, gaps, out, strict=True)
    pads = [
        windows.count_windows(n, k, s, d, given, axis, rounding)[1]
        for axis, (n, k, s, d, _) in enumerate(sides)
    ]
    ends = [
        n + (given[axis][1] if not isinstance(given, str) else 99)  # "same" counts all
        for axis, n in enumerate(x.shape[1:-1])
    ]
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    for stop, cells in seen.items():
        counted = 0
        for cell in np.ndindex(*size):
            place = [
                p * s + i * d - before
                for p, s, i, d, before in zip(stop, steps, cell, gaps, pads, strict=True)
            ]
            counted += all(-b <= p < e for p, b, e in zip(place, pads, ends, strict=True))
        y[:, *stop] = np.sum([x[:, *place] for _, place in cells], axis=0) / counted
    return windows.from_channels_last(y, data_format)


def with_padding_pairs(attrs, count):
    """Return the attributes with a pair of paddings for each axis."""
    return {**attrs, "padding": windows.padding_pairs(attrs.get("padding", "valid"), count)}


AVERAGE_POOL_CASES = [
    Case(
        op,
        reference_average_pool,
        [uniform(-2, 2)],
        [shape],
        with_padding_pairs(attrs, len(shape) - 2),
        FLOAT_DTYPES,
    )
    for op, shape in (
        (plugrad.avg_pool, SHAPES_BY_SPATIAL_RANK[2]),
        (plugrad.avg_pool3d, SHAPES_BY_SPATIAL_RANK[3]),
    )
    for attrs in (
        {"window_size": 2, "padding": 1, "count_include_pad": True},
        {"window_size": 3, "strides": 2, "padding": 1, "count_include_pad": True},
        {
            "window_size": 3,
            "strides": 3,
            "padding": 1,
            "count_include_pad": True,
            "dim_rounding_mode": "ceil",
        },
        {
            "window_size": 2,
            "strides": 3,
            "padding": 1,
            "count_include_pad": True,
            "dim_rounding_mode": "ceil",
        },
        {"window_size": 2, "strides": 1, "padding": 1, "dilations": 2, "count_include_pad": True},
        {"window_size": 3, "strides": 2, "padding": "same", "count_include_pad": True},
    )
]


@pytest.mark.rows("case", [*POSITION_CASES, *AVERAGE_POOL_CASES], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", AVERAGE_POOL_CASES[::3], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", AVERAGE_POOL_CASES[:6], ids=str)
def test_gradient_of_averages(case, backend, rng):
    case.with_shapes((1, 5, 6, 1)).check_gradient(rng, backend)


@pytest.mark.rows("case", POSITION_CASES[:-3:2], ids=str)
def test_gradient_of_the_largest_elements(case, backend, rng):
    shape = (1, *(4,) * (len(case.shapes[0]) - 2), 1)
    Case(max_pool_values, max_pool_values, case.domains, [shape], case.attrs).check_gradient(
        rng, backend
    )


def max_unpool_of_max_pool(x, **attrs):
    """Return max-unpooled images: the maxima of windows at their positions, zeros elsewhere."""
    y, positions = plugrad.max_pool_with_argmax(x, **attrs)
    shared = {k: v for k, v in attrs.items() if k in ("data_format", "include_batch_in_index")}
    return plugrad.max_unpool(y, positions, x.shape, **shared)


def reference_unpool(x, *, data_format="C", include_batch_in_index=False, **attrs):
    """Return the images with zeros where no window has its maximum."""
    y, positions = reference_max_pool_with_argmax(x, data_format=data_format, **attrs)
    positions = windows.to_channels_last(positions, data_format)
    images = windows.to_channels_last(x, data_format)
    places = positions + np.arange(len(x)).reshape(-1, *(1,) * (x.ndim - 1)) * images[0].size
    found = np.zeros(images.size)
    found[places.ravel()] = windows.to_channels_last(y, data_format).ravel()
    return windows.from_channels_last(found.reshape(images.shape), data_format)


UNPOOL_CASES = [
    Case(max_unpool_of_max_pool, reference_unpool, case.domains, case.shapes, case.attrs)
    for case in POSITION_CASES
]


@pytest.mark.rows("case", UNPOOL_CASES, ids=str)
def test_unpooling_writes_maxima_to_their_positions(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("size", [(2,), (2, 2), (2, 1, 2)], ids=str)
def test_gradient_of_unpooling(size, backend, rng):
    shape = (2, *(4,) * len(size), 2)
    x = plugrad.asarray(rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32"))
    y, positions = plugrad.max_pool_with_argmax(x, size)

    def max_unpool(values):
        places = plugrad.asarray(positions, device=values.device)
        return plugrad.max_unpool(values, places, shape)

    Case(max_unpool, max_unpool, [uniform(-2, 2)], [y.shape]).check_gradient(rng, backend)


def test_images_without_a_batch_axis(backend):
    x = plugrad.reshape(plugrad.arange(16.0), (4, 4, 1))
    y, positions = plugrad.max_pool_with_argmax(x, 2, data_format="NHWC")
    assert positions[:, :, 0].tolist() == [[5, 7], [13, 15]]
    image = plugrad.max_unpool(y, positions, (4, 4, 1), data_format="NHWC")
    assert image.shape == (4, 4, 1)
    assert image.sum().item() == 5 + 7 + 13 + 15


def test_batches_of_zero_images(backend):
    y, positions = plugrad.max_pool_with_argmax(plugrad.zeros((0, 4, 4, 2)), 2)
    assert plugrad.max_unpool(y, positions, (0, 4, 4, 2)).shape == (0, 4, 4, 2)
    assert plugrad.avg_pool(plugrad.zeros((0, 4, 4, 2)), 2, 2, 1, count_include_pad=True).shape == (
        *(0, 3, 3, 2),
    )


def test_examples_are_batched(backend, rng):
    x = plugrad.asarray(rng.permutation(2 * 2 * 16 * 2).reshape(2, 2, 4, 4, 2).astype("float32"))
    together = plugrad.vmap(lambda x: max_unpool_of_max_pool(x, window_size=2))(x).numpy()
    alone = np.stack([max_unpool_of_max_pool(part, window_size=2).numpy() for part in x])
    np.testing.assert_array_equal(together, alone)


def ones(*shape, dtype="float32"):
    return plugrad.ones(shape, dtype=dtype)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.avg_pool(ones(1, 4, 4, 1), 2, count_include_pad="yes"),
        ArgumentError,
        ["avg_pool: count_include_pad='yes'"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool_with_argmax(ones(1, 2, 2, 2, 2, 1), (1,) * 4),
        ArgumentValueError,
        ["window_size=(1, 1, 1, 1)", "one to three"],
    ),
    ErrorCase(
        lambda: plugrad.max_unpool(ones(1, 2, 2, 1), ones(1, 2, 2, 1), (1, 4, 4, 1)),
        DTypeError,
        ["max_unpool: positions are float32", "integers"],
    ),
    ErrorCase(
        lambda: plugrad.max_unpool(ones(1, 2, 2, 1), ones(1, 2, 1, 1, dtype="int32"), (1, 4, 4, 1)),
        ShapeError,
        ["max_unpool", "(1, 2, 2, 1)", "(1, 2, 1, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.max_unpool(ones(1, 2, 2, 1), ones(1, 2, 2, 1, dtype="int32"), (1, 4, 4, 2)),
        ShapeError,
        ["output_shape=(1, 4, 4, 2)", "channels of x"],
    ),
    ErrorCase(
        lambda: plugrad.max_unpool(
            ones(1, 2, 2, 1), ones(1, 2, 2, 1, dtype="int32"), (1, 4, 4, 1), data_format="NHW"
        ),
        ArgumentValueError,
        ["NHW"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_invalid_pooling_positions(error_case, backend):
    error_case.check()


def test_positions_beyond_the_images_are_refused_where_they_are_known(backend):
    far = np.full((1, 2, 2, 1), 99, "int32")
    if backend.startswith("cpu"):
        with pytest.raises(TensorIndexError, match="99"):
            plugrad.max_unpool(ones(1, 2, 2, 1), far, (1, 4, 4, 1))


def test_max_unpool_names_sizes_beyond_all_memory():
    """Python writes no integers of more than 4,300 digits."""
    with pytest.raises(plugrad.errors.ShapeError, match="output_shape must have as many sizes"):
        plugrad.max_unpool(plugrad.ones((1, 2, 2, 1)), plugrad.ones(3, dtype="int32"), 10**5000)
