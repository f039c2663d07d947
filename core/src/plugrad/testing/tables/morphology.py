"""Test rows of grayscale dilation, the largest sum of a pixel and a weight in each window."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable

import numpy as np

from plugrad.kernels import morphology
from plugrad.testing.definitions import extract_windows
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    Array,
    Row,
    arbitrary_numbers,
    distinct_numbers,
    fixed_values,
)
from plugrad.types.windows import Window, sliding_window

IMAGE_SHAPE, FILTER_SHAPE = (2, 5, 6, 2), (3, 2, 2)
DILATION_WINDOWS = [
    sliding_window(IMAGE_SHAPE[1:3], FILTER_SHAPE[:2], *sliding)
    for sliding in (
        ((1, 1), "valid"),
        ((2, 1), "same"),
        ((1, 2), ((1, 0), (0, 1)), (1, 2)),
    )
]
"""The sliding windows that are tested."""


def window_sums(x: Array, filter: Array, window: Window) -> Array:
    """Return the sums of pixel and weight in each window, along the last axis; sums with padding are -infinity."""
    seen = extract_windows(x.astype(float), window, padding_value=-np.inf)
    added = seen + np.moveaxis(filter, 2, 0)
    return added.reshape(*added.shape[:4], -1)


def make_dilation_reference(window: Window) -> Callable[..., Array]:
    """Return a function that computes a dilation with NumPy."""
    return lambda x, filter: window_sums(x, filter, window).max(-1)


def make_input_gradient_reference(window: Window) -> Callable[..., Array]:
    """Return a function that computes a dilation's gradient for the images with NumPy."""

    def reference(x: Array, filter: Array, dy: Array) -> Array:
        numbered = np.arange(x.size).reshape(x.shape)
        places = extract_windows(numbered, window, padding_value=-1)
        first = window_sums(x, filter, window).argmax(-1)[..., None]
        found = np.take_along_axis(places.reshape(*first.shape[:4], -1), first, -1)
        dx = np.zeros(x.size, dy.dtype)
        np.add.at(dx, found.reshape(-1), dy.reshape(-1))
        return dx.reshape(x.shape)

    return reference


def make_filter_gradient_reference(window: Window) -> Callable[..., Array]:
    """Return a function that computes a dilation's gradient for the filters with NumPy."""

    def reference(x: Array, filter: Array, dy: Array) -> Array:
        first = window_sums(x, filter, window).argmax(-1)
        cells = np.arange(filter.shape[0] * filter.shape[1])
        hits = (first[..., None] == cells) * dy[..., None]
        return np.moveaxis(hits.sum((0, 1, 2)), 0, 1).reshape(filter.shape)

    return reference


SMALL_WINDOW = sliding_window((2, 3), (2, 2), (2, 1), "same")
"""A sliding window for images of 2 × 3 pixels."""
TEST_ROWS = [
    row
    for window in DILATION_WINDOWS
    for dy in [make_dilation_reference(window)(np.zeros(IMAGE_SHAPE), np.zeros(FILTER_SHAPE)).shape]
    for row in [
        Row(
            morphology.dilation2d,
            make_dilation_reference(window),
            [distinct_numbers(*IMAGE_SHAPE), arbitrary_numbers(*FILTER_SHAPE)],
            {"window": window},
        ),
        *(
            Row(
                kernel,
                reference,
                [
                    distinct_numbers(*IMAGE_SHAPE),
                    arbitrary_numbers(*FILTER_SHAPE),
                    arbitrary_numbers(*dy),
                ],
                {"window": window},
                dtypes=(*FLOATING_DTYPES, "int32"),
                undifferentiated_inputs=(0, 1),  # a step would move the largest sum elsewhere
            )
            for kernel, reference in [
                (morphology.dilation2d_input_gradient, make_input_gradient_reference(window)),
                (morphology.dilation2d_filter_gradient, make_filter_gradient_reference(window)),
            ]
        ),
    ]
] + [
    Row(
        morphology.dilation2d,
        make_dilation_reference(SMALL_WINDOW),
        [
            fixed_values(np.reshape([1, np.nan, 2, 3, -np.inf, 5], (1, 2, 3, 1))),
            arbitrary_numbers(2, 2, 1),
        ],
        {"window": SMALL_WINDOW},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
        is_smooth=False,
    )
]
