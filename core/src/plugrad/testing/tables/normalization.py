"""Test rows of the kernels that normalize elements."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import math

import numpy as np

from plugrad.kernels import normalization
from plugrad.testing.definitions import Array
from plugrad.testing.rows import FLOATING_DTYPES, Row, arbitrary_numbers, fixed_values, numbers

INF = np.inf
# Rows and columns of a few elements, of whole vectors and of vectors with a remainder.
SHAPES_AND_AXES = [((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), 2), ((1, 3, 9), 1), ((2, 21), 1)]
"""Input shapes, each with the axis along which elements are normalized."""
# Shapes, the axis, and whether there are an offset and a scale: whole vectors, and vectors with a remainder.
LAYER_NORM_CASES = [
    ((3, 8), 1, True, True),
    ((2, 3, 21), 2, False, True),
    ((2, 3, 5), 1, True, False),
    ((7,), 0, False, False),
]
"""Input shape, first normalized axis, and whether there is an offset and a scale."""
BATCH_NORM_CASES = [
    ((9, 8), 1, True, True),
    ((2, 3, 2, 21), 3, False, True),
    ((2, 5, 2, 3), 1, True, False),
    ((7, 1, 2), 0, False, False),
]
"""Input shape, axis of the channels, and whether there is an offset and a scale."""
LRN_ATTRIBUTES = {"depth_radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75}
"""Values for the kernel attributes of local response normalization in test rows, by name."""


def log_softmax(x: Array, axis: int) -> Array:
    """Return the logarithm of the softmax along an axis."""
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def batch_normalize(
    x: Array, mean: Array, variance: Array, offset: Array | None, scale: Array | None
) -> Array:
    """Return x normalized by a given mean and variance, then scaled and shifted by the offset."""
    y = (x - mean) / np.sqrt(variance + 0.01)
    return y * (1 if scale is None else scale) + (0 if offset is None else offset)


def sum_neighbours(x: Array, radius: int) -> Array:
    """Return the sum of the elements at most `radius` away on the last axis."""
    place = np.arange(x.shape[-1])
    return x @ (np.abs(place[:, None] - place) <= radius)


def local_response_normalize(x: Array) -> Array:
    """Return x divided by a power of the sum of its neighbours' squares."""
    return x * (1.5 + 0.5 * sum_neighbours(np.square(x), 2)) ** -0.75


def local_response_gradient(x: Array, y: Array, dy: Array) -> Array:
    """Return the gradient of `local_response_normalize` for x."""
    s = 1.5 + 0.5 * sum_neighbours(np.square(x), 2)
    return dy * s**-0.75 - 2 * 0.5 * 0.75 * x * sum_neighbours(dy * x * s**-1.75, 2)


def average(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean, which is NaN without elements."""
    return x.sum(axes, keepdims=True) / np.float64(math.prod(x.shape[i] for i in axes))


def standardize(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Return x minus its mean over some axes, divided by the standard deviation."""
    centred = x - average(x, axes)
    return centred / np.sqrt(average(np.square(centred), axes) + epsilon)


def layer_normalize(x: Array, offset: Array | None, scale: Array | None, axis: int) -> Array:
    """Return x standardized from an axis on, then scaled and shifted by the offset."""
    h = standardize(x, tuple(range(axis, x.ndim)), 0.01)
    return h * (1 if scale is None else scale) + (0 if offset is None else offset)


def layer_norm_gradients(dy: Array, x: Array, scale: Array | None, axis: int) -> list[Array]:
    """Return the gradients of layer normalization for x, the offset and the scale."""
    axes = tuple(range(axis, x.ndim))
    h, g = standardize(x, axes, 0.01), dy * (1 if scale is None else scale)
    s = 1 / np.sqrt(average(np.square(x - average(x, axes)), axes) + 0.01)
    dx = s * (g - average(g, axes) - h * average(g * h, axes))
    rows = tuple(range(axis))
    return [dx, dy.sum(rows), (dy * h).sum(rows)]


def broadcast_vector_along(x: Array, axis: int, vector: Array | None, default: float) -> Array:
    """Return a vector, or a number if it is None, in a shape that broadcasts to x along an axis."""
    return np.reshape(
        default if vector is None else vector, [-1 if i == axis else 1 for i in range(x.ndim)]
    )


def batch_normalize_training(
    x: Array, offset: Array | None, scale: Array | None, axis: int
) -> list[Array]:
    """Return x normalized by the statistics of its channels, then the means and variances."""
    axes = tuple(i for i in range(x.ndim) if i != axis)
    y = standardize(x, axes, 0.01) * broadcast_vector_along(
        x, axis, scale, 1
    ) + broadcast_vector_along(x, axis, offset, 0)
    means = average(x, axes)
    variances = average(np.square(x - means), axes)
    return [y, means.reshape(-1), variances.reshape(-1)]


def batch_norm_gradients(
    dy: Array, x: Array, mean: Array, variance: Array, scale: Array | None, axis: int
) -> list[Array]:
    """Return the gradients of batch normalization for x, the offset and the scale."""
    axes = tuple(i for i in range(x.ndim) if i != axis)
    inverse = 1 / np.sqrt(broadcast_vector_along(x, axis, variance, 0) + 0.01)
    h = (x - broadcast_vector_along(x, axis, mean, 0)) * inverse
    along = h * average(dy * h, axes)
    dx = inverse * broadcast_vector_along(x, axis, scale, 1) * (dy - average(dy, axes) - along)
    return [dx, dy.sum(axes), (dy * h).sum(axes)]


TEST_ROWS = [
    *(
        Row(
            normalization.softmax,
            lambda x, a=axis: np.exp(log_softmax(x, a)),
            [arbitrary_numbers(*shape)],
            {"dim": axis},
        )
        for shape, axis in SHAPES_AND_AXES
    ),
    *(
        Row(
            normalization.log_softmax,
            lambda x, a=axis: log_softmax(x, a),
            [arbitrary_numbers(*shape)],
            {"axis": axis},
        )
        for shape, axis in SHAPES_AND_AXES
    ),
    *(
        Row(
            normalization.batch_norm,
            batch_normalize,
            [
                arbitrary_numbers(2, 3, 4, 5),
                numbers(shape=shape),
                numbers(0.5, 2, shape=shape),
                numbers(shape=shape) if offset else None,
                numbers(0.5, 2, shape=shape) if scale else None,
            ],
            {"variance_epsilon": 0.01},
        )
        for shape, offset, scale in [
            ((5,), True, True),
            ((5,), False, True),
            ((5,), False, False),
            ((3, 1, 1), True, False),
        ]
    ),
    *(
        Row(
            normalization.layer_norm,
            lambda x, offset, scale, a=axis: layer_normalize(x, offset, scale, a),
            [
                arbitrary_numbers(*shape),
                arbitrary_numbers(*shape[axis:]) if offset else None,
                numbers(0.5, 2, shape=shape[axis:]) if scale else None,
            ],
            {"axis": axis, "variance_epsilon": 0.01},
        )
        for shape, axis, offset, scale in LAYER_NORM_CASES
    ),
    *(
        Row(
            normalization.layer_norm_gradient,
            lambda dy, x, scale, a=axis: layer_norm_gradients(dy, x, scale, a),
            [
                arbitrary_numbers(*shape),
                arbitrary_numbers(*shape),
                numbers(0.5, 2, shape=shape[axis:]) if scale else None,
            ],
            {"axis": axis, "variance_epsilon": 0.01},
        )
        for shape, axis, _, scale in LAYER_NORM_CASES
    ),
    *(
        Row(
            normalization.batch_norm_training,
            lambda x, offset, scale, a=axis: batch_normalize_training(x, offset, scale, a),
            [
                arbitrary_numbers(*shape),
                arbitrary_numbers(shape[axis]) if offset else None,
                numbers(0.5, 2, shape=shape[axis : axis + 1]) if scale else None,
            ],
            {"axis": axis, "variance_epsilon": 0.01},
            tolerance_factor=4,
        )
        for shape, axis, offset, scale in BATCH_NORM_CASES
    ),
    *(
        Row(
            normalization.batch_norm_gradient,
            lambda dy, x, mean, variance, scale, a=axis: batch_norm_gradients(
                dy, x, mean, variance, scale, a
            ),
            [
                arbitrary_numbers(*shape),
                arbitrary_numbers(*shape),
                arbitrary_numbers(shape[axis]),
                numbers(0.5, 2, shape=shape[axis : axis + 1]),
                numbers(0.5, 2, shape=shape[axis : axis + 1]) if scale else None,
            ],
            {"axis": axis, "variance_epsilon": 0.01},
            tolerance_factor=4,
        )
        for shape, axis, _, scale in BATCH_NORM_CASES
    ),
    *(
        Row(
            kernel,
            reference,
            [arbitrary_numbers(*shape), None, None],
            {"axis": 1, "variance_epsilon": 0.01},
            is_edge=True,
            is_smooth=False,
        )
        for kernel, function in [
            (normalization.layer_norm, layer_normalize),
            (normalization.batch_norm_training, batch_normalize_training),
        ]
        for reference in [lambda x, o, s, f=function: f(x, o, s, 1)]
        for shape in [(0, 3), (2, 0), (3, 2, 0)]
    ),
    *(
        Row(
            normalization.layer_norm,
            lambda x, o, s: layer_normalize(x, o, s, 1),
            [
                fixed_values([[np.nan, 0, 1], [INF, 0, 1], [1000, 1000, 1000], [1, 2, 3]]),
                None,
                None,
            ],
            {"axis": 1, "variance_epsilon": 0.01},
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
        ),
    ),
    Row(
        normalization.local_response_normalization,
        local_response_normalize,
        [arbitrary_numbers(1, 2, 3, 7)],
        LRN_ATTRIBUTES,
    ),
    Row(
        normalization.local_response_normalization_gradient,
        local_response_gradient,
        [
            fixed_values(np.linspace(-2, 2, 14).reshape(1, 1, 2, 7)),
            fixed_values(local_response_normalize(np.linspace(-2, 2, 14).reshape(1, 1, 2, 7))),
            arbitrary_numbers(1, 1, 2, 7),
        ],
        LRN_ATTRIBUTES,
        undifferentiated_inputs=(0, 1),  # y depends on x
    ),
    *(
        Row(
            kernel,
            lambda x, exact=exact: exact(log_softmax(x, 1)),
            [fixed_values([[1000, 1000, -INF], [-1000, 0, 3], [-INF, 0, -INF], [np.nan, 0, 0]])],
            {name: 1},
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
        )
        for kernel, name, exact in [
            (normalization.softmax, "dim", np.exp),
            (normalization.log_softmax, "axis", np.copy),
        ]
    ),
    Row(
        normalization.softmax,
        np.copy,
        [arbitrary_numbers(2, 0)],
        {"dim": 0},
        is_edge=True,
        is_smooth=False,
    ),
]
