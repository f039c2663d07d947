"""Test rows of attention, the average of values weighted by how well keys match queries."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

from plugrad.kernels import attention
from plugrad.testing.definitions import Array
from plugrad.testing.rows import FLOATING_DTYPES, Row, arbitrary_numbers, fixed_values, numbers

INF = np.inf
# The axes before the last two, queries, keys, width, size: tiles, and what is left beside them.
ATTENTION_SIZES: list[tuple[Any, ...]] = [
    ((), 3, 5, 4, 2),
    ((2,), 1, 9, 3, 4),
    ((2, 2), 5, 4, 1, 3),
    ((1,), 9, 1, 2, 1),
]
"""Batch shape, queries, keys, head size and value size of each case."""
# Widths that are multiples of eight: blocks of queries and of keys, and what is left beside them.
SMALL_HEAD_SIZES: list[tuple[Any, ...]] = [((3,), 9, 5, 8, 16), ((2,), 35, 43, 24, 8)]
"""Sizes as in `ATTENTION_SIZES`, with small heads."""
LONG_SEQUENCE_SIZES: tuple[Any, ...] = ((), 70, 523, 3, 2)  # beyond a tile in both directions
"""Sizes as in `ATTENTION_SIZES`, with more queries and keys than one tile has."""


def attention_weights(q: Array, k: Array, mask: Array | None) -> Array:
    """Return for each query the weights of the keys: a softmax of the masked scores."""
    s = 0.5 * q @ np.swapaxes(k, -1, -2) + (0 if mask is None else mask)
    s = s - np.nan_to_num(s.max(-1, keepdims=True, initial=-INF), nan=np.nan, posinf=INF, neginf=0)
    total = np.exp(s).sum(-1, keepdims=True)
    return np.exp(s) / np.where(total == 0, 1, total)


def reference_attention(q: Array, k: Array, v: Array, mask: Array | None) -> Array:
    """Return the attention of queries q to keys k with values v, computed with NumPy."""
    return attention_weights(q, k, mask) @ v


def attention_gradients(dy: Array, q: Array, k: Array, v: Array, mask: Array | None) -> list[Array]:
    """Return the gradients for queries, keys and values."""
    p, dp = attention_weights(q, k, mask), dy @ np.swapaxes(v, -1, -2)
    ds = 0.5 * p * (dp - (p * dp).sum(-1, keepdims=True))
    return [ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dy]


def attention_inputs(sizes: tuple[Any, ...], mask: Any) -> list[Any]:
    """Return the inputs queries, keys and values of some sizes, and the mask."""
    batch, queries, keys, width, size = sizes
    given = [(queries, width), (keys, width), (keys, size)]
    return [*(arbitrary_numbers(*batch, *shape) for shape in given), mask]


def masks_of_each_shape(
    batch_shape: tuple[int, ...], query_count: int, key_count: int
) -> list[Any]:
    """Return None, and a mask of each shape that broadcasts to the scores."""
    shapes = [
        (query_count, key_count),
        (*batch_shape, 1, key_count),
        (*batch_shape, query_count, key_count),
    ]
    return [None, *(numbers(-1, 1, shape=shape) for shape in dict.fromkeys(shapes))]


MASK_OF_EXTREMES = [
    *([0, -INF, 0], [-INF, -INF, -INF], [0, 0, 500], [-500, -INF, -INF], [np.nan, 0, 0]),
    *([0, 0, 0], [0, INF, 0], [-8, -8, -8], [0, -100, -80]),
]
"""A mask with rows of infinities, NaN and numbers that overflow the exponential."""
SCALE_ATTRIBUTE = {"scale": 0.5}
"""The kernel attributes of each test row: the factor of the attention scores, by name."""
TEST_ROWS = [
    *(
        Row(
            attention.attention,
            reference_attention,
            attention_inputs(sizes, mask),
            SCALE_ATTRIBUTE,
            tolerance_factor=4,
        )
        for sizes in ATTENTION_SIZES
        for mask in masks_of_each_shape(*sizes[:3])
    ),
    *(
        Row(
            attention.attention_gradient,
            attention_gradients,
            [arbitrary_numbers(*sizes[0], sizes[1], sizes[4]), *attention_inputs(sizes, mask)],
            SCALE_ATTRIBUTE,
            tolerance_factor=4,
        )
        for sizes in ATTENTION_SIZES
        for mask in masks_of_each_shape(*sizes[:3])[::2]
    ),
    *(
        Row(
            kernel,
            reference,
            given,
            SCALE_ATTRIBUTE,
            is_edge=True,
            is_smooth=False,
            dtypes=FLOATING_DTYPES[:1],
            tolerance_factor=8,
        )
        for kernel, reference, given in [
            (attention.attention, reference_attention, attention_inputs(LONG_SEQUENCE_SIZES, None)),
            (
                attention.attention_gradient,
                attention_gradients,
                [
                    arbitrary_numbers(70, 2),
                    *attention_inputs(LONG_SEQUENCE_SIZES, arbitrary_numbers(70, 523)),
                ],
            ),
            *(
                (attention.attention, reference_attention, attention_inputs(sizes, mask))
                for sizes in SMALL_HEAD_SIZES
                for mask in masks_of_each_shape(*sizes[:3])
            ),
            *(
                (
                    attention.attention_gradient,
                    attention_gradients,
                    [
                        arbitrary_numbers(*sizes[0], sizes[1], sizes[4]),
                        *attention_inputs(sizes, mask),
                    ],
                )
                for sizes in SMALL_HEAD_SIZES
                for mask in masks_of_each_shape(*sizes[:3])
            ),
        ]
    ),
    *(
        Row(
            attention.attention,
            reference_attention,
            attention_inputs(sizes, None),
            SCALE_ATTRIBUTE,
            is_edge=True,
            is_smooth=False,
        )
        for sizes in [((), 2, 0, 3, 2), ((0,), 2, 3, 1, 2), ((2,), 0, 3, 1, 2), ((), 2, 3, 0, 2)]
    ),
    *(
        Row(
            attention.attention,
            reference_attention,
            [
                arbitrary_numbers(4, 2),
                arbitrary_numbers(3, 2),
                arbitrary_numbers(3, 2),
                fixed_values(given),
            ],
            SCALE_ATTRIBUTE,
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
        )
        for given in [
            [[0, -INF, 0], [-INF, -INF, -INF], [0, 0, 500], [-500, -INF, -INF]],
            [[np.nan, 0, 0], [0, 0, 0], [0, INF, 0], [-8, -8, -8]],
        ]
    ),
    Row(
        attention.attention_gradient,
        attention_gradients,
        [
            arbitrary_numbers(2, 2),
            arbitrary_numbers(2, 2),
            arbitrary_numbers(3, 2),
            arbitrary_numbers(3, 2),
            fixed_values([[-INF] * 3, [0, -INF, 0]]),
        ],
        SCALE_ATTRIBUTE,
        dtypes=FLOATING_DTYPES,
        is_edge=True,
        is_smooth=False,
    ),
    *(
        Row(
            kernel,
            reference,
            [*before, *attention_inputs(((), 9, 3, 8, 8), fixed_values(MASK_OF_EXTREMES))],
            SCALE_ATTRIBUTE,
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
            tolerance_factor=4,
        )
        for kernel, reference, before in [
            (attention.attention, reference_attention, []),
            (attention.attention_gradient, attention_gradients, [arbitrary_numbers(9, 8)]),
        ]
    ),
]
