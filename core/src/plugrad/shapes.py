"""Shape arithmetic: broadcasting, axes, windows. Shape rules use it; nothing else repeats it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import product, zip_longest
from operator import index
from typing import Annotated, Final, Literal, NamedTuple

import numpy as np

from plugrad.errors import ArgumentValueError, AxisError, ShapeError

Shape = tuple[int, ...]
Pair = tuple[int, int]
Pairs = tuple[Pair, ...]
Padding = Literal["same", "valid"] | Pairs
Rounding = Literal["floor", "ceil", "round"] | None
DataFormat = Literal["NHWC", "NCHW", "NDHWC", "NCDHW"]


class OfFirstInput(NamedTuple):
    """What marks an attribute as an axis of the first input, or of a result that has `more` axes."""

    more: int = 0


Axis = Annotated[int, OfFirstInput()]  # kernels get axes sorted, and counted from the front
NewAxis = Annotated[int, OfFirstInput(more=1)]
Axes = Annotated[tuple[int, ...], OfFirstInput()]


def size_of(shape: Shape) -> int:
    """Return the number of elements; a 0-d shape has one."""
    return math.prod(shape)


@lru_cache(maxsize=4096)
def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that all `shapes` stretch to.

    >>> broadcast((2, 1, 3), (4, 1))
    (2, 4, 3)

    Raises:
        ShapeError: two sizes differ and neither is 1.
    """
    sizes: list[int] = []
    for column in zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        wide = {n for n in column if n != 1}
        if len(wide) > 1:
            listed = " and ".join(str(s) for s in shapes)
            raise ShapeError(
                f"shapes {listed} do not broadcast: sizes {sorted(wide)} meet on axis {-len(sizes) - 1}; "
                "sizes must be equal or 1, counted from the right"
            )
        sizes.append(wide.pop() if wide else 1)
    return tuple(reversed(sizes))


def stretches(small: Shape, large: Shape) -> bool:
    """Return whether broadcasting `small` against `large` gives `large`.

    >>> stretches((4, 1), (2, 4, 3)), stretches((2, 4, 3), (4, 1))
    (True, False)
    """
    sizes = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(n in (1, size) for n, size in sizes)


@lru_cache(maxsize=4096)
def stretched_axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """Return the axes of `large` along which `small` is repeated when it is broadcast.

    >>> stretched_axes((4, 1), (2, 4, 3))
    (0, 2)
    """
    lead = len(large) - len(small)
    return (
        *range(lead),
        *(i + lead for i, n in enumerate(small) if n == 1 and large[i + lead] != 1),
    )


def shape_of(sizes: int | Sequence[int], *, name: str = "shape") -> Shape:
    """Return `sizes` as a tuple of non-negative ints; a lone int is a 1-d shape.

    Raises:
        ShapeError: a size is negative or not an integer.
    """
    shape = _integers(sizes, name)
    if any(n < 0 for n in shape):
        raise ShapeError(f"{name}={shape} has a negative size; sizes must be 0 or more")
    return shape


def _integers(sizes: object, name: str) -> Shape:
    try:
        return integers_of(sizes)
    except TypeError:
        raise ShapeError(f"{name}={sizes!r} is not a shape: sizes must be integers") from None


def integers_of(value: object) -> tuple[int, ...]:
    """Return one integer, or several, as a tuple.

    Raises:
        TypeError: they are no integers.
    """
    if not isinstance(value, tuple | list):
        try:
            return (index(value),)  # type: ignore[arg-type]
        except (TypeError, ShapeError):  # a tensor with several elements
            pass
        if isinstance(value, str | bytes | Mapping | Set):
            raise TypeError
    return tuple(index(n) for n in value)  # type: ignore[union-attr]


def completed(shape: int | Sequence[int], size: int, *, name: str = "shape") -> Shape:
    """Return `shape` with its one ``-1`` replaced so that it holds `size` elements.

    >>> completed((2, -1), 6)
    (2, 3)

    Raises:
        ShapeError: the shape cannot hold `size` elements, or has more than one ``-1``.
    """
    sizes = _integers(shape, name)
    if sizes.count(-1) > 1:
        raise ShapeError(f"{name}={sizes} has more than one -1; only one size can be inferred")
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        if rest == 0 or size % rest:
            raise ShapeError(
                f"{name}={sizes} does not fit {size} elements: {rest} does not divide {size}"
            )
        sizes = tuple(size // rest if n == -1 else n for n in sizes)
    sizes = shape_of(sizes, name=name)
    if math.prod(sizes) != size:
        raise ShapeError(
            f"{name}={sizes} does not fit {size} elements: it holds {math.prod(sizes)}"
        )
    return sizes


def axis_of(axis: int, rank: int, *, name: str = "axis") -> int:
    """Return `axis` counted from the front.

    Raises:
        AxisError: it is not in ``[-rank, rank)``.
    """
    try:
        axis = index(axis)
    except (TypeError, ShapeError):  # a tensor with several elements is the second
        raise AxisError(f"{name}={axis!r} is not an integer") from None
    if not -rank <= axis < rank:
        raise AxisError(
            f"{name}={axis} is out of range for rank {rank}; use {-rank} to {rank - 1}"
            if rank
            else f"{name}={axis}: a 0-d tensor has no axes; reshape(x, (1,)) gives it one"
        )
    return axis % rank


def axes_of(axis: int | Sequence[int] | None, rank: int, *, name: str = "axis") -> tuple[int, ...]:
    """Return the axes as a sorted tuple counted from the front; None means all of them.

    >>> axes_of((-1, 0), 3)
    (0, 2)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(rank))
    try:
        given = integers_of(axis)
    except TypeError:
        raise AxisError(f"{name}={axis!r} must be an integer, or several") from None
    axes = sorted(axis_of(a, rank, name=name) for a in given)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name}={axis} names an axis twice")
    return tuple(axes)


def reduced(shape: Shape, axes: tuple[int, ...], keep_dims: bool) -> Shape:
    """Return `shape` without `axes`, or with size 1 there."""
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def sliced(shape: Shape, begin: Shape, end: Shape, strides: Shape) -> Shape:
    """Return the sizes of ``range(begin, end, stride)`` on each axis.

    Raises:
        ShapeError: a range leaves the shape, or the ranks differ.
    """
    if not len(shape) == len(begin) == len(end) == len(strides) or 0 in strides:
        raise ShapeError(
            f"begin={begin}, end={end}, strides={strides} must be one for each axis of shape {shape}, and no stride 0"
        )
    ranges = [range(*bounds) for bounds in zip(begin, end, strides, strict=True)]
    if any(
        r and not (0 <= r[0] < n and 0 <= r[-1] < n) for r, n in zip(ranges, shape, strict=True)
    ):
        raise ShapeError(f"begin={begin}, end={end}, strides={strides} leaves shape {shape}")
    return tuple(map(len, ranges))


class Window(NamedTuple):
    """Where a window stops as it slides over an image: one size for each spatial axis."""

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
    """Return the stops of a window that slides over an image; sizes are one per spatial axis.

    "same" gives ``ceil(size / stride)`` stops and puts the odd padding cell at the end; "valid"
    pads nothing; explicit pairs are (before, after) per axis, and `rounding` says what to do with a
    last, partial stride (default: drop it). No dilations means 1 on every axis.

    Raises:
        ShapeError: the window is larger than the padded image.
        ArgumentValueError: the rounding is unknown, or an argument has not one size for each axis.
    """
    if rounding not in ROUNDINGS:
        raise ArgumentValueError(
            f"dim_rounding_mode={rounding!r} must be 'floor', 'ceil', 'round' or None"
        )
    dilations = dilations or (1,) * len(image)
    if any(
        len(sizes) != len(image)
        for sizes in (filter, strides, dilations, image if isinstance(pad, str) else pad)
    ):
        raise ArgumentValueError(
            f"a window over the {len(image)} axes of an image of {image} needs as many sizes, strides, dilations "
            f"and paddings; they are {filter}, {strides}, {dilations} and {pad!r}"
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
                f"a window of {filter} (dilations {dilations}) does not fit an image of {image} with pad={pad!r}; "
                "use a smaller window, more padding, or pad='same'"
            )
        outs.append(max(out, 0))
        pads.append((before, after))
    return Window(tuple(outs), tuple(pads), filter, strides, dilations)


@lru_cache(maxsize=1024)
def margins(size: Shape, window: Window) -> Pairs:
    """Return the (before, after) cells that the windows reach beyond an image, for each axis."""
    return tuple(
        (before, max(after, (out - 1) * stride + (length - 1) * dilation + 1 - before - n))
        for n, out, (before, after), length, stride, dilation in zip(size, *window, strict=True)
    )


@lru_cache(maxsize=1024)
def cell_slices(window: Window) -> tuple[tuple[Shape, Shape, Shape], ...]:
    """Return (cell, begin, end) for each cell of the filter, row by row.

    From begin to end in steps of the strides lies what the cell meets in all windows, in an image
    with its margins.
    """
    found: list[tuple[Shape, Shape, Shape]] = []
    for cell in product(*map(range, window.filter)):
        begin = tuple(i * dilation for i, dilation in zip(cell, window.dilations, strict=True))
        end = tuple(b + n * s for b, n, s in zip(begin, window.out, window.strides, strict=True))
        found.append((cell, begin, end))
    return tuple(found)


def sizes_of(value: int | Sequence[int], count: int, name: str, *, least: int = 1) -> Shape:
    """Return `count` ints of at least `least`; a lone int counts for every axis.

    Raises:
        ArgumentValueError: the value is not one or `count` such ints.
    """
    try:
        values = integers_of(value)
    except TypeError:
        values = ()
    if len(values) == 1 and not isinstance(value, Iterable):
        values *= count
    if len(values) != count or any(v < least for v in values):
        raise ArgumentValueError(
            f"{name}={value!r} must be one or {count} integers of at least {least}"
        )
    return values


def pairs_of(value: Iterable[Sequence[int]], name: str) -> Pairs:
    """Return (before, after) sizes of at least 0, one pair for each axis.

    Raises:
        ArgumentValueError: a pair is not two such sizes.
    """
    try:
        pairs: list[tuple[int, ...]] = [integers_of(part) for part in value]
    except TypeError:
        pairs = [()]
    if any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ArgumentValueError(
            f"{name}={value!r} must be pairs (before, after) of integers of at least 0, one for each axis"
        )
    return tuple((pair[0], pair[1]) for pair in pairs)


def padding_of(pad: object, count: int, op: str, rounding: Rounding = None) -> Padding:
    """Return a padding as "same", "valid" or one (before, after) for each of `count` spatial axes.

    A number counts for both ends of every axis.

    Raises:
        ArgumentValueError: it is none of these, or "same" with a rounding.
    """
    if isinstance(pad, str):
        if pad == "same" and rounding is not None:
            raise ArgumentValueError(
                f"{op}: dim_rounding_mode={rounding!r} says what to do with a last, partial stride, "
                "and pad='same' leaves none; leave it out, or give the padding in cells"
            )
        if pad == "same" or pad == "valid":
            return pad
        pairs = ()
    elif isinstance(pad, int | np.integer) and not isinstance(pad, bool) and pad >= 0:
        return ((int(pad), int(pad)),) * count
    else:
        try:
            pairs = pairs_of(pad, "pad")  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pairs = ()
    if len(pairs) != count:
        raise ArgumentValueError(
            f"{op}: pad={pad!r} must be 'same', 'valid', a number of cells, or one (before, after) "
            f"for each of the {count} spatial axes"
        )
    return pairs


def format_of(data_format: str, count: int, op: str) -> DataFormat:
    """Return a data format of images that have `count` spatial axes, 2 or 3.

    Raises:
        ArgumentValueError: it is none.
    """
    formats: tuple[DataFormat, ...] = ("NHWC", "NCHW") if count == 2 else ("NDHWC", "NCDHW")
    for known in formats:
        if isinstance(data_format, str) and data_format == known:  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            return known
    raise ArgumentValueError(
        f"{op}: data_format={data_format!r} must be {' or '.join(map(repr, formats))}"
    )
