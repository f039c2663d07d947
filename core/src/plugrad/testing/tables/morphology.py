"""The largest sums of pixels and weights."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.kernels import morphology
from plugrad.testing.definitions import unfolded
from plugrad.testing.rows import FLOATS, Array, Row, different, of_shape, these

IMAGES, FILTER = (2, 5, 6, 2), (3, 2, 2)
HOWS = [
    {"strides": (1, 1), "pad": "valid", "dilations": (1, 1)},
    {"strides": (2, 1), "pad": "same", "dilations": (1, 1)},
    {"strides": (1, 2), "pad": ((1, 0), (0, 1)), "dilations": (1, 2)},
]


def sums(x: Array, filter: Array, how: dict[str, Any]) -> Array:
    """Return the sums of each window on the last axis; the padding is of no account."""
    seen = unfolded(x.astype(float), filter.shape[:2], **how, outside=-np.inf)
    added = seen + np.moveaxis(filter, 2, 0)
    return added.reshape(*added.shape[:4], -1)


def largest(how: dict[str, Any]) -> Callable[..., Array]:
    return lambda x, filter: sums(x, filter, how).max(-1)


def for_image(how: dict[str, Any]) -> Callable[..., Array]:
    def reference(x: Array, filter: Array, dy: Array) -> Array:
        numbered = np.arange(x.size).reshape(x.shape)
        places = unfolded(numbered, filter.shape[:2], **how, outside=-1)
        first = sums(x, filter, how).argmax(-1)[..., None]
        found = np.take_along_axis(places.reshape(*first.shape[:4], -1), first, -1)
        dx = np.zeros(x.size, dy.dtype)
        np.add.at(dx, found.reshape(-1), dy.reshape(-1))
        return dx.reshape(x.shape)

    return reference


def for_filter(how: dict[str, Any]) -> Callable[..., Array]:
    def reference(x: Array, filter: Array, dy: Array) -> Array:
        first = sums(x, filter, how).argmax(-1)
        cells = np.arange(filter.shape[0] * filter.shape[1])
        hits = (first[..., None] == cells) * dy[..., None]
        return np.moveaxis(hits.sum((0, 1, 2)), 0, 1).reshape(filter.shape)

    return reference


ROWS = [
    row
    for how in HOWS
    for dy in [largest(how)(np.zeros(IMAGES), np.zeros(FILTER)).shape]
    for row in [
        Row(morphology.dilation2d, largest(how), [different(*IMAGES), of_shape(*FILTER)], how),
        *(
            Row(
                kernel,
                reference,
                [different(*IMAGES), of_shape(*FILTER), of_shape(*dy)],
                how,
                dtypes=(*FLOATS, "int32"),
                fixed=(0, 1),  # a step would move the largest sum elsewhere
            )
            for kernel, reference in [
                (morphology.dilation2d_input_gradient, for_image(how)),
                (morphology.dilation2d_filter_gradient, for_filter(how)),
            ]
        ),
    ]
] + [
    Row(
        morphology.dilation2d,
        largest(HOWS[1]),
        [these(np.reshape([1, np.nan, 2, 3, -np.inf, 5], (1, 2, 3, 1))), of_shape(2, 2, 1)],
        HOWS[1],
        dtypes=FLOATS,
        is_edge=True,
        is_smooth=False,
    )
]
