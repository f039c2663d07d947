"""Gradients of the convolutions of volumes, declared as in `convolution`."""

from plugrad.gradients.convolution import declare_gradients
from plugrad.kernels.convolution3d import conv3d, conv3d_filter_gradient, conv3d_input_gradient

declare_gradients(conv3d, conv3d_input_gradient, conv3d_filter_gradient)
