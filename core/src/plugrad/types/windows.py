"""Windows that slide over images: their sizes, strides, dilations and padding, and where they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from plugrad.errors import ArgumentValueError, ShapeError, short_repr
from plugrad.types.shapes import as_integers, list_members

if TYPE_CHECKING:
    from plugrad.types.specs import Shape

Pair = tuple[int, int]
"""Two integers, such as the height and width of an image, or a padding (before, after)."""
Pairs = tuple[Pair, ...]
"""A padding (before, after) for each axis."""
Padding = Literal["same", "valid"] | Pairs
"""A padding of the spatial axes, by TensorFlow's names or in cells (before, after) for each axis."""
PaddingLike: TypeAlias = Padding | int | Sequence[Sequence[int]]
"""A padding as users write it: an integer is the number of cells at both ends of every spatial axis."""
Rounding = Literal["floor", "ceil", "round"] | None
"""How the number of a window's positions is rounded if it is not an integer; None rounds down."""
SequenceFormat = Literal["NWC", "NCW"]
"""The order of the axes of sequences: N is the batch, W the positions, C the channels."""
ImageFormat = Literal["NHWC", "NCHW"]
"""The order of the axes of images: N is the batch, H the height, W the width, C the channels."""
VolumeFormat = Literal["NDHWC", "NCDHW"]
"""The order of the axes of volumes: N is the batch, D the depth, H the height, W the width, C the channels."""
DataFormat = SequenceFormat | ImageFormat | VolumeFormat
"""The order of the axes of sequences, images or volumes."""


class Window(NamedTuple):
    """How a window slides over images (batch, spatial axes …, channels): the attribute of kernels that have windows.

    Every field has one entry for each spatial axis. `sliding_window` and `pool_window` make windows.
    """

    size: Shape
    """The number of cells of the window on each axis, which is the size of the filter."""
    strides: Shape
    """The distance between neighbouring positions of the window."""
    padding: Pairs
    """The cells (before, after) by which the image is padded."""
    dilations: Shape
    """The distance between neighbouring cells of the window."""
    out: Shape
    """The number of positions of the window on each axis; 0 if it does not fit into the padded image.

    It is ``(image + before + after - extent) // stride + 1``, where a window has the extent
    ``(size - 1) * dilation + 1``.
    """


ROUNDING_FUNCTIONS: Final[dict[Rounding, Callable[[int, int], int]]] = {
    None: lambda room, stride: room // stride,
    "floor": lambda room, stride: room // stride,
    "ceil": lambda room, stride: -(-room // stride),
    "round": lambda room, stride: (2 * room + stride) // (2 * stride),
}
"""How to divide the room that a window has to move in, in cells, by its stride; by the rounding."""


@lru_cache(maxsize=1024)
def sliding_window(
    image: Shape,
    size: Shape,
    strides: Shape,
    padding: Padding,
    dilations: Shape = (),
    rounding: Rounding = None,
) -> Window:
    """Return the window of a convolution over images whose spatial axes have the sizes `image`.

    Args:
        image: the sizes of the spatial axes; the other arguments have one entry for each of them.
        size: the sizes of the window.
        strides: the distances between neighbouring positions.
        padding: "same" gives ``ceil(size / stride)`` positions and puts the odd padding cell at the end,
            "valid" does not pad, and pairs are the (before, after) cells of each axis.
        dilations: the distances between neighbouring cells of the window; an empty tuple means 1 on
            every axis.
        rounding: what happens to a last, partial stride; by default it is dropped. Where it is completed,
            there is more padding at the end.

    Raises:
        ShapeError: the window is larger than the padded image.
        ArgumentValueError: an argument does not have one entry for each axis, or is out of range.
    """
    dilations = dilations or (1,) * len(image)
    if any(
        len(sizes) != len(image)
        for sizes in (size, strides, dilations, image if isinstance(padding, str) else padding)
    ):
        raise ArgumentValueError(
            f"a window over the {len(image)} axes of an image of {image} needs as many sizes, strides, dilations "
            f"and paddings; they are {size}, {strides}, {dilations} and {short_repr(padding)}"
        )
    _check_step_sizes(size, strides, dilations)
    outs: list[int] = []
    pairs: list[Pair] = []
    for axis, (n, length, stride, dilation) in enumerate(
        zip(image, size, strides, dilations, strict=True)
    ):
        extent = (length - 1) * dilation + 1
        if padding == "same":
            out = -(-n // stride)
            total = max(0, (out - 1) * stride + extent - n)
            before, after = total // 2, total - total // 2
        else:
            before, after = (0, 0) if padding == "valid" else padding[axis]
            room = n + before + after - extent
            out = max(ROUNDING_FUNCTIONS[rounding](room, stride) + 1, 0) if room >= 0 else 0
            after = max(after, (out - 1) * stride + extent - before - n) if out else after
        if out == 0 and n > 0:
            raise ShapeError(
                f"a window of {size} (dilations {dilations}) does not fit an image of {image} with "
                f"padding={short_repr(padding)}; use a smaller window, more padding, or padding='same'"
            )
        outs.append(out)
        pairs.append((before, after))
    return Window(size, strides, tuple(pairs), dilations, tuple(outs))


@lru_cache(maxsize=1024)
def pool_window(
    image: Shape,
    size: Shape,
    strides: Shape,
    padding: Padding,
    dilations: Shape = (),
    rounding: Rounding = None,
) -> Window:
    """Return the window of a pooling over images; the arguments are those of `sliding_window`.

    Every position contains a cell of the image, because a window of padding has no result. A last,
    partial stride that leads beyond the image is dropped, whatever the rounding.

    Raises:
        ShapeError: the window is larger than the padded image, or contains only padding somewhere.
        ArgumentValueError: an argument does not have one entry for each axis, or is out of range.
    """
    window = sliding_window(image, size, strides, padding, dilations, rounding)
    if rounding in ("ceil", "round"):
        outs: list[int] = []
        pairs: list[Pair] = []
        for n, length, stride, (before, after), dilation, out in zip(image, *window, strict=True):
            is_beyond = out > 0 and (out - 1) * stride - before >= n
            outs.append(out - is_beyond)
            reach = (outs[-1] - 1) * stride + (length - 1) * dilation + 1 - before - n
            pairs.append((before, max(0, reach) if is_beyond else after))
        window = window._replace(out=tuple(outs), padding=tuple(pairs))
    check_window_positions(image, window)
    return window


def check_window(image_shape: Shape, window: Window, spatial_rank: int | None = None) -> None:
    """Raise unless a window fits images (batch, spatial axes …, channels) of a shape.

    Raises:
        ShapeError: the images do not have `spatial_rank` spatial axes, or the window has other positions.
        ArgumentValueError: the window does not have one entry for each axis, or is out of range.
    """
    spatial_rank = len(window.size) if spatial_rank is None else spatial_rank
    if len(image_shape) != spatial_rank + 2:
        raise ShapeError(
            f"images have a batch axis, {spatial_rank} spatial axes and a channel axis; the shape is {image_shape}"
        )
    if any(len(values) != spatial_rank for values in window):
        raise ArgumentValueError(
            f"a window over {spatial_rank} spatial axes has one entry for each in all fields, unlike {window}"
        )
    _check_step_sizes(window.size, window.strides, window.dilations)
    as_pairs(window.padding, "padding")
    outs = tuple(
        max((n + before + after - (length - 1) * dilation - 1) // stride + 1, 0)
        for n, length, stride, (before, after), dilation, _ in zip(
            image_shape[1:-1], *window, strict=True
        )
    )
    if outs != window.out:
        raise ShapeError(
            f"a window with out={window.out} does not slide over images of shape {image_shape}, on which {window} has "
            f"{outs} positions; make it with sliding_window or pool_window"
        )


@lru_cache(maxsize=1024)
def check_window_positions(image_size: Shape, window: Window) -> None:
    """Raise unless each position of a window contains at least one pixel.

    Raises:
        ShapeError: it contains only padding somewhere.
    """
    for n, length, stride, (before, _), dilation, out in zip(image_size, *window, strict=True):
        for start in range(-before, -before + out * stride, stride):
            cells = range(start, start + length * dilation, dilation)
            if not any(0 <= cell < n for cell in cells):
                raise ShapeError(
                    f"a window of {window.size} (dilations {window.dilations}) over an image of {image_size} lies in "
                    f"the padding with padding={window.padding}; use less padding, or a larger window"
                )


def _check_step_sizes(size: Shape, strides: Shape, dilations: Shape) -> None:
    """Raise unless the sizes, strides and dilations of a window are from 1 to 2**31 - 1."""
    if any(n < 1 or n >= 2**31 for n in (*size, *strides, *dilations)):
        raise ArgumentValueError(
            f"a window of {size} with strides {strides} and dilations {dilations}: all must be at least 1, and "
            "less than 2**31"
        )


@lru_cache(maxsize=1024)
def window_margins(image: Shape, window: Window) -> Pairs:
    """Return how many cells (before, after) a window extends beyond images of spatial sizes `image`, per axis."""
    return tuple(
        (before, max(after, (out - 1) * stride + (length - 1) * dilation + 1 - before - n))
        for n, length, stride, (before, after), dilation, out in zip(image, *window, strict=True)
    )


@lru_cache(maxsize=1024)
def cell_slices(window: Window) -> tuple[tuple[Shape, Shape, Shape], ...]:
    """Return (cell, begin, end) for each cell of a window, in row-major order.

    In an image with its margins, the slice from begin to end in steps of the strides holds what the
    cell meets in all windows.
    """
    found: list[tuple[Shape, Shape, Shape]] = []
    for cell in product(*map(range, window.size)):
        begin = tuple(i * dilation for i, dilation in zip(cell, window.dilations, strict=True))
        end = tuple(b + n * s for b, n, s in zip(begin, window.out, window.strides, strict=True))
        found.append((cell, begin, end))
    return tuple(found)


def as_sizes(value: int | Sequence[int], axis_count: int, name: str, *, minimum: int = 1) -> Shape:
    """Return `axis_count` integers of at least `minimum`; a single integer stands for every axis.

    Raises:
        ArgumentValueError: the value is not one or `axis_count` such integers.
    """
    try:
        values = as_integers(value)
    except TypeError:
        values = ()
    if len(values) == 1 and not isinstance(value, Iterable):
        values *= axis_count
    if len(values) != axis_count or any(v < minimum for v in values):
        raise ArgumentValueError(
            f"{name}={short_repr(value)} must be one or {axis_count} integers of at least {minimum}"
        )
    return values


def as_pairs(value: Iterable[Sequence[int]], name: str) -> Pairs:
    """Return pairs (before, after) of sizes of at least 0, one for each axis.

    Raises:
        ArgumentValueError: a pair is not two such sizes.
    """
    try:
        pairs = tuple(map(as_integers, value if isinstance(value, tuple) else list_members(value)))
    except TypeError:
        pairs = ((),)
    if [pair for pair in pairs if len(pair) != 2 or min(pair) < 0]:
        raise ArgumentValueError(
            f"{name}={short_repr(value)} must be pairs (before, after) of integers of at least 0, one for each axis"
        )
    return pairs  # type: ignore[return-value] - typing.cast would be a call


def parse_padding(value: object, spatial_rank: int, op: str, rounding: Rounding = None) -> Padding:
    """Return a padding as "same", "valid" or one pair (before, after) for each of `spatial_rank` spatial axes.

    An integer is the number of cells at both ends of every axis.

    Raises:
        ArgumentValueError: it is none of these, or "same" with a rounding.
    """
    if isinstance(value, str):
        if value == "same" and rounding is not None:
            raise ArgumentValueError(
                f"{op}: dim_rounding_mode={short_repr(rounding)} is for a last, partial stride, which padding='same' "
                "never leaves; omit it, or give the padding in cells"
            )
        if value == "same" or value == "valid":
            return value
        pairs = ()
    elif isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        pairs = ((int(value), int(value)),) * spatial_rank if value >= 0 else ()
    else:
        try:
            pairs = as_pairs(value, "padding")  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pairs = ()
    if len(pairs) != spatial_rank:
        raise ArgumentValueError(
            f"{op}: padding={short_repr(value)} must be 'same', 'valid', a number of cells, or one (before, after) "
            f"for each of the {spatial_rank} spatial axes"
        )
    return pairs


DATA_FORMATS_OF_RANK: Final[dict[int, tuple[DataFormat, DataFormat]]] = {
    1: ("NWC", "NCW"),
    2: ("NHWC", "NCHW"),
    3: ("NDHWC", "NCDHW"),
}
"""The orders of the axes of images, by the number of spatial axes."""


def is_channels_first(data_format: str, spatial_rank: int, op: str) -> bool:
    """Return whether a data format with `spatial_rank` spatial axes has channels first.

    Raises:
        ArgumentValueError: it is no such format.
    """
    formats = DATA_FORMATS_OF_RANK.get(spatial_rank, ())
    if not formats:
        raise ArgumentValueError(
            f"{op}: images with {spatial_rank} spatial axes have the channels last; omit "
            f"data_format={short_repr(data_format)}"
        )
    if not isinstance(data_format, str) or data_format not in formats:  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
        raise ArgumentValueError(
            f"{op}: data_format={short_repr(data_format)} must be {' or '.join(map(repr, formats))}"
        )
    return data_format == formats[1]
