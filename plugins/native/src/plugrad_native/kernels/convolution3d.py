"""Convolutions over three axes: the functions in `convolution` take up to three spatial axes."""

from plugrad.kernels import convolution3d
from plugrad_native.declare import table
from plugrad_native.kernels.convolution import correlation, filter_gradient, input_gradient

FILTER_GRADIENT = convolution3d.conv3d_filter_gradient

table.update(
    {
        convolution3d.conv3d: correlation(convolution3d.conv3d),
        convolution3d.conv3d_input_gradient: input_gradient(convolution3d.conv3d_input_gradient),
        FILTER_GRADIENT: filter_gradient(FILTER_GRADIENT),
    }
)
