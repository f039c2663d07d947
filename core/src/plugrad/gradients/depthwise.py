"""Gradients of the depthwise convolutions, each of which is linear in both inputs, as in `convolution`."""

from plugrad.gradients.convolution import declare_gradients
from plugrad.kernels.depthwise import (
    depthwise_conv2d,
    depthwise_conv2d_filter_gradient,
    depthwise_conv2d_input_gradient,
)

declare_gradients(
    depthwise_conv2d, depthwise_conv2d_input_gradient, depthwise_conv2d_filter_gradient
)
