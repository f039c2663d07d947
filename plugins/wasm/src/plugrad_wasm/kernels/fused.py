"""Products and convolutions with a bias and an activation, which are applied in place."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plugrad.extend import float32
from plugrad.kernels import fused
from plugrad.kernels.fused import ACTIVATIONS, Activation
from plugrad_wasm.bits import attribute_converter
from plugrad_wasm.declare import ExportNames, run_strided, table
from plugrad_wasm.kernels import convolution, depthwise, linalg
from plugrad_wasm.strides import broadcast_strides, merge_axes

if TYPE_CHECKING:
    from plugrad.extend import Window
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

BIAS_AND_ACTIVATION_EXPORTS = ExportNames("finish")
"""The exports that add a bias and apply an activation in place, by dtype."""

CLAMPING_ACTIVATIONS: Final = {
    "linear": (-math.inf, math.inf),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
}
"""By name of an activation: its lower and upper limit, to which products clamp before they store."""


@lru_cache(maxsize=1024)
def describe_bias_and_weights(
    result_shape: Sizes, bias_shape: Sizes, weights_shape: Sizes
) -> Sizes:
    """Return the descriptor of a loop over a result, a bias and PReLU weights, for their shapes."""
    axes = merge_axes(
        result_shape,
        broadcast_strides(bias_shape, result_shape),
        broadcast_strides(weights_shape, result_shape),
    )
    return (len(axes[0]), *axes[0], *axes[1], *axes[2])


def add_bias_and_activate(
    y: WasmArray,
    bias: WasmArray | None,
    prelu_weights: WasmArray | None,
    activation: Activation,
    leakyrelu_alpha: float,
) -> WasmArray:
    """Add the bias to y in place, apply the activation with this name, and return y."""
    if y.size and (bias is not None or activation != "linear"):
        operands = bias, prelu_weights
        shapes = (() if x is None else x.shape for x in operands)
        descriptor = describe_bias_and_weights(y.shape, *shapes)
        attributes = ACTIVATIONS.index(activation), attribute_converter(y.dtype)(leakyrelu_alpha)
        arrays, strides = (y, *operands), (0, 1, 2)
        run_strided(
            y,
            BIAS_AND_ACTIVATION_EXPORTS[y.dtype],
            descriptor,
            arrays,
            strides,
            *attributes,
            work=y.size,
        )
    return y


@table.implements(fused.matmul)
def matmul(
    a: WasmArray,
    b: WasmArray,
    bias: WasmArray | None,
    prelu_activation_weights: WasmArray | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: Activation,
    leakyrelu_alpha: float,
) -> WasmArray:
    """Return the matrix product plus a bias, after an activation."""
    limits = CLAMPING_ACTIVATIONS.get(activation)
    if limits and a.dtype is float32 and len(a.shape) == len(b.shape) == 2:
        plan = linalg.plan_matmul(a.shape, b.shape, transpose_a, transpose_b)
        is_matrix = plan.rows > 1 and plan.columns > 1  # a vector has a kernel of its own
        if is_matrix and plan.depth and (bias is None or bias.shape == plan.shape[1:]):
            return linalg.run_matmul(a, b, plan, (bias, *limits))
    y = linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)


@table.implements(fused.conv2d)
def conv2d(
    x: WasmArray,
    filter: WasmArray,
    bias: WasmArray | None,
    prelu_activation_weights: WasmArray | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> WasmArray:
    """Return the convolution for a `Window` plus a bias, after an activation."""
    limits = CLAMPING_ACTIVATIONS.get(activation)
    if limits and x.dtype is float32 and (bias is None or bias.shape == filter.shape[-1:]):
        return convolution.correlate_with_epilogue(x, filter, window, (bias, *limits))
    y = convolution.correlate_with_epilogue(x, filter, window)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)


@table.implements(fused.depthwise_conv2d)
def depthwise_conv2d(
    x: WasmArray,
    filter: WasmArray,
    bias: WasmArray | None,
    prelu_activation_weights: WasmArray | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> WasmArray:
    """Return the depthwise convolution for a `Window` plus a bias, after an activation."""
    limits = CLAMPING_ACTIVATIONS.get(activation)
    if limits and (bias is None or bias.shape == (filter.shape[2] * filter.shape[3],)):
        return depthwise.correlate_with_epilogue(x, filter, window, (bias, *limits))
    y = depthwise.correlate_with_epilogue(x, filter, window)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)
