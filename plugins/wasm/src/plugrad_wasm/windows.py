"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from plugrad.extend import ArgumentValueError, Window, count_elements
from plugrad_wasm.declare import run_call_chains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugrad_wasm.declare import PartStepLimits
    from plugrad_wasm.memory import WasmArray
    from plugrad_wasm.runtime import HasMemoryAddress

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""
Item = TypeVar("Item")
"""The type of one axis's value."""


@lru_cache(maxsize=1024)
def window_descriptor(image_shape: Sizes, window: Window) -> Sizes:
    """Return the descriptor of a `Window` over channels-last images: the fields of ``window`` in csrc/window.h.

    Raises:
        ArgumentValueError: a window reaches so far that its cells cannot be counted.
    """
    before = tuple(start for start, _ in window.padding)
    sizes = image_shape[1:-1], window.out, window.size, window.strides, window.dilations, before
    axes = tuple(zip(*sizes, strict=True))
    for size, _, length, _, dilation, start in axes:
        if size + abs(start) + (length - 1) * dilation > INT32_MAX:
            raise ArgumentValueError(
                f"wasm: a window of {window.size} with dilations {window.dilations} and "
                f"padding {window.padding} reaches further than 2**31 cells; use "
                "smaller ones, or the cpu backend"
            )
    missing = (UNIT_AXIS_FIELDS,) * (MAX_SPATIAL_AXES - len(axes))
    return (image_shape[0], image_shape[-1], *chain(*missing, *axes))


MAX_SPATIAL_AXES: Final = 3
"""The maximum number of spatial axes that the module supports."""
INT32_MAX: Final = 2**31 - 1
"""The largest number of int32."""
UNIT_AXIS_FIELDS: Final = (1, 1, 1, 1, 1, 0)
"""The numbers of a descriptor for an axis of size 1 and a window of one cell."""


def select_axes(window: Window, axes: slice) -> Window:
    """Return a `Window` with only the axes of a slice."""
    size, strides, padding, dilations, out = window
    return Window(size[axes], strides[axes], padding[axes], dilations[axes], out[axes])


class WindowPart(NamedTuple):
    """A part of the work on windows, with its offsets in the images and among the windows."""

    image_shape: Sizes
    """The shape of the part's images."""
    window: Window
    """The `Window` with the part's positions or cells."""
    first_element: int
    """The number of elements of the images before the part."""
    first_position: int
    """The number of window positions before the part."""


def split_windows(
    image_shape: Sizes,
    window: Window,
    work: int,
    max_steps: int,
    *,
    splits_cells: bool = False,
    part_size_multiple: int = 1,
) -> Iterator[WindowPart]:
    """Yield parts of a `Window` over images; each has about `max_steps` of the `work`, both in elementary steps.

    A part has some of the images. A single image is split along an axis: into positions of the window or,
    if `splits_cells`, into cells, each with all positions whose window reaches it. All parts of an axis but the
    last have a multiple of `part_size_multiple` of them.
    """
    batch, *sizes, channels = image_shape
    split = sizes if splits_cells else window.out
    # The positions over a part of the cells must be neighbours in memory, so no axis before may have several.
    lengths = map(max, sizes, window.out) if splits_cells else window.out
    axis = next((axis for axis, length in enumerate(lengths) if length > 1), None)
    if work <= max_steps or (batch == 1 and axis is None):
        yield WindowPart(image_shape, window, 0, 0)
    elif batch > 1:
        elements, positions = count_elements(image_shape[1:]), count_elements(window.out)
        length = max(1, max_steps * batch // work)
        for i in range(0, batch, length):
            images = min(length, batch - i)
            some = (images, *image_shape[1:])
            part = work * images // batch
            for piece in split_windows(
                some,
                window,
                part,
                max_steps,
                splits_cells=splits_cells,
                part_size_multiple=part_size_multiple,
            ):
                start, first = (
                    piece.first_element + i * elements,
                    piece.first_position + i * positions,
                )
                yield piece._replace(first_element=start, first_position=first)
    elif axis is not None:
        elements, positions = (
            count_elements(image_shape[axis + 2 :]),
            count_elements(window.out[axis + 1 :]),
        )
        length = max(
            part_size_multiple,
            max_steps * split[axis] // work // part_size_multiple * part_size_multiple,
        )
        for i in range(0, split[axis], length):
            end = min(i + length, split[axis])
            if splits_cells:
                first, last = find_positions_over_cells(window, axis, i, end)
                part = restrict_window_positions(window, axis, first, last, i)
                some = (batch, *replace_axis_value(sizes, axis, end - i), channels)
                yield WindowPart(some, part, i * elements, first * positions)
            else:
                yield WindowPart(
                    image_shape, restrict_window_positions(window, axis, i, end), 0, i * positions
                )


def find_positions_over_cells(
    window: Window, axis: int, first_cell: int, end_cell: int
) -> tuple[int, int]:
    """Return the first and the end position along an axis at which windows cover cells of a range of the image."""
    stride, before = window.strides[axis], window.padding[axis][0]
    extent = (window.size[axis] - 1) * window.dilations[axis]
    first = max(0, -(-(first_cell + before - extent) // stride))
    last = min(window.out[axis], (end_cell - 1 + before) // stride + 1)
    return first, max(first, last)


def restrict_window_positions(
    window: Window, axis: int, first_position: int, end_position: int, image_start: int = 0
) -> Window:
    """Return a `Window` with only some positions along an axis, for an image that begins at `image_start` on it."""
    before, after = window.padding[axis]
    pad = (before + image_start - first_position * window.strides[axis], after)
    return window._replace(
        out=replace_axis_value(window.out, axis, end_position - first_position),
        padding=replace_axis_value(window.padding, axis, pad),
    )


def split_filter(window: Window, min_parts: int) -> Iterator[tuple[Window, int]]:
    """Yield a `Window` for each part of the filter, at least `min_parts` if possible, and the cells before the part."""
    axes, lead = 0, window.size
    while axes < len(lead) and count_elements(lead[:axes]) < min_parts:
        axes += 1
    rest = window.size[axes:]
    for i, cell in enumerate(product(*map(range, lead[:axes]))):
        shifts = zip(window.padding, cell, window.dilations, strict=False)
        pad = tuple((before - place * step, after) for (before, after), place, step in shifts)
        box = window._replace(size=(1,) * axes + rest, padding=pad + window.padding[axes:])
        yield box, i * count_elements(rest)


class KernelCall(NamedTuple):
    """A call of a windowed kernel: its descriptor, and its offsets in images, filters and results, in elements."""

    descriptor: Sizes
    """The descriptor of the windows."""
    start_offsets: tuple[int, int, int]
    """The elements before the part in images, filters and results."""


IMAGES, FILTERS, RESULTS = range(3)
"""The kinds of arrays of a kernel, as indices of `KernelCall.start_offsets`: images, filters and results."""


@lru_cache(maxsize=1024)
def split_image_calls(
    image_shape: Sizes,
    window: Window,
    result_channels: int,
    work: int,
    max_steps: int,
    splits_cells: bool,
    part_size_multiple: int = 1,
) -> Sequence[Sequence[KernelCall]]:
    """Return chains of one call each for parts of a `Window`'s results, or of the images if `splits_cells`.

    `work` is the number of elementary steps of the whole kernel, and `max_steps` that of one call.
    """
    pieces = split_windows(
        image_shape,
        window,
        work,
        max_steps,
        splits_cells=splits_cells,
        part_size_multiple=part_size_multiple,
    )
    return [
        [KernelCall(window_descriptor(some, part), (start, 0, first * result_channels))]
        for some, part, start, first in pieces
    ]


@lru_cache(maxsize=1024)
def split_filter_calls(
    image_shape: Sizes,
    window: Window,
    result_channels: int,
    weights_per_cell: int,
    work: int,
    step_limits: PartStepLimits,
    thread_count: int,
) -> Sequence[Sequence[KernelCall]]:
    """Return a chain of calls for each part of a `Window`'s filter; a chain sums over parts of the images.

    The parts of the images must not depend on the number of threads, because the order of a sum changes it.
    """
    least = 2 * thread_count if thread_count > 1 and work >= 2 * step_limits.minimum else 1
    chains: dict[int, list[KernelCall]] = {}
    for some, part, start, first in split_windows(image_shape, window, work, step_limits.maximum):
        for box, cells in split_filter(part, least):
            starts = start, cells * weights_per_cell, first * result_channels
            chains.setdefault(cells, []).append(KernelCall(window_descriptor(some, box), starts))
    return [*chains.values()]


@lru_cache(maxsize=1024)
def split_channel_calls(
    image_shape: Sizes,
    window: Window,
    result_channels: int,
    work: int,
    max_steps: int,
    channels_per_chain: int,
    part_size_multiple: int,
) -> Sequence[Sequence[KernelCall]]:
    """Return a chain of calls of a `Window` for every `channels_per_chain` result channels, with sums over images."""
    pieces = [
        *split_windows(image_shape, window, work, max_steps, part_size_multiple=part_size_multiple)
    ]
    return [
        [
            KernelCall(
                window_descriptor(some, part), (start, column, first * result_channels + column)
            )
            for some, part, start, first in pieces
        ]
        for column in range(0, result_channels, channels_per_chain)
    ]


def run_windows(
    x: WasmArray,
    export: str,
    arrays_and_kinds: Sequence[tuple[WasmArray, int]],
    chains: Sequence[Sequence[KernelCall]],
    *attributes: float,
    work: int,
    scratch_bytes: int | None = None,
    trailing_arrays: Sequence[tuple[WasmArray, int]] = (),
) -> None:
    """Call a windowed export for the parts in `chains`; `work` is the cost of all parts in elementary steps.

    The arguments of a call are the addresses of the arrays, that of the descriptor, those of the arrays
    behind it, and the attributes.

    Args:
        x: an array in whose memory the kernel runs.
        export: the name of the export.
        arrays_and_kinds: the arrays, and the kind of each: `IMAGES`, `FILTERS` or `RESULTS`.
        chains: the calls for the parts.
        attributes: further arguments.
        work: the elementary steps.
        scratch_bytes: the bytes of scratch memory, whose address is the last argument.
        trailing_arrays: the arrays behind the descriptor, and the kind of each.
    """
    store = x.memory.store
    descriptors: list[HasMemoryAddress] = []

    def find_addresses(
        kernel_call: KernelCall, arrays_and_kinds: Sequence[tuple[WasmArray, int]]
    ) -> list[int]:
        """Return the addresses at which a call begins in arrays."""
        return [
            y.address + kernel_call.start_offsets[which] * y.dtype.itemsize
            for y, which in arrays_and_kinds
        ]

    def make_arguments(kernel_call: KernelCall) -> tuple[float, ...]:
        """Return the arguments of a call."""
        descriptors.append(store.descriptor(kernel_call.descriptor))
        first, last = (
            find_addresses(kernel_call, arrays_and_kinds),
            find_addresses(kernel_call, trailing_arrays),
        )
        return (*first, descriptors[-1].address, *last, *attributes)

    calls = [[make_arguments(part) for part in chain] for chain in chains]
    held = [*descriptors, *(array for array, _ in (*arrays_and_kinds, *trailing_arrays))]
    run_call_chains(x, export, calls, held, work, scratch_bytes)


def replace_axis_value(values: Sequence[Item], axis: int, value: Item) -> tuple[Item, ...]:
    """Return a copy of a tuple with one value per axis, in which the value of one axis is replaced."""
    return (*values[:axis], value, *values[axis + 1 :])


def reverse_window(image_size: Sizes, window: Window) -> Window:
    """Return the `Window` of the transposed convolution for stride 1, which slides over results and gives images.

    Its padding may be negative: then it begins inside.
    """
    pad = tuple(
        ((length - 1) * step - before, 0)
        for length, step, (before, _) in zip(
            window.size, window.dilations, window.padding, strict=True
        )
    )
    return window._replace(out=image_size, padding=pad)
