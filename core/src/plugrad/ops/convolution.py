"""Functions that slide a filter over images.

The functions at the end are shared by all convolutions, whatever the number of spatial axes.
"""

from collections.abc import Sequence
from typing import Any

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import convolution, movement
from plugrad.ops.arguments import check_floats, promoted
from plugrad.ops.attributes import chosen
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.shapes import shape_of
from plugrad.types.windows import DataFormat, Rounding, format_of, padding_of, sizes_of


def conv1d(
    x: TensorLike,
    filter: TensorLike,
    stride: int = 1,
    pad: Any = "valid",
    *,
    data_format: str = "NWC",
    dilation: int = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The cross-correlation of sequences with filters.

    >>> steps = plugrad.asarray([[1.0], [2.0], [4.0], [8.0]])
    >>> plugrad.conv1d(steps, [[[-1.0]], [[1.0]]])[:, 0]
    tensor([1., 2., 4.], dtype=float32)

    Args:
        x: sequences of shape (batch, width, channels), or (batch, channels, width) for "NCW"; the
            batch axis may be absent, and is then absent from the result.
        filter: of shape (width, input channels, output channels).
        stride: cells between two stops of the filter.
        pad: "valid", "same", a number of cells, or ((before, after),).
        data_format: "NWC" or "NCW".
        dilation: cells between two cells of the filter.
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    formats: dict[str, DataFormat] = {"NWC": "NHWC", "NCW": "NCHW"}
    chosen(data_format, tuple(formats), "conv1d", "data_format")
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
        *("conv1d", 2, (1, *sizes_of(stride, 1, "conv1d: stride"))),
        padding if isinstance(padding, str) else ((0, 0), *padding),
        *(formats[data_format], (1, *sizes_of(dilation, 1, "conv1d: dilation"))),
        dim_rounding_mode,
    )
    images = movement.expand_dims(sequences, dim=height)
    try:
        y = slid(convolution.conv2d, "conv1d", images, movement.expand_dims(filters, dim=0), attrs)
    except ShapeError as error:  # which is about shapes that nobody has given
        raise ShapeError(
            f"conv1d: x of shape {sequences.shape} and filter of shape {filters.shape} do not fit; as "
            f"images of height 1: {error}"
        ) from None
    return movement.reshape(y, shape=(*y.shape[:height], *y.shape[height + 1 :]))


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
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match, or the filter does not fit.
        ArgumentValueError: another argument makes no sense.
    """
    attrs = sliding("conv2d", 2, strides, pad, data_format, dilations, dim_rounding_mode)
    return slid(convolution.conv2d, "conv2d", x, filter, attrs)


def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_shape: Sequence[int],
    strides: int | Sequence[int] = 1,
    pad: Any = "valid",
    *,
    data_format: DataFormat = "NHWC",
    dilations: int | Sequence[int] = 1,
    dim_rounding_mode: Rounding = None,
) -> Tensor:
    """The transpose of a convolution: each pixel, times a filter, is added to a window of the result.

    >>> images = plugrad.asarray([[[1.0], [2.0]]])
    >>> plugrad.conv2d_transpose(images, plugrad.ones((1, 2, 1, 1)), (1, 4, 1), 2, "same")[0, :, 0]
    tensor([1., 1., 2., 2.], dtype=float32)

    This is the gradient of `conv2d` for images of shape `output_shape`.

    Args:
        x: images as for `conv2d`.
        filter: of shape (height, width, output channels, input channels).
        output_shape: the shape of the result, with the batch axis if x has one and the channels.
            `conv2d` with the other arguments must bring it to the shape of x.
        strides: cells between the windows of two pixels, one number or (vertical, horizontal).
        pad: as for `conv2d`: what is cut off from the result.
        data_format: "NHWC" or "NCHW".
        dilations: cells between two cells of the filter, one number or (vertical, horizontal).
        dim_rounding_mode: as for `conv2d`.

    Raises:
        DTypeError: images or filters are whole numbers.
        ShapeError: the shapes do not match.
        ArgumentValueError: another argument makes no sense.
    """
    op = "conv2d_transpose"
    attrs = sliding(op, 2, strides, pad, data_format, dilations, dim_rounding_mode)
    return spread(convolution.conv2d_input_gradient, op, x, filter, output_shape, attrs)


def sliding(
    op: str,
    count: int,
    strides: int | Sequence[int],
    pad: Any,
    data_format: str,
    dilations: int | Sequence[int],
    rounding: Rounding,
) -> dict[str, Any]:
    """Return the attributes that say how filters slide along `count` axes, in the forms of the kernels.

    Raises:
        ArgumentValueError: one of them makes no sense.
    """
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


def slid(
    kernel: Kernel[..., Tensor], op: str, x: TensorLike, filter: TensorLike, attrs: dict[str, Any]
) -> Tensor:
    """Return what a kernel gives for images, which may lack the batch axis, and filters."""
    check_floats(op, x=x, filter=filter)
    images, filters = promoted(x, filter, kernel, op)
    images, is_single = batched(op, images, filters, len(attrs["strides"]))
    return unbatched(kernel(images, filters, **attrs), is_single)


def spread(
    kernel: Kernel[..., Tensor],
    op: str,
    x: TensorLike,
    filter: TensorLike,
    output_shape: Sequence[int],
    attrs: dict[str, Any],
) -> Tensor:
    """Return what the input gradient of a convolution gives for images, which may lack the batch axis."""
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
        ShapeError: images or filters have not the axes for `count` spatial ones.
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
