"""Products and convolutions with a bias and an activation, which are applied before a result is stored."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from plugrad.extend import float32
from plugrad.kernels import fused
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.product import Epilogue
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels import activation as activations, convolution, depthwise, linalg

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Window
    from plugrad.kernels.fused import Activation
    from plugrad_webgpu.memory.buffers import GpuArray

ACTIVATION_EXPRESSIONS: dict[Activation, str] = {
    "linear": "x",
    "relu": activations.RELU_WGSL,
    "relu6": activations.RELU6_WGSL,
    "elu": activations.ELU_WGSL,
    "sigmoid": activations.SIGMOID_WGSL,
    "leakyrelu": activations.LEAKY_RELU_WGSL,
    "prelu": activations.PRELU_WGSL,
}
"""The WGSL expression of each activation of `x`."""


@cache
def make_elementwise_epilogue(activation: Activation, has_bias: bool) -> Callable[..., GpuArray]:
    """Return an elementwise implementation of bias and activation, for the given operands."""
    expression, inputs = ACTIVATION_EXPRESSIONS[activation], ["x"]
    if has_bias:
        expression, inputs = re.sub(r"\bx\b", "(y + bias)", expression), ["y", "bias"]
    if activation == "prelu":
        inputs.append("alpha")
    attributes = ["alpha"] if activation == "leakyrelu" else []
    return elementwise(expression, inputs, attributes=attributes)


def add_bias_and_activate(
    y: GpuArray,
    bias: GpuArray | None,
    prelu_weights: GpuArray | None,
    activation: Activation,
    leakyrelu_alpha: float,
) -> GpuArray:
    """Return the activation of y plus the bias."""
    if bias is None and activation == "linear":
        return y
    given = [x for x in (bias, prelu_weights) if x is not None]
    attributes = {"alpha": leakyrelu_alpha} if activation == "leakyrelu" else {}
    return make_elementwise_epilogue(activation, bias is not None)(y, *given, **attributes)


def product_epilogue(
    columns: int,
    bias: GpuArray | None,
    prelu_weights: GpuArray | None,
    activation: Activation,
    leakyrelu_alpha: float,
) -> Epilogue | None:
    """Return the epilogue of a product, or None if the bias or the weights differ between rows."""
    for x in (bias, prelu_weights):
        if x is not None and x.shape not in ((), (1,), (columns,)):
            return None
    return Epilogue(
        ACTIVATION_EXPRESSIONS[activation],
        bias,
        prelu_weights,
        leakyrelu_alpha if activation == "leakyrelu" else None,
        lambda y: add_bias_and_activate(y, bias, prelu_weights, activation, leakyrelu_alpha),
    )


@table.implements(fused.matmul)
def matmul(
    a: GpuArray,
    b: GpuArray,
    bias: GpuArray | None,
    prelu_activation_weights: GpuArray | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: Activation,
    leakyrelu_alpha: float,
) -> GpuArray:
    """Return the product with its bias and activation."""
    how = (bias, prelu_activation_weights, activation, leakyrelu_alpha)
    epilogue = product_epilogue(b.shape[-2 if transpose_b else -1], *how)
    if a.dtype == float32 and epilogue is not None:
        return linalg.multiply_real_matrices(a, b, transpose_a, transpose_b, epilogue)
    y = linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return add_bias_and_activate(y, *how)


@table.implements(fused.conv2d)
def conv2d(
    x: GpuArray,
    filter: GpuArray,
    bias: GpuArray | None,
    prelu_activation_weights: GpuArray | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> GpuArray:
    """Return the convolution with its bias and activation."""
    how = (bias, prelu_activation_weights, activation, leakyrelu_alpha)
    epilogue = product_epilogue(filter.shape[-1], *how)
    y = convolution.convolve(x, filter, window=window, epilogue=epilogue)
    return y if epilogue is not None else add_bias_and_activate(y, *how)


@table.implements(fused.depthwise_conv2d)
def depthwise_conv2d(
    x: GpuArray,
    filter: GpuArray,
    bias: GpuArray | None,
    prelu_activation_weights: GpuArray | None,
    *,
    window: Window,
    activation: Activation,
    leakyrelu_alpha: float,
) -> GpuArray:
    """Return the depthwise convolution with its bias and activation."""
    y = depthwise.depthwise_conv2d(x, filter, window=window)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)
