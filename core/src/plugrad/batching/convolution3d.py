"""Batching rules of convolutions of volumes, which are those of images."""

from plugrad.batching.convolution import register_convolution_rules
from plugrad.kernels import convolution3d

register_convolution_rules(
    convolution3d.conv3d,
    convolution3d.conv3d_input_gradient,
    convolution3d.conv3d_filter_gradient,
)
