"""Convolutions over three axes: the functions in `convolution` take up to three spatial axes."""

from plugrad.kernels import convolution3d
from plugrad_native.declare import table
from plugrad_native.kernels.convolution import (
    make_convolution,
    make_filter_gradient,
    make_input_gradient,
)

FILTER_GRADIENT_KERNEL = convolution3d.conv3d_filter_gradient
"""The kernel of the gradient of a convolution over three axes with respect to its filters."""

table.update(
    {
        convolution3d.conv3d: make_convolution(convolution3d.conv3d),
        convolution3d.conv3d_input_gradient: make_input_gradient(
            convolution3d.conv3d_input_gradient
        ),
        FILTER_GRADIENT_KERNEL: make_filter_gradient(FILTER_GRADIENT_KERNEL),
    }
)
