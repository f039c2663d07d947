"""Convolutions over three axes: the functions in `convolution` take any number of spatial axes."""

from plugrad.kernels import convolution3d
from plugrad_wasm.declare import table
from plugrad_wasm.kernels.convolution import correlate, filter_gradient, input_gradient

table.update(
    {
        convolution3d.conv3d: correlate,
        convolution3d.conv3d_input_gradient: input_gradient,
        convolution3d.conv3d_filter_gradient: filter_gradient,
    }
)
