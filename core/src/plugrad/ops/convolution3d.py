"""Functions that slide a filter over volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import convolution3d
from plugrad.ops.convolution import run_convolution, run_transposed_convolution
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import PaddingLike, Rounding, VolumeFormat


@explain_wrong_calls
def conv3d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: VolumeFormat = "NDHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of volumes with filters.

    >>> volumes = plugrad.ones((1, 2, 3, 3, 1))
    >>> plugrad.conv3d(volumes, plugrad.ones((2, 2, 2, 1, 1)))[0, 0, :, :, 0]
    tensor([[8., 8.],
            [8., 8.]], dtype=float32)

    The result has the axes of x, with the output channels of the filter and the spatial sizes that
    `conv2d` gives for each axis, and the dtype to which x and filter promote.

    Args:
        x: volumes of shape (batch, depth, height, width, channels), or (batch, channels, depth,
            height, width) for "NCDHW"; the batch axis may be absent, and is then absent from the
            result.
        filter: filters of shape (depth, height, width, input channels of a group, output channels).
        strides: the distance between neighbouring positions of the filter, one number or one for
            each spatial axis.
        padding: "valid", "same", a number of cells, or one pair (before, after) for each spatial axis.
        data_format: "NDHWC" or "NCDHW".
        dilations: the distance between neighbouring cells of the filter, one number or one for each
            spatial axis.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".
        groups: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    how = data_format, strides, padding, dilations, dim_rounding_mode, groups
    return run_convolution(convolution3d.conv3d, "conv3d", 3, x, filter, *how)


@explain_wrong_calls
def conv3d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike | None = None,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: VolumeFormat = "NDHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
    groups: int = 1,
    output_padding: ShapeLike = 0,
) -> Tensor:
    """The transposed convolution of volumes: the product of each cell and a filter, added to a window of the result.

    >>> volumes = plugrad.reshape(plugrad.asarray([1.0, 2.0]), (1, 1, 1, 2, 1))
    >>> filters = plugrad.ones((1, 1, 2, 1, 1))
    >>> plugrad.conv3d_transpose(volumes, filters, (1, 1, 1, 4, 1), 2, "same")[0, 0, 0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv3d` with respect to volumes of the shape of the result, which has
    the dtype to which x and filter promote.

    Args:
        x: volumes as for `conv3d`.
        filter: filters of shape (depth, height, width, output channels of a group, input channels).
        output_shape: the shape of the result: the channels, and the batch axis if x has one,
            included. Volumes of this shape must give the shape of x in `conv3d` with the other
            arguments. The default is as for `conv2d_transpose`.
        strides: the distance between the windows of neighbouring cells, one number or one for each
            spatial axis.
        padding: as for `conv3d`; the padding is cut off from the result.
        data_format: "NDHWC" or "NCDHW".
        dilations: the distance between neighbouring cells of the filter, one number or one for each
            spatial axis.
        dim_rounding_mode: as for `conv3d`.
        groups: as for `conv2d_transpose`.
        output_padding: as for `conv2d_transpose`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument is none of the above.
    """
    op = "conv3d_transpose"
    how = data_format, strides, padding, dilations, dim_rounding_mode, groups, output_padding
    return run_transposed_convolution(
        convolution3d.conv3d_input_gradient, op, 3, x, filter, output_shape, *how
    )
