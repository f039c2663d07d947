"""Functions that slide a filter over volumes."""

from collections.abc import Sequence
from typing import Any

from plugrad.kernels import convolution3d
from plugrad.ops.convolution import slid, sliding, spread
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.windows import DataFormat, Rounding


def conv3d(
    x: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NDHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of volumes with filters.

    >>> volumes = plugrad.ones((1, 2, 3, 3, 1))
    >>> plugrad.conv3d(volumes, plugrad.ones((2, 2, 2, 1, 1)))[0, 0, :, :, 0]
    tensor([[8., 8.],
            [8., 8.]], dtype=float32)

    Args:
        x: volumes of shape (batch, depth, height, width, channels), or (batch, channels, depth,
            height, width) for "NCDHW"; the batch axis may be absent, and is then absent from the
            result.
        filter: of shape (depth, height, width, input channels, output channels).
        strides: cells between two stops of the filter, one number or one for each spatial axis.
        pad: "valid", "same", a number of cells, or one (before, after) for each spatial axis.
        data_format: "NDHWC" or "NCDHW".
        dilations: cells between two cells of the filter, one number or one for each spatial axis.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    attrs = sliding("conv3d", 3, strides, pad, data_format, dilations, dim_rounding_mode)
    return slid(convolution3d.conv3d, "conv3d", x, filter, attrs)


def conv3d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: Sequence[int],
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NDHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The transpose of a convolution: each cell, times a filter, is added to a window of the result.

    >>> volumes = plugrad.reshape(plugrad.asarray([1.0, 2.0]), (1, 1, 1, 2, 1))
    >>> filters = plugrad.ones((1, 1, 2, 1, 1))
    >>> plugrad.conv3d_transpose(volumes, filters, (1, 1, 1, 4, 1), 2, "same")[0, 0, 0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv3d` for volumes of shape `output_shape`.

    Args:
        x: volumes as for `conv3d`.
        filter: of shape (depth, height, width, output channels, input channels).
        output_shape: the shape of the result, with the batch axis if x has one and the channels.
            `conv3d` with the other arguments must bring it to the shape of x.
        strides: cells between the windows of two cells, one number or one for each spatial axis.
        pad: as for `conv3d`: what is cut off from the result.
        data_format: "NDHWC" or "NCDHW".
        dilations: cells between two cells of the filter, one number or one for each spatial axis.
        dim_rounding_mode: as for `conv3d`.

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument makes no sense.
    """
    op = "conv3d_transpose"
    attrs = sliding(op, 3, strides, pad, data_format, dilations, dim_rounding_mode)
    return spread(convolution3d.conv3d_input_gradient, op, x, filter, output_shape, attrs)
