"""Products and convolutions with a bias and an activation, which are applied in place, in one pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from plugrad.kernels import convolution as convolutions, fused
from plugrad.kernels.fused import ACTIVATIONS, Activation
from plugrad_cpu.extend import add_bias_and_activate
from plugrad_native.declare import (
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    Array,
    as_contiguous,
    describe_broadcast,
    find_c_functions,
    parallel_strided_loop,
    table,
)
from plugrad_native.kernels import depthwise
from plugrad_native.kernels.convolution import NO_CLIPPING, convolve, make_convolution
from plugrad_native.kernels.linalg import matmul as product

if TYPE_CHECKING:
    from plugrad.extend import Window

C_ADD_BIAS_AND_ACTIVATE = find_c_functions("finish", *FLOAT_DTYPES)
"""The C functions that add a bias to an array and apply an activation in place, by dtype."""

CLAMPING_ACTIVATIONS: Final[dict[str, tuple[float, float]]] = {
    "linear": NO_CLIPPING,
    "relu": (0, math.inf),
    "relu6": (0, 6),
}
"""By name of an activation: its lower and upper limit, to which a convolution clamps before it stores."""

native_conv2d: Final = make_convolution(convolutions.conv2d)
"""The implementation of `conv2d` by C, without a bias and an activation."""


def add_bias_and_activate_in_c(
    y: Array,
    bias: Array | None,
    prelu_weights: Array | None,
    activation: Activation,
    leakyrelu_alpha: float,
) -> Array:
    """Add the bias to y in place, apply the activation called `activation`, and return y."""
    if y.dtype not in C_ADD_BIAS_AND_ACTIVATE or y.size >= MAX_ELEMENTS or not y.flags.c_contiguous:
        return add_bias_and_activate(y, bias, prelu_weights, activation, leakyrelu_alpha)
    if y.size and (bias is not None or activation != "linear"):
        given = [x if x is None else as_contiguous(x) for x in (bias, prelu_weights)]
        shapes = [() if x is None else x.shape for x in given]
        descriptor = describe_broadcast(y.shape, *shapes)
        places = (y, 0), (given[0], 1), (given[1], 2)
        attributes = ACTIVATIONS.index(activation), leakyrelu_alpha
        parallel_strided_loop(
            C_ADD_BIAS_AND_ACTIVATE[y.dtype], places, descriptor, *attributes, work=2 * y.size
        )
    return y


@table.implements(fused.matmul)
def matmul(
    a: Array,
    b: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: Activation,
    leakyrelu_alpha: float,
) -> Array:
    """Return the matrix product plus a bias, after an activation."""
    y = product(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return add_bias_and_activate_in_c(
        y, bias, prelu_activation_weights, activation, leakyrelu_alpha
    )


@table.implements(fused.conv2d)
def conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> Array:
    """Return the convolution for a `Window` plus a bias, after an activation."""
    limits = CLAMPING_ACTIVATIONS.get(activation)
    if limits and (bias is None or bias.shape == filter.shape[-1:]):
        done = convolve(x, filter, window, bias, limits)
        if done is not None:
            return done
    y = native_conv2d(x, filter, window=window)
    return add_bias_and_activate_in_c(
        y, bias, prelu_activation_weights, activation, leakyrelu_alpha
    )


@table.implements(fused.depthwise_conv2d)
def depthwise_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> Array:
    """Return the depthwise convolution for a `Window` plus a bias, after an activation."""
    limits = CLAMPING_ACTIVATIONS.get(activation)
    if limits and (bias is None or bias.shape == (filter.shape[2] * filter.shape[3],)):
        done = depthwise.convolve(x, filter, window, bias, limits)
        if done is not None:
            return done
    y = depthwise.depthwise_conv2d(x, filter, window=window)
    return add_bias_and_activate_in_c(
        y, bias, prelu_activation_weights, activation, leakyrelu_alpha
    )
