"""Functions that slide a filter over images."""

from collections.abc import Sequence
from typing import Any

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import convolution, movement
from plugrad.ops.arguments import promoted
from plugrad.shapes import DataFormat, Rounding, padding_of, sizes_of
from plugrad.tensor import Tensor, TensorLike


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of images with filters.

    >>> images = plugrad.ones((1, 3, 3, 1))
    >>> plugrad.conv2d(images, plugrad.ones((2, 2, 1, 1)), pad="same")[0, :, :, 0]
    tensor([[4., 4., 2.],
            [4., 4., 2.],
            [2., 2., 1.]], dtype=float32)

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: of shape (height, width, input channels, output channels).
        strides: cells between two stops of the filter, one number or (vertical, horizontal).
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: cells between two cells of the filter, one number or (vertical, horizontal).
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ArgumentValueError(f"conv2d: data_format={data_format!r} must be 'NHWC' or 'NCHW'")
    images, filters = promoted(x, filter, convolution.conv2d, "conv2d")
    strides, dilations = (
        sizes_of(strides, 2, "conv2d: strides"),
        sizes_of(dilations, 2, "conv2d: dilations"),
    )
    if max(strides) > 1 and max(dilations) > 1:
        raise ArgumentValueError(
            f"conv2d: strides={strides} and dilations={dilations} cannot both exceed 1"
        )
    is_single = images.ndim == 3
    if is_single:
        images = movement.expand_dims(images, dim=0)
    if images.ndim != 4 or filters.ndim != 4:
        raise ShapeError(
            f"conv2d: x must have 3 or 4 axes and filter 4; the shapes are {images.shape} and {filters.shape}"
        )
    y = convolution.conv2d(
        images,
        filters,
        strides=strides,
        pad=padding_of(pad, 2, "conv2d"),
        data_format=data_format,
        dilations=dilations,
        dim_rounding_mode=dim_rounding_mode,
    )
    return movement.reshape(y, shape=y.shape[1:]) if is_single else y
