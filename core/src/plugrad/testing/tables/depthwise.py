"""Test rows of the depthwise convolutions, whose filters each slide over one channel."""

from functools import partial

from plugrad.kernels import depthwise
from plugrad.testing.definitions import convolve
from plugrad.testing.tables.convolution import ConvolutionCase, rows

TEST_ROWS = rows(
    [
        ConvolutionCase((2, 5, 6, 3), (3, 2, 3, 1), (1, 1)),
        ConvolutionCase((1, 5, 6, 2), (3, 3, 2, 2), (2, 2), "same"),
        ConvolutionCase((1, 5, 6, 3), (2, 3, 3, 2), (1, 1), ((1, 0), (2, 1))),
        ConvolutionCase((1, 7, 7, 2), (3, 2, 2, 1), (1, 1), "same", (2, 3)),
        ConvolutionCase((1, 9, 8, 2), (3, 2, 2, 2), (2, 3), ((2, 1), (1, 2)), (2, 3)),
    ],
    depthwise.depthwise_conv2d,
    depthwise.depthwise_conv2d_input_gradient,
    depthwise.depthwise_conv2d_filter_gradient,
    partial(convolve, is_depthwise=True),
)
