"""Test rows of the convolutions of images."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import convolution
from plugrad.testing.definitions import convolve, transpose_linear_map
from plugrad.testing.rows import Array, Row, arbitrary_numbers
from plugrad.types.specs import Shape
from plugrad.types.windows import Padding, sliding_window


class ConvolutionCase(NamedTuple):
    """Images, filters, and how the filters slide."""

    image: Shape
    """The shape of the images."""
    filter: Shape
    """The shape of the filters."""
    strides: Shape
    padding: Padding = "valid"
    dilations: Shape = ()


CONVOLUTION_CASES = [
    ConvolutionCase((2, 5, 6, 3), (3, 2, 3, 4), (1, 1)),
    ConvolutionCase((1, 5, 6, 2), (3, 3, 2, 3), (2, 1), "same"),
    ConvolutionCase((1, 6, 7, 2), (2, 3, 2, 2), (2, 2), ((1, 0), (2, 1))),
    ConvolutionCase((2, 5, 6, 3), (3, 2, 3, 2), (1, 2), "same"),
    ConvolutionCase((1, 7, 7, 2), (3, 2, 2, 3), (1, 1), "same", (2, 3)),
    ConvolutionCase((1, 6, 6, 1), (3, 3, 1, 2), (2, 2), ((1, 1), (1, 1))),
    ConvolutionCase((1, 9, 8, 2), (3, 2, 2, 3), (2, 3), ((2, 1), (1, 2)), (2, 3)),
    ConvolutionCase((1, 9, 9, 4), (3, 3, 4, 4), (3, 2), "same", (2, 2)),
    ConvolutionCase((1, 4, 4, 3), (1, 1, 3, 5), (1, 1)),
    ConvolutionCase((0, 4, 4, 2), (2, 2, 2, 3), (1, 1)),
]
"""The shapes, strides, paddings and dilations that are tested."""


def rows(
    cases: list[ConvolutionCase],
    forward: Kernel[..., Any],
    input_gradient: Kernel[..., Any],
    filter_gradient: Kernel[..., Any],
    reference: Callable[..., Array] = convolve,
) -> list[Row]:
    """Return the rows of the kernels of a convolution and of its two gradients, compared with `reference`."""
    found: list[Row] = []
    for case in cases:
        image, filter, *how = case
        size = filter[:-2]
        attrs = {"window": sliding_window(image[1:-1], size, *how)}
        result = reference(np.zeros(image), np.zeros(filter), **attrs).shape
        is_edge = 0 in image

        def forward_reference(x: Array, w: Array, attrs: dict[str, Any] = attrs) -> Array:
            return reference(x, w, **attrs)

        def input_gradient_reference(
            dy: Array,
            w: Array,
            forward_reference: Callable[..., Array] = forward_reference,
            shape: Shape = image,
        ) -> Array:
            return transpose_linear_map(lambda x: forward_reference(x, w), shape, dy)

        def filter_gradient_reference(
            x: Array,
            dy: Array,
            forward_reference: Callable[..., Array] = forward_reference,
            shape: Shape = filter,
        ) -> Array:
            return transpose_linear_map(lambda w: forward_reference(x, w), shape, dy)

        found += [
            Row(
                forward,
                forward_reference,
                [arbitrary_numbers(*image), arbitrary_numbers(*filter)],
                attrs,
                is_edge=is_edge,
            ),
            Row(
                input_gradient,
                input_gradient_reference,
                [arbitrary_numbers(*result), arbitrary_numbers(*filter)],
                {"input_shape": image, **attrs},
                is_edge=is_edge,
            ),
            Row(
                filter_gradient,
                filter_gradient_reference,
                [arbitrary_numbers(*image), arbitrary_numbers(*result)],
                {"filter_shape": filter, **attrs},
                is_edge=is_edge,
            ),
        ]
    return found


TEST_ROWS = rows(
    CONVOLUTION_CASES,
    convolution.conv2d,
    convolution.conv2d_input_gradient,
    convolution.conv2d_filter_gradient,
)
