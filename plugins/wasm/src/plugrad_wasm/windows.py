"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from plugrad.extend import ArgumentValueError, Window, size_of
from plugrad_wasm.declare import run_chains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugrad_wasm.declare import Portion
    from plugrad_wasm.memory import WasmArray
    from plugrad_wasm.runtime import Located

Sizes = tuple[int, ...]
T = TypeVar("T")


@lru_cache(maxsize=1024)
def window_descriptor(image: Sizes, window: Window) -> Sizes:
    """Return the fields of ``window`` in csrc/window.h for images (batch, up to three axes, channels).

    Raises:
        ArgumentValueError: a window reaches so far that its cells cannot be counted.
    """
    before = tuple(start for start, _ in window.padding)
    sizes = image[1:-1], window.out, window.size, window.strides, window.dilations, before
    axes = tuple(zip(*sizes, strict=True))
    for size, _, length, _, dilation, start in axes:
        if size + abs(start) + (length - 1) * dilation > LARGEST:
            raise ArgumentValueError(
                f"wasm: a window of {window.size} with dilations {window.dilations} and "
                f"padding {window.padding} reaches further than 2**31 cells; use "
                "smaller ones, or the cpu backend"
            )
    missing = (SINGLE,) * (MOST_AXES - len(axes))
    return (image[0], image[-1], *chain(*missing, *axes))


MOST_AXES: Final = 3
LARGEST: Final = 2**31 - 1
SINGLE: Final = (1, 1, 1, 1, 1, 0)
"""An axis of size 1 and a window of one cell."""


def along(window: Window, axes: slice) -> Window:
    """Return what a window does along some of its axes."""
    size, strides, padding, dilations, out = window
    return Window(size[axes], strides[axes], padding[axes], dilations[axes], out[axes])


class Piece(NamedTuple):
    """A part of the work of windows, and where it begins: in the images, and among the windows."""

    image: Sizes
    window: Window
    start: int  # in elements
    first: int  # in positions of the window


def pieces_of(
    image: Sizes, window: Window, work: int, most: int, *, of_cells: bool = False, multiple: int = 1
) -> Iterator[Piece]:
    """Yield parts of `work` steps that have about `most` steps each.

    A part has some of the images. A single image is split along an axis: into positions of the window or,
    if `of_cells`, into cells, each with all positions whose window reaches it. All parts of an axis but the
    last have a multiple of `multiple` of them.
    """
    batch, *sizes, channels = image
    split = sizes if of_cells else window.out
    axis = next((axis for axis, size in enumerate(split) if size > 1), None)
    if work <= most or (batch == 1 and axis is None):
        yield Piece(image, window, 0, 0)
    elif batch > 1:
        elements, positions = size_of(image[1:]), size_of(window.out)
        length = max(1, most * batch // work)
        for i in range(0, batch, length):
            images = min(length, batch - i)
            some = (images, *image[1:])
            part = work * images // batch
            for piece in pieces_of(some, window, part, most, of_cells=of_cells, multiple=multiple):
                start, first = piece.start + i * elements, piece.first + i * positions
                yield piece._replace(start=start, first=first)
    elif axis is not None:
        elements, positions = size_of(image[axis + 2 :]), size_of(window.out[axis + 1 :])
        length = max(multiple, most * split[axis] // work // multiple * multiple)
        for i in range(0, split[axis], length):
            end = min(i + length, split[axis])
            if of_cells:
                first, last = reaching(window, axis, i, end)
                part = positions_from(window, axis, first, last, i)
                some = (batch, *replaced(sizes, axis, end - i), channels)
                yield Piece(some, part, i * elements, first * positions)
            else:
                yield Piece(image, positions_from(window, axis, i, end), 0, i * positions)


def reaching(window: Window, axis: int, begin: int, end: int) -> tuple[int, int]:
    """Return the first position whose window reaches some cells of an axis, and that after the last."""
    stride, before = window.strides[axis], window.padding[axis][0]
    extent = (window.size[axis] - 1) * window.dilations[axis]
    first = max(0, -(-(begin + before - extent) // stride))
    last = min(window.out[axis], (end - 1 + before) // stride + 1)
    return first, max(first, last)


def positions_from(window: Window, axis: int, first: int, last: int, origin: int = 0) -> Window:
    """Return some positions of a window along an axis, in an image that begins at the cell `origin`."""
    before, after = window.padding[axis]
    pad = (before + origin - first * window.strides[axis], after)
    return window._replace(
        out=replaced(window.out, axis, last - first), padding=replaced(window.padding, axis, pad)
    )


def boxes_of(window: Window, least: int) -> Iterator[tuple[Window, int]]:
    """Yield windows with some cells of the filter, `least` if it has so many, and how many cells precede each."""
    axes, lead = 0, window.size
    while axes < len(lead) and size_of(lead[:axes]) < least:
        axes += 1
    rest = window.size[axes:]
    for i, cell in enumerate(product(*map(range, lead[:axes]))):
        shifts = zip(window.padding, cell, window.dilations, strict=False)
        pad = tuple((before - place * step, after) for (before, after), place, step in shifts)
        box = window._replace(size=(1,) * axes + rest, padding=pad + window.padding[axes:])
        yield box, i * size_of(rest)


class Part(NamedTuple):
    """One call: its descriptor, and where it begins in the images, filters and results, in elements."""

    descriptor: Sizes
    starts: tuple[int, int, int]


IMAGES, FILTERS, RESULTS = range(3)
"""The places in `Part.starts`."""


@lru_cache(maxsize=1024)
def image_chains(
    image: Sizes,
    window: Window,
    channels: int,
    work: int,
    most: int,
    of_cells: bool,
    multiple: int = 1,
) -> Sequence[Sequence[Part]]:
    """Return parts of the results, which have `channels`, or, if `of_cells`, of the images; each is one call."""
    pieces = pieces_of(image, window, work, most, of_cells=of_cells, multiple=multiple)
    return [
        [Part(window_descriptor(some, part), (start, 0, first * channels))]
        for some, part, start, first in pieces
    ]


@lru_cache(maxsize=1024)
def filter_chains(
    image: Sizes,
    window: Window,
    channels: int,
    weights: int,
    work: int,
    portion: Portion,
    threads: int,
) -> Sequence[Sequence[Part]]:
    """Return parts of the filter, whose cells have `weights` each; a part is a sum over parts of the images.

    Those of the images must not depend on the number of threads, because the order of a sum changes it.
    """
    least = 2 * threads if threads > 1 and work >= 2 * portion.least else 1
    chains: dict[int, list[Part]] = {}
    for some, part, start, first in pieces_of(image, window, work, portion.most):
        for box, cells in boxes_of(part, least):
            starts = start, cells * weights, first * channels
            chains.setdefault(cells, []).append(Part(window_descriptor(some, box), starts))
    return [*chains.values()]


def run_windows(
    x: WasmArray,
    export: str,
    places: Sequence[tuple[WasmArray, int]],
    chains: Sequence[Sequence[Part]],
    *attributes: float,
    work: int,
    scratch: int | None = None,
    behind: Sequence[tuple[WasmArray, int]] = (),
) -> None:
    """Call an export for all parts.

    The arguments of a call are the addresses of the arrays, that of the descriptor, those of the arrays
    behind it, and the attributes.

    Args:
        x: an array in whose memory the kernel runs.
        export: the name of the export.
        places: the arrays, and whether each has `IMAGES`, `FILTERS` or `RESULTS`.
        chains: the parts.
        attributes: further arguments.
        work: the elementary steps.
        scratch: the bytes of memory whose address is the last argument.
        behind: more arrays.
    """
    store = x.memory.store
    descriptors: list[Located] = []

    def addresses(part: Part, arrays: Sequence[tuple[WasmArray, int]]) -> list[int]:
        return [y.address + part.starts[which] * y.dtype.itemsize for y, which in arrays]

    def arguments(part: Part) -> tuple[float, ...]:
        descriptors.append(store.descriptor(part.descriptor))
        first, last = addresses(part, places), addresses(part, behind)
        return (*first, descriptors[-1].address, *last, *attributes)

    calls = [[arguments(part) for part in chain] for chain in chains]
    held = [*descriptors, *(array for array, _ in (*places, *behind))]
    run_chains(x, export, calls, held, work, scratch)


def replaced(values: Sequence[T], axis: int, value: T) -> tuple[T, ...]:
    """Return the values with another one at an axis."""
    return (*values[:axis], value, *values[axis + 1 :])


def reversed_window(size: Sizes, window: Window) -> Window:
    """Return how the reversed window slides over the result of one with stride 1, to give images of a size.

    Its padding may be negative: then it begins inside.
    """
    pad = tuple(
        ((length - 1) * step - before, 0)
        for length, step, (before, _) in zip(
            window.size, window.dilations, window.padding, strict=True
        )
    )
    return window._replace(out=size, padding=pad)
