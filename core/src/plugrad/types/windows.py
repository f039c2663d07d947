"""Windows that slide over images: their sizes, strides, dilations and padding, and where they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from plugrad.errors import ArgumentValueError, ShapeError, shown
from plugrad.types.shapes import integers_of, several

if TYPE_CHECKING:
    from plugrad.types.specs import Shape

Pair = tuple[int, int]
Pairs = tuple[Pair, ...]
Padding = Literal["same", "valid"] | Pairs
PaddingLike: TypeAlias = Padding | int | Sequence[Sequence[int]]
"""A padding as users write it: an integer is the number of cells at both ends of every spatial axis."""
Rounding = Literal["floor", "ceil", "round"] | None
ImageFormat = Literal["NHWC", "NCHW"]
VolumeFormat = Literal["NDHWC", "NCDHW"]
DataFormat = ImageFormat | VolumeFormat


class Window(NamedTuple):
    """The positions of a window that slides over an image; every field has one entry for each spatial axis."""

    out: Shape
    pad: Pairs
    filter: Shape
    strides: Shape
    dilations: Shape


ROUNDINGS: Final[dict[Rounding, Callable[[int, int], int]]] = {
    None: lambda room, stride: room // stride,
    "floor": lambda room, stride: room // stride,
    "ceil": lambda room, stride: -(-room // stride),
    "round": lambda room, stride: (2 * room + stride) // (2 * stride),
}


@lru_cache(maxsize=1024)
def sliding_window(
    image: Shape,
    filter: Shape,
    strides: Shape,
    pad: Padding,
    dilations: Shape = (),
    rounding: Rounding = None,
) -> Window:
    """Return the positions of a window that slides over an image.

    Args:
        image: the sizes of the spatial axes; the other arguments have one entry for each of them.
        filter: the sizes of the window.
        strides: the distances between neighbouring positions.
        pad: "same" gives ``ceil(size / stride)`` positions and puts the odd padding cell at the end,
            "valid" does not pad, and pairs are the (before, after) cells of each axis.
        dilations: the distances between neighbouring cells of the window; an empty tuple means 1 on
            every axis.
        rounding: what happens to a last, partial stride; by default it is dropped.

    Raises:
        ShapeError: the window is larger than the padded image.
        ArgumentValueError: an argument does not have one entry for each axis, or is out of range.
    """
    dilations = dilations or (1,) * len(image)
    if any(
        len(sizes) != len(image)
        for sizes in (filter, strides, dilations, image if isinstance(pad, str) else pad)
    ):
        raise ArgumentValueError(
            f"a window over the {len(image)} axes of an image of {image} needs as many sizes, strides, dilations "
            f"and paddings; they are {filter}, {strides}, {dilations} and {shown(pad)}"
        )
    steps = (*filter, *strides, *dilations)
    if any(n < 1 or n >= 2**31 for n in steps):
        raise ArgumentValueError(
            f"a window of {filter} with strides {strides} and dilations {dilations}: all must be at least 1, and "
            "less than 2**31"
        )
    outs: list[int] = []
    pads: list[Pair] = []
    for axis, (size, length, stride, dilation) in enumerate(
        zip(image, filter, strides, dilations, strict=True)
    ):
        extent = (length - 1) * dilation + 1
        if pad == "same":
            out = -(-size // stride)
            total = max(0, (out - 1) * stride + extent - size)
            before, after = total // 2, total - total // 2
        else:
            before, after = (0, 0) if pad == "valid" else pad[axis]
            room = size + before + after - extent
            out = ROUNDINGS[rounding](room, stride) + 1 if room >= 0 else 0
        if out <= 0 and size > 0:
            raise ShapeError(
                f"a window of {filter} (dilations {dilations}) does not fit an image of {image} with pad={shown(pad)}; "
                "use a smaller window, more padding, or pad='same'"
            )
        outs.append(max(out, 0))
        pads.append((before, after))
    return Window(tuple(outs), tuple(pads), filter, strides, dilations)


@lru_cache(maxsize=1024)
def margins(size: Shape, window: Window) -> Pairs:
    """Return how many cells (before, after) the windows reach beyond an image on each axis."""
    return tuple(
        (before, max(after, (out - 1) * stride + (length - 1) * dilation + 1 - before - n))
        for n, out, (before, after), length, stride, dilation in zip(size, *window, strict=True)
    )


@lru_cache(maxsize=1024)
def cell_slices(window: Window) -> tuple[tuple[Shape, Shape, Shape], ...]:
    """Return (cell, begin, end) for each cell of the filter, in row-major order.

    In an image with its margins, the slice from begin to end in steps of the strides holds what the
    cell meets in all windows.
    """
    found: list[tuple[Shape, Shape, Shape]] = []
    for cell in product(*map(range, window.filter)):
        begin = tuple(i * dilation for i, dilation in zip(cell, window.dilations, strict=True))
        end = tuple(b + n * s for b, n, s in zip(begin, window.out, window.strides, strict=True))
        found.append((cell, begin, end))
    return tuple(found)


def sizes_of(value: int | Sequence[int], count: int, name: str, *, least: int = 1) -> Shape:
    """Return `count` integers of at least `least`; a single integer stands for every axis.

    Raises:
        ArgumentValueError: the value is not one or `count` such integers.
    """
    try:
        values = integers_of(value)
    except TypeError:
        values = ()
    if len(values) == 1 and not isinstance(value, Iterable):
        values *= count
    if len(values) != count or any(v < least for v in values):
        raise ArgumentValueError(
            f"{name}={shown(value)} must be one or {count} integers of at least {least}"
        )
    return values


def pairs_of(value: Iterable[Sequence[int]], name: str) -> Pairs:
    """Return pairs (before, after) of sizes of at least 0, one for each axis.

    Raises:
        ArgumentValueError: a pair is not two such sizes.
    """
    try:
        pairs: list[tuple[int, ...]] = [integers_of(part) for part in several(value)]
    except TypeError:
        pairs = [()]
    if any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ArgumentValueError(
            f"{name}={shown(value)} must be pairs (before, after) of integers of at least 0, one for each axis"
        )
    return tuple((pair[0], pair[1]) for pair in pairs)


def padding_of(pad: object, count: int, op: str, rounding: Rounding = None) -> Padding:
    """Return a padding as "same", "valid" or one pair (before, after) for each of `count` spatial axes.

    An integer is the number of cells at both ends of every axis.

    Raises:
        ArgumentValueError: it is none of these, or "same" with a rounding.
    """
    if isinstance(pad, str):
        if pad == "same" and rounding is not None:
            raise ArgumentValueError(
                f"{op}: dim_rounding_mode={shown(rounding)} is for a last, partial stride, which pad='same' "
                "never leaves; omit it, or give the padding in cells"
            )
        if pad == "same" or pad == "valid":
            return pad
        pairs = ()
    elif isinstance(pad, int | np.integer) and type(pad) not in (bool, np.timedelta64) and pad >= 0:
        return ((int(pad), int(pad)),) * count
    else:
        try:
            pairs = pairs_of(pad, "pad")  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pairs = ()
    if len(pairs) != count:
        raise ArgumentValueError(
            f"{op}: pad={shown(pad)} must be 'same', 'valid', a number of cells, or one (before, after) "
            f"for each of the {count} spatial axes"
        )
    return pairs


def format_of(data_format: str, count: int, op: str) -> DataFormat:
    """Return `data_format` if it is a format of images that have `count` spatial axes, 2 or 3.

    Raises:
        ArgumentValueError: it is not.
    """
    formats: tuple[DataFormat, ...] = ("NHWC", "NCHW") if count == 2 else ("NDHWC", "NCDHW")
    for known in formats:
        if isinstance(data_format, str) and data_format == known:  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            return known
    raise ArgumentValueError(
        f"{op}: data_format={shown(data_format)} must be {' or '.join(map(repr, formats))}"
    )
