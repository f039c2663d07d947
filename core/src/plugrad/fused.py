"""Products and convolutions with a bias and an activation in one kernel."""

from plugrad.ops.fused import (
    conv2d as conv2d,
    depthwise_conv2d as depthwise_conv2d,
    matmul as matmul,
)
