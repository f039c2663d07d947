"""Test rows of products and convolutions with a bias and an activation."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import fused
from plugrad.testing.definitions import apply_activation, convolve
from plugrad.testing.rows import Array, Input, Row, arbitrary_numbers
from plugrad.types.specs import Shape
from plugrad.types.windows import sliding_window

# What goes into the activation is an odd number of eighths, away from all kinks. The factors are
# small, so that the steps of finite differences in single precision do not cross a kink.
multiples_of_half = lambda shape: Input(random_multiples(2, 2, 0), shape)  # noqa: E731
"""A function of a shape that returns an input of random multiples of 1/2."""
multiples_of_eighth = lambda shape: Input(random_multiples(32, 4, 1 / 8), shape)  # noqa: E731
"""A function of a shape that returns an input of random multiples of 1/4, plus 1/8."""


def random_multiples(max_numerator: int, denominator: int, offset: float) -> Callable[..., Array]:
    """Return a function that draws random multiples of ``1 / denominator``, plus an offset."""
    return lambda rng, shape, dtype: (
        rng.integers(-max_numerator, max_numerator + 1, shape) / denominator + offset
    ).astype(dtype)


def rows(
    kernel: Kernel[..., Any],
    linear_function: Callable[..., Array],
    a_shape: Shape,
    b_shape: Shape,
    channel_count: int,
    attrs: dict[str, Any],
) -> list[Row]:
    """Return one row per activation with a bias, and one without."""

    def reference(activation: str) -> Callable[..., Array]:
        return lambda a, b, bias, slopes: apply_activation(
            linear_function(a, b) + (0 if bias is None else bias), activation, slopes, 0.2
        )

    inputs = [multiples_of_half(a_shape), multiples_of_half(b_shape)]
    return [
        *(
            Row(
                kernel,
                reference(activation),
                [
                    *inputs,
                    multiples_of_eighth((channel_count,)),
                    arbitrary_numbers(channel_count) if activation == "prelu" else None,
                ],
                {**attrs, "activation": activation},
            )
            for activation in fused.ACTIVATIONS
        ),
        Row(kernel, reference("linear"), [*inputs, None, None], attrs),
    ]


WINDOW_ATTRIBUTE = {"window": sliding_window((4, 5), (3, 2), (1, 2), "same")}
"""The sliding window of the convolutions, as an attribute."""

TEST_ROWS = [
    *rows(
        fused.matmul,
        lambda a, b: np.swapaxes(a, -1, -2) @ b,
        (2, 4, 3),
        (4, 5),
        5,
        {"transpose_a": True},
    ),
    *rows(
        fused.conv2d,
        partial(convolve, **WINDOW_ATTRIBUTE),  # type: ignore[arg-type]
        (1, 4, 5, 2),
        (3, 2, 2, 3),
        3,
        WINDOW_ATTRIBUTE,
    ),
    *rows(
        fused.depthwise_conv2d,
        partial(convolve, **WINDOW_ATTRIBUTE, is_depthwise=True),  # type: ignore[arg-type]
        (1, 4, 5, 2),
        (3, 2, 2, 2),
        4,
        WINDOW_ATTRIBUTE,
    ),
]
