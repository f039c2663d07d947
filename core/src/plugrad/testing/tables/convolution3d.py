"""Test rows of the convolutions of volumes."""

from plugrad.kernels import convolution3d
from plugrad.testing.tables.convolution import ConvolutionCase, rows

UNIT_STRIDES = (1, 1, 1)

TEST_ROWS = rows(
    [
        ConvolutionCase((1, 3, 4, 3, 2), (2, 2, 2, 2, 3), UNIT_STRIDES),
        ConvolutionCase((1, 3, 4, 5, 1), (2, 3, 2, 1, 2), (1, 2, 2), "same"),
        ConvolutionCase((2, 3, 3, 4, 2), (2, 2, 2, 2, 1), UNIT_STRIDES, ((1, 0), (0, 1), (1, 1))),
        ConvolutionCase((1, 5, 4, 4, 1), (2, 2, 2, 1, 1), UNIT_STRIDES, "valid", (2, 1, 2)),
        ConvolutionCase(
            (1, 5, 6, 5, 2), (2, 2, 2, 2, 2), (2, 1, 2), ((1, 0), (0, 1), (1, 1)), (2, 2, 3)
        ),
    ],
    convolution3d.conv3d,
    convolution3d.conv3d_input_gradient,
    convolution3d.conv3d_filter_gradient,
)
