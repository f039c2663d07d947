"""Grouped and transposed convolutions: one kernel call for each group, and the shape of a transposed result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import depthwise, movement
from plugrad.ops.attributes import check_integer
from plugrad.ops.movement import concat, split
from plugrad.ops.windows import resolve_window
from plugrad.types.windows import as_sizes, parse_padding, sliding_window

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape, ShapeLike
    from plugrad.types.windows import PaddingLike, Pair, Rounding


def run_grouped_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    images: Tensor,
    filters: Tensor,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    groups: int,
) -> Tensor:
    """Return the convolution of each group of channels with its filters; images have the channels last."""
    size = filters.shape[:-2]
    how = strides, padding, dilations, rounding
    window = resolve_window(op, sliding_window, images.shape, size, *how)
    if not _has_groups(op, groups, images, filters, -2):
        return kernel(images, filters, window=window)
    if filters.shape[-2] == 1 and images.ndim == 4:
        own = movement.reshape(filters, shape=(*size, groups, filters.shape[-1] // groups))
        return depthwise.depthwise_conv2d(images, own, window=window)
    parts = zip(split(images, groups, -1), split(filters, groups, -1), strict=True)
    return concat([kernel(x, filter, window=window) for x, filter in parts], axis=-1)


def run_grouped_transposed_convolution(
    kernel: Kernel[..., Tensor],
    op: str,
    images: Tensor,
    filters: Tensor,
    output_shape: Shape | None,
    strides: ShapeLike,
    padding: PaddingLike,
    dilations: ShapeLike,
    rounding: Rounding,
    groups: int,
    output_padding: ShapeLike,
) -> Tensor:
    """Return the transposed convolution of each group of channels; images and filters have the inputs last.

    Args:
        kernel: the gradient of a convolution for its images.
        op: the name of the op, for messages.
        images: (batch, spatial axes …, channels).
        filters: (spatial axes …, output channels of a group, channels).
        output_shape: the shape of the result; None for the shape that follows from the other arguments.
        strides: as the op was given them, and so the next arguments.
        padding: what is cut off from the result.
        dilations: the distance between neighbouring cells of the filters.
        rounding: how the number of positions was rounded, for a given shape.
        groups: the number of groups.
        output_padding: how much the result grows at the end, without a given shape.
    """
    size, axes = filters.shape[:-2], images.ndim - 2
    extra = as_sizes(output_padding, axes, f"{op}: output_padding", minimum=0)
    has_groups = _has_groups(op, groups, images, filters, -1)
    zeros: list[Pair] = []
    if output_shape is None:
        steps = as_sizes(strides, axes, f"{op}: strides")
        gaps = as_sizes(dilations, axes, f"{op}: dilations")
        sizes, padding, zeros = _plan_transposed_output(
            op, images.shape[1:-1], size, steps, padding, gaps, extra
        )
        output_shape, rounding = (images.shape[0], *sizes, filters.shape[-2] * groups), None
    elif any(extra):
        raise ArgumentValueError(
            f"{op}: output_padding={output_padding} is a part of output_shape={output_shape}; give one of them"
        )
    window = resolve_window(
        op, sliding_window, output_shape, size, strides, padding, dilations, rounding
    )
    if not has_groups:
        y = kernel(images, filters, input_shape=output_shape, window=window)
    elif filters.shape[-2] == 1 and axes == 2:
        own = movement.reshape(filters, shape=(*size, groups, filters.shape[-1] // groups))
        y = depthwise.depthwise_conv2d_input_gradient(
            images, own, input_shape=output_shape, window=window
        )
    else:
        if output_shape[-1] != filters.shape[-2] * groups:
            raise ShapeError(
                f"{op}: the result of shape {output_shape} has {output_shape[-1]} channels, but filters of shape "
                f"{filters.shape} in {groups} groups give {filters.shape[-2] * groups}"
            )
        part = (*output_shape[:-1], filters.shape[-2])
        parts = zip(split(images, groups, -1), split(filters, groups, -1), strict=True)
        y = concat(
            [kernel(x, filter, input_shape=part, window=window) for x, filter in parts], axis=-1
        )
    return movement.pad(y, paddings=((0, 0), *zeros, (0, 0))) if any(map(any, zeros)) else y


def _has_groups(op: str, groups: int, images: Tensor, filters: Tensor, filter_axis: int) -> bool:
    """Return whether channels are in several groups; `filter_axis` is that of the input channels in the filters.

    Raises:
        ArgumentValueError: the number of groups is none, or does not divide the channels.
        ShapeError: images and filters do not have the same channels.
    """
    count = check_integer(groups, op, "groups")
    if count == 1:  # the contract of the kernel compares the channels
        return False
    given, made = images.shape[-1], filters.shape[-1]
    if count < 1 or given % count or made % count:
        raise ArgumentValueError(
            f"{op}: groups={groups} must be at least 1 and divide the {given} channels of x and the {made} channels "
            f"that filter, of shape {filters.shape}, has last"
        )
    wanted = filters.shape[filter_axis] * (count if filter_axis == -2 else 1)
    if given != wanted:
        raise ShapeError(
            f"{op}: images of shape {images.shape}, channels last, have {given} channels; filters of shape "
            f"{filters.shape} in {groups} groups expect {wanted}"
        )
    return True


def _plan_transposed_output(
    op: str,
    image_size: Shape,
    filter_size: Shape,
    strides: Shape,
    padding: PaddingLike,
    dilations: Shape,
    output_padding: Shape,
) -> tuple[Shape, PaddingLike, list[Pair]]:
    """Return the image size of a transposed convolution's kernel result, its padding, and the zeros to pad it with.

    Raises:
        ArgumentValueError: what is added is not less than a stride or a dilation.
        ShapeError: the padding leaves nothing.
    """
    cells = parse_padding(padding, len(image_size), op)
    if cells == "same":
        if any(output_padding):
            raise ArgumentValueError(
                f"{op}: padding='same' gives strides times the size of x; with output_padding={output_padding}, give "
                "the padding in cells, or give output_shape"
            )
        return tuple(n * stride for n, stride in zip(image_size, strides, strict=True)), "same", []
    pairs = ((0, 0),) * len(image_size) if isinstance(cells, str) else cells
    sizes: list[int] = []
    cut: list[Pair] = []
    zeros: list[Pair] = []
    for n, length, stride, dilation, (before, after), more in zip(
        image_size, filter_size, strides, dilations, pairs, output_padding, strict=True
    ):
        if more >= max(stride, dilation):
            raise ArgumentValueError(
                f"{op}: output_padding={output_padding} must be less than the stride or the dilation of its axis; "
                f"these are {strides} and {dilations}"
            )
        whole = (n - 1) * stride + (length - 1) * dilation + 1 if n else 0
        if n == 0:
            before = after = more = 0
        beyond = max(more - after, 0)
        beyond = (
            beyond if beyond >= stride else 0
        )  # a partial stride is a part of the kernel's result
        sizes.append(whole - before - after + more - beyond)
        cut.append((before, max(after - more, 0)))
        zeros.append((0, beyond))
        if n and sizes[-1] < 1:
            raise ShapeError(
                f"{op}: padding={cells} leaves nothing of the result of images of {image_size} and a filter of "
                f"{filter_size}"
            )
    return tuple(sizes), tuple(cut), zeros
