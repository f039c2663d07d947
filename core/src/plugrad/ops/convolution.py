"""Functions that slide a filter over images."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import convolution, movement
from plugrad.ops.arguments import check_floats, promoted
from plugrad.ops.attributes import chosen
from plugrad.types.shapes import shape_of
from plugrad.types.windows import format_of, padding_of, sizes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike
    from plugrad.types.windows import DataFormat, ImageFormat, PaddingLike, Rounding

SequenceFormat = Literal["NWC", "NCW"]
_AS_IMAGES: Final[dict[str, ImageFormat]] = {"NWC": "NHWC", "NCW": "NCHW"}


def conv1d(
    x: TensorLike,
    filter: TensorLike,
    stride: int = 1,
    pad: PaddingLike = "valid",
    *,
    data_format: SequenceFormat = "NWC",
    dilation: int = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of sequences with filters.

    >>> steps = plugrad.asarray([[1.0], [2.0], [4.0], [8.0]])
    >>> plugrad.conv1d(steps, [[[-1.0]], [[1.0]]])[:, 0]
    tensor([1., 2., 4.], dtype=float32)

    The result has the axes of x, with the output channels of the filter and as many elements along
    the width as `conv2d` gives, and the dtype to which x and filter promote.

    Args:
        x: sequences of shape (batch, width, channels), or (batch, channels, width) for "NCW"; the
            batch axis may be absent, and is then absent from the result.
        filter: filters of shape (width, input channels, output channels).
        stride: the distance between neighbouring positions of the filter.
        pad: "valid", "same", a number of cells, or ((before, after),).
        data_format: "NWC" or "NCW".
        dilation: the distance between neighbouring cells of the filter.
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    chosen(data_format, tuple(_AS_IMAGES), "conv1d", "data_format")
    check_floats("conv1d", x=x, filter=filter)
    sequences, filters = promoted(x, filter, convolution.conv2d, "conv1d")
    if sequences.ndim not in (2, 3) or filters.ndim != 3:
        raise ShapeError(
            "conv1d: x must have 2 or 3 axes and filter 3; the shapes are "
            f"{sequences.shape} and {filters.shape}"
        )
    # Sequences are images of height 1.
    height = sequences.ndim - (2 if data_format == "NWC" else 1)
    padding = padding_of(pad, 1, "conv1d")
    attrs = sliding(
        "conv1d",
        2,
        strides=(1, *sizes_of(stride, 1, "conv1d: stride")),
        pad=padding if isinstance(padding, str) else ((0, 0), *padding),
        data_format=_AS_IMAGES[data_format],
        dilations=(1, *sizes_of(dilation, 1, "conv1d: dilation")),
        rounding=dim_rounding_mode,
    )
    images = movement.expand_dims(sequences, dim=height)
    try:
        y = slid(convolution.conv2d, "conv1d", images, movement.expand_dims(filters, dim=0), attrs)
    except ShapeError as error:  # it names the shapes of the images
        raise ShapeError(
            f"conv1d: x of shape {sequences.shape} and filter of shape {filters.shape} do not fit; as "
            f"images of height 1: {error}"
        ) from None
    return movement.reshape(y, shape=(*y.shape[:height], *y.shape[height + 1 :]))


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    strides: ShapeLike = 1,
    pad: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of images with filters.

    >>> images = plugrad.ones((1, 3, 3, 1))
    >>> plugrad.conv2d(images, plugrad.ones((2, 2, 1, 1)), pad="same")[0, :, :, 0]
    tensor([[4., 4., 2.],
            [4., 4., 2.],
            [2., 2., 1.]], dtype=float32)

    The result has the axes of x, with the output channels of the filter, and the dtype to which x
    and filter promote. Along a spatial axis there are ``ceil(size / stride)`` positions of the
    filter with ``pad="same"``, and otherwise ``(size + padding - extent) // stride + 1``, where a
    filter has the extent ``(filter size - 1) * dilation + 1``.

    Args:
        x: images of shape (batch, height, width, channels), or (batch, channels, height, width) for
            "NCHW"; the batch axis may be absent, and is then absent from the result.
        filter: filters of shape (height, width, input channels, output channels).
        strides: the distance between neighbouring positions of the filter, one number or (vertical,
            horizontal).
        pad: "valid", "same", a number of cells, or ((top, bottom), (left, right)).
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal); strides and dilations cannot both exceed 1.
        dim_rounding_mode: what to do with a last, partial stride: "floor" (the default), "ceil" or
            "round".

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument is none of the above.
    """
    attrs = sliding("conv2d", 2, strides, pad, data_format, dilations, dim_rounding_mode)
    return slid(convolution.conv2d, "conv2d", x, filter, attrs)


def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike,
    strides: ShapeLike = 1,
    pad: PaddingLike = "valid",
    *,
    data_format: ImageFormat = "NHWC",
    dilations: ShapeLike = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The transposed convolution of images: the product of each pixel and a filter, added to a window of the result.

    >>> images = plugrad.asarray([[[1.0], [2.0]]])
    >>> plugrad.conv2d_transpose(images, plugrad.ones((1, 2, 1, 1)), (1, 4, 1), 2, "same")[0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv2d` with respect to images of shape `output_shape`. The result has
    the dtype to which x and filter promote.

    Args:
        x: images as for `conv2d`.
        filter: filters of shape (height, width, output channels, input channels).
        output_shape: the shape of the result: the channels, and the batch axis if x has one,
            included. Images of this shape must give the shape of x in `conv2d` with the other
            arguments.
        strides: the distance between the windows of neighbouring pixels, one number or (vertical,
            horizontal).
        pad: as for `conv2d`; the padding is cut off from the result.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between neighbouring cells of the filter, one number or (vertical,
            horizontal); strides and dilations cannot both exceed 1.
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: x or filter is a tensor or an array that does not hold floats.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument is none of the above.
    """
    op = "conv2d_transpose"
    attrs = sliding(op, 2, strides, pad, data_format, dilations, dim_rounding_mode)
    return spread(convolution.conv2d_input_gradient, op, x, filter, output_shape, attrs)


def sliding(
    op: str,
    count: int,
    strides: ShapeLike,
    pad: PaddingLike,
    data_format: DataFormat,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Mapping[str, Any]:
    """Return the attributes of a convolution over `count` spatial axes in the form that kernels take.

    Raises:
        ArgumentValueError: a value is not allowed.
    """
    given = strides, pad, data_format, dilations, rounding
    is_plain = PLAIN.issuperset(map(type, given))  # what programs mostly pass: a key of the cache
    return (_remembered if is_plain else _attributes)(op, count, *given)


PLAIN: Final = frozenset({int, str, type(None)})


def _attributes(
    op: str,
    count: int,
    strides: ShapeLike,
    pad: PaddingLike,
    data_format: DataFormat,
    dilations: ShapeLike,
    rounding: Rounding,
) -> Mapping[str, Any]:
    steps = sizes_of(strides, count, f"{op}: strides")
    gaps = sizes_of(dilations, count, f"{op}: dilations")
    if max(steps) > 1 and max(gaps) > 1:
        raise ArgumentValueError(f"{op}: strides={steps} and dilations={gaps} cannot both exceed 1")
    return {
        "strides": steps,
        "pad": padding_of(pad, count, op, rounding),
        "data_format": format_of(data_format, count, op),
        "dilations": gaps,
        "dim_rounding_mode": rounding,
    }


_remembered: Final = lru_cache(maxsize=1024)(_attributes)


def slid(
    kernel: Kernel[..., Tensor],
    op: str,
    x: TensorLike,
    filter: TensorLike,
    attrs: Mapping[str, Any],
) -> Tensor:
    """Return the result of a convolution kernel for filters and images, which may lack the batch axis."""
    check_floats(op, x=x, filter=filter)
    images, filters = promoted(x, filter, kernel, op)
    images, is_single = batched(op, images, filters, len(attrs["strides"]))
    return unbatched(kernel(images, filters, **attrs), is_single)


def spread(
    kernel: Kernel[..., Tensor],
    op: str,
    x: TensorLike,
    filter: TensorLike,
    output_shape: ShapeLike,
    attrs: Mapping[str, Any],
) -> Tensor:
    """Return the result of the kernel of an input gradient, for images that may lack the batch axis."""
    check_floats(op, x=x, filter=filter)
    images, filters = promoted(x, filter, kernel, op)
    shape = shape_of(output_shape, name=f"{op}: output_shape")
    if len(shape) != images.ndim:
        raise ShapeError(
            f"{op}: output_shape={shape} must have as many sizes as x, whose shape is {images.shape}"
        )
    images, is_single = batched(op, images, filters, len(attrs["strides"]))
    shape = (1, *shape) if is_single else shape
    return unbatched(kernel(images, filters, input_shape=shape, **attrs), is_single)


def batched(op: str, images: Tensor, filters: Tensor, count: int) -> tuple[Tensor, bool]:
    """Return images with a batch axis, and whether they had none.

    Raises:
        ShapeError: the images or the filters do not have `count` spatial axes.
    """
    if images.ndim not in (count + 1, count + 2) or filters.ndim != count + 2:
        raise ShapeError(
            f"{op}: x must have {count + 1} or {count + 2} axes and filter {count + 2}; the shapes "
            f"are {images.shape} and {filters.shape}"
        )
    is_single = images.ndim == count + 1
    return (movement.expand_dims(images, dim=0) if is_single else images), is_single


def unbatched(images: Tensor, is_single: bool) -> Tensor:
    """Return images without the batch axis that `batched` added."""
    return movement.reshape(images, shape=images.shape[1:]) if is_single else images
