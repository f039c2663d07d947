"""Products and convolutions with a bias and an activation, which are applied in place."""

from collections.abc import Callable

import numpy as np

from plugrad.extend import DataFormat, Padding, Rounding, Shape
from plugrad.kernels import fused
from plugrad.kernels.fused import beside_images
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels import activation as activations, convolution, depthwise, linalg

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda y: y,
    "relu": lambda y: np.maximum(y, 0, out=y),
    "relu6": lambda y: np.clip(y, 0, 6, out=y),
    "elu": activations.elu,
    "sigmoid": activations.sigmoid,
}


def add_bias_and_activate(
    y: Array,
    bias: Array | None,
    weights: Array | None,
    activation: str,
    leakyrelu_alpha: float,
    data_format: DataFormat = "NHWC",
) -> Array:
    """Return the activation of y plus the bias; y is overwritten."""
    if bias is not None:
        y += bias.reshape(beside_images(bias.shape, data_format))
    if weights is not None:
        return np.where(y > 0, y, y * weights.reshape(beside_images(weights.shape, data_format)))
    if activation == "leakyrelu":
        return activations.leaky_relu(y, alpha=leakyrelu_alpha)
    return ACTIVATIONS[activation](y)


@table.implements(fused.matmul)
def matmul(
    a: Array,
    b: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the product with its bias and activation."""
    y = linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)


@table.implements(fused.conv2d)
def conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    dim_rounding_mode: Rounding,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the convolution with its bias and activation."""
    y = convolution.correlate(
        x,
        filter,
        strides=strides,
        pad=pad,
        data_format=data_format,
        dilations=dilations,
        dim_rounding_mode=dim_rounding_mode,
    )
    return add_bias_and_activate(
        y, bias, prelu_activation_weights, activation, leakyrelu_alpha, data_format
    )


@table.implements(fused.depthwise_conv2d)
def depthwise_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    dim_rounding_mode: Rounding,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the depthwise convolution with its bias and activation."""
    y = depthwise.depthwise_conv2d(
        x,
        filter,
        strides=strides,
        pad=pad,
        data_format=data_format,
        dilations=dilations,
        dim_rounding_mode=dim_rounding_mode,
    )
    return add_bias_and_activate(
        y, bias, prelu_activation_weights, activation, leakyrelu_alpha, data_format
    )
