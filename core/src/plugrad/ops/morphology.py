"""Functions that take the largest sums of the cells of a window and of a filter."""

from collections.abc import Sequence
from typing import Any

from plugrad.errors import ShapeError
from plugrad.kernels import morphology, movement
from plugrad.ops.arguments import promoted
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.windows import DataFormat, format_of, padding_of, sizes_of


def dilation2d(
    x: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NHWC",
    dilations: int | Sequence[int] = 1,
) -> Tensor:
    """The largest sum of a pixel and its weight in each window: images dilated by a filter.

    >>> images = plugrad.asarray([[[0.0], [5.0], [1.0], [0.0]]])
    >>> plugrad.dilation2d(images, [[[0.0], [0.0], [2.0]]], pad="same")[0, :, 0]
    tensor([7., 5., 5., 1.], dtype=float32)

    Channels do not mix. Of equal sums, the first one, row by row, gets the gradient.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: weights of shape (height, width, channels).
        strides: cells between two stops of the filter, one number or (vertical, horizontal).
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)); padding cells
            are never the largest.
        data_format: "NHWC" or "NCHW".
        dilations: cells between two cells of the filter, one number or (vertical, horizontal).

    Raises:
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    op = "dilation2d"
    images, weights = promoted(x, filter, morphology.dilation2d, op)
    if images.ndim not in (3, 4) or weights.ndim != 3:
        raise ShapeError(
            f"{op}: x must have 3 or 4 axes and filter 3; the shapes are {images.shape} and {weights.shape}"
        )
    is_last = format_of(data_format, 2, op) == "NHWC"
    is_single = images.ndim == 3
    if is_single:
        images = movement.expand_dims(images, dim=0)
    y = morphology.dilation2d(
        images if is_last else movement.transpose(images, perm=(0, 2, 3, 1)),
        weights,
        strides=sizes_of(strides, 2, f"{op}: strides"),
        pad=padding_of(pad, 2, op),
        dilations=sizes_of(dilations, 2, f"{op}: dilations"),
    )
    y = y if is_last else movement.transpose(y, perm=(0, 3, 1, 2))
    return movement.reshape(y, shape=y.shape[1:]) if is_single else y
