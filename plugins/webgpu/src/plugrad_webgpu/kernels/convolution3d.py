"""Convolutions over three axes: the functions in `convolution` take any number of spatial axes."""

from plugrad.kernels import convolution3d
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.convolution import convolve, filter_gradient, input_gradient

table.update(
    {
        convolution3d.conv3d: convolve,
        convolution3d.conv3d_input_gradient: input_gradient,
        convolution3d.conv3d_filter_gradient: filter_gradient,
    }
)
