"""Elements on a common measure."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import numpy as np

from plugrad.kernels import normalization
from plugrad.testing.definitions import Array
from plugrad.testing.rows import FLOATS, Row, numbers, of_shape, these

INF = np.inf
# Rows and columns of a few elements, of whole vectors and of vectors with a remainder.
ALONG = [((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), 2), ((1, 3, 9), 1), ((2, 21), 1)]
RESPONSE = {"depth_radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75}


def log_softmax(x: Array, axis: int) -> Array:
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def normalized(
    x: Array, mean: Array, variance: Array, offset: Array | None, scale: Array | None
) -> Array:
    y = (x - mean) / np.sqrt(variance + 0.01)
    return y * (1 if scale is None else scale) + (0 if offset is None else offset)


def neighbours(x: Array, radius: int) -> Array:
    """Return the sum of the elements at most `radius` away on the last axis."""
    place = np.arange(x.shape[-1])
    return x @ (np.abs(place[:, None] - place) <= radius)


def response(x: Array) -> Array:
    return x * (1.5 + 0.5 * neighbours(np.square(x), 2)) ** -0.75


def response_gradient(x: Array, y: Array, dy: Array) -> Array:
    s = 1.5 + 0.5 * neighbours(np.square(x), 2)
    return dy * s**-0.75 - 2 * 0.5 * 0.75 * x * neighbours(dy * x * s**-1.75, 2)


ROWS = [
    *(
        Row(
            normalization.softmax,
            lambda x, a=axis: np.exp(log_softmax(x, a)),
            [of_shape(*shape)],
            {"dim": axis},
        )
        for shape, axis in ALONG
    ),
    *(
        Row(
            normalization.log_softmax,
            lambda x, a=axis: log_softmax(x, a),
            [of_shape(*shape)],
            {"axis": axis},
        )
        for shape, axis in ALONG
    ),
    *(
        Row(
            normalization.batch_norm,
            normalized,
            [
                of_shape(2, 3, 4, 5),
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
    Row(
        normalization.local_response_normalization,
        response,
        [of_shape(1, 2, 3, 7)],
        RESPONSE,
    ),
    Row(
        normalization.local_response_normalization_gradient,
        response_gradient,
        [
            these(np.linspace(-2, 2, 14).reshape(1, 1, 2, 7)),
            these(response(np.linspace(-2, 2, 14).reshape(1, 1, 2, 7))),
            of_shape(1, 1, 2, 7),
        ],
        RESPONSE,
        fixed=(0, 1),  # y depends on x
    ),
    *(
        Row(
            kernel,
            lambda x, exact=exact: exact(log_softmax(x, 1)),
            [these([[1000, 1000, -INF], [-1000, 0, 3], [-INF, 0, -INF], [np.nan, 0, 0]])],
            {name: 1},
            dtypes=FLOATS,
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
        [of_shape(2, 0)],
        {"dim": 0},
        is_edge=True,
        is_smooth=False,
    ),
]
