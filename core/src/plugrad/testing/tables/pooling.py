"""Test rows of the pooling of images."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import pooling
from plugrad.testing.definitions import extract_windows, transpose_linear_map
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    Array,
    Row,
    arbitrary_numbers,
    distinct_numbers,
    fixed_values,
)
from plugrad.types.specs import Shape
from plugrad.types.windows import Window, pool_window

NAN, INF = np.nan, np.inf


def window_cells(x: Array, window: Window, padding_value: Any) -> Array:
    """Return the elements that each window covers, along the last axis."""
    seen = extract_windows(x, window, padding_value=padding_value)
    return seen.reshape(*seen.shape[: x.ndim], -1)


def window_maxima(x: Array, window: Window) -> Array:
    """Return the largest element of each window."""
    low = -INF if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return window_cells(x, window, low).max(-1)


def window_average(x: Array, window: Window) -> Array:
    """Return the mean of each window's elements, without the padding."""
    return window_cells(x, window, 0).sum(-1) / window_cells(np.ones(x.shape), window, 0).sum(-1)


def window_argmax(x: Array, window: Window) -> Array:
    """Return the position of the first largest element of each window among all elements."""
    seen = window_cells(x.astype(float), window, -INF)
    first = np.where(np.isnan(seen).any(-1), np.isnan(seen).argmax(-1), seen.argmax(-1))
    numbered = window_cells(np.arange(x.size).reshape(x.shape), window, -1)
    return np.take_along_axis(numbered, first[..., None], -1)[..., 0]


def distinct_pixels(shape: Shape) -> Array:
    """Return images of different numbers."""
    return np.random.default_rng(1).permutation(int(np.prod(shape))).reshape(shape) / 4


def scatter_to_maxima(dy: Array, x: Array, window: Window) -> Array:
    """Return zeros with each element of dy added at the maximum of its window."""
    dx = np.zeros(x.size)
    np.add.at(dx, window_argmax(x, window).reshape(-1), dy.reshape(-1))
    return dx.reshape(x.shape)


def rows(
    cases: list[tuple[Shape, Window]],
    max_pool: Kernel[..., Any],
    max_pool_gradient: Kernel[..., Any],
    avg_pool: Kernel[..., Any],
    avg_pool_gradient: Kernel[..., Any],
) -> list[Row]:
    """Return the rows of the kernels of max and average pooling and of their gradients, for shapes and windows."""
    found: list[Row] = []
    for shape, window in cases:
        attrs = {"window": window}
        result = window_average(np.ones(shape), window).shape
        image = distinct_pixels(shape)
        tied = image % 3
        found += [
            Row(
                max_pool,
                lambda x, window=window: window_maxima(x, window),
                [distinct_numbers(*shape)],
                attrs,
            ),
            Row(
                avg_pool,
                lambda x, window=window: window_average(x, window),
                [arbitrary_numbers(*shape)],
                attrs,
            ),
            *(
                Row(
                    max_pool_gradient,
                    lambda dy, x, y, window=window: scatter_to_maxima(dy, x, window),
                    [
                        arbitrary_numbers(*result),
                        fixed_values(x),
                        fixed_values(window_maxima(x, window)),
                    ],
                    attrs,
                    dtypes=FLOATING_DTYPES,
                    undifferentiated_inputs=(1, 2),  # the images may have ties
                )
                for x in (image, tied)
            ),
            Row(
                avg_pool_gradient,
                lambda dy, x, window=window: transpose_linear_map(
                    lambda x: window_average(x, window), x.shape, dy
                ),
                [arbitrary_numbers(*result), arbitrary_numbers(*shape)],
                attrs,
                dtypes=FLOATING_DTYPES,
            ),
        ]
    return found


IMAGE_POOLING_CASES = [
    (shape, pool_window(shape[1:-1], size, *sliding))
    for shape, size, *sliding in (
        ((2, 4, 6, 3), (2, 2), (2, 2), "valid"),
        ((1, 5, 6, 2), (3, 2), (2, 1), "same"),
        ((1, 5, 5, 1), (3, 3), (2, 2), ((1, 0), (1, 1))),
        ((1, 6, 5, 2), (2, 2), (3, 2), ((1, 1), (0, 0)), (), "ceil"),
    )
]
"""Shapes of images, each with its sliding window."""
DILATED_POOLING_CASES = [
    (shape, pool_window(shape[1:-1], *sliding))
    for shape, *sliding in (
        ((1, 7, 6, 2), (2, 2), (1, 1), "same", (2, 1)),
        ((2, 8, 3), (3,), (2,), "valid", (1,)),
        ((1, 5, 5, 2), (2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1)),
    )
]
"""Input shapes, each with a window that has dilations."""
VOLUME_POOLING_CASE = (
    (1, 4, 3, 4, 2),
    pool_window((4, 3, 4), (2, 2, 2), (1, 1, 2), "valid", (2, 1, 1)),
)
"""The shape of volumes, and their sliding window."""
OVERLAPPING_WINDOWS = pool_window((3, 3), (2, 2), (1, 1), "same")
"""A sliding window whose positions overlap."""

TEST_ROWS = [
    *rows(
        IMAGE_POOLING_CASES,
        pooling.max_pool,
        pooling.max_pool_gradient,
        pooling.avg_pool,
        pooling.avg_pool_gradient,
    ),
    *(
        Row(
            pooling.max_pool_with_argmax,
            lambda x, window=window, share=share: [
                window_maxima(x, window),
                window_argmax(x, window) % (share or x.size),
            ],
            [distinct_numbers(*shape)],
            {"window": window, "include_batch_in_index": not share},
        )
        for shape, window in IMAGE_POOLING_CASES[:3]
        for share in (0, int(np.prod(shape[1:])))
    ),
    *(
        row
        for shape, window in [*DILATED_POOLING_CASES, VOLUME_POOLING_CASE]
        for row in (
            Row(
                pooling.max_pool_with_argmax,
                lambda x, window=window: [
                    window_maxima(x, window),
                    window_argmax(x, window) % (x.size // len(x)),
                ],
                [distinct_numbers(*shape)],
                {"window": window, "include_batch_in_index": False},
            ),
            Row(
                pooling.max_pool_gradient,
                lambda dy, x, y, window=window: scatter_to_maxima(dy, x, window),
                [
                    arbitrary_numbers(*window_maxima(distinct_pixels(shape), window).shape),
                    fixed_values(distinct_pixels(shape)),
                    fixed_values(window_maxima(distinct_pixels(shape), window)),
                ],
                {"window": window},
                dtypes=FLOATING_DTYPES,
                undifferentiated_inputs=(1, 2),
            ),
        )
    ),
    *(
        Row(
            pooling.pool,
            lambda x, summary=summary, window=window: summary(x, window),
            [distinct_numbers(*shape) if kind == "max" else arbitrary_numbers(*shape)],
            {"window": window, "pooling_type": kind},
            dtypes=FLOATING_DTYPES if kind == "avg" else (),
        )
        for shape, window in DILATED_POOLING_CASES
        for kind, summary in (("max", window_maxima), ("avg", window_average))
    ),
    # NaN is the largest, and so is every padded window with nothing but -inf.
    *(
        Row(
            pooling.max_pool,
            lambda x: window_maxima(x, OVERLAPPING_WINDOWS),
            [fixed_values(np.reshape(image, (1, 3, 3, 1)))],
            {"window": OVERLAPPING_WINDOWS},
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
        )
        for image in ([1, NAN, 2, 3, 4, 5, INF, -INF, 0], [-INF] * 9, [-9] * 9)
    ),
]
