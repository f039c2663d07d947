"""Morphological functions of images: the largest sums of the cells of a window and of a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ShapeError
from plugrad.kernels import morphology
from plugrad.ops.arguments import promote_operands
from plugrad.ops.windows import resolve_window, restore_layout, to_kernel_layout
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.windows import is_channels_first, sliding_window

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import ImageFormat, PaddingLike


@explain_wrong_calls
def dilation2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    padding: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
) -> Tensor:
    """The largest sum of a pixel and its weight in each window: the gray-scale dilation of images by a filter.

    >>> images = plugrad.asarray([[[0.0], [5.0], [1.0], [0.0]]])
    >>> plugrad.dilation2d(images, [[[0.0], [0.0], [2.0]]], padding="same")[0, :, 0]
    tensor([7., 5., 5., 1.], dtype=float32)

    The result has the axes of x and the dtype to which x and filter promote. Each channel is dilated
    on its own. Among equal sums, the first one in row-major order receives the gradient.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: weights of shape (height, width, channels).
        strides: the distance between neighbouring windows, one number or (vertical, horizontal).
        padding: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal).

    Raises:
        ShapeError: the shapes do not match, or the filter does not fit.
        DTypeError: x or filter holds bools, complex numbers or strings.
        ArgumentValueError: `strides`, `padding`, `data_format` or `dilations` is invalid.
    """
    op = "dilation2d"
    images, weights = promote_operands(x, filter, morphology.dilation2d, op)
    if images.ndim not in (3, 4) or weights.ndim != 3:
        raise ShapeError(
            f"{op}: x must have 3 or 4 axes and filter 3; the shapes are {images.shape} and {weights.shape}"
        )
    has_channels_first = is_channels_first(data_format, 2, op)
    batch = to_kernel_layout(images, 2, has_channels_first)
    how = strides, padding, dilations, None
    window = resolve_window(op, sliding_window, batch.shape, weights.shape[:2], *how)
    return restore_layout(
        morphology.dilation2d(batch, weights, window=window), images, has_channels_first
    )
