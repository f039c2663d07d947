"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad_cpu.extend import PARTS_PER_THREAD, empty, thread_pool
from plugrad_native.declare import CACHE_LINE_FLOATS, FLOAT32, MAX_ELEMENTS, Array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Shape, Window
    from plugrad_cpu.extend import Call

MAX_SPATIAL_AXES: Final = 3
"""The maximum number of spatial axes that C supports."""
UNIT_WINDOW_AXIS: Final = (1, 1, 1, 1, 1, 0)
"""The numbers of a descriptor for an axis of size 1 and a window of one cell."""


@lru_cache(maxsize=1024)
def describe_window(image_shape: Shape, window: Window) -> Array | None:
    """Return C's descriptor of a `Window` over channels-last images: the fields of ``window`` in csrc/window.h.

    None if C does not take them: there are too many axes, or a window reaches too far for 32 bits.
    """
    if len(image_shape) - 2 > MAX_SPATIAL_AXES:
        return None
    before = tuple(start for start, _ in window.padding)
    sizes = image_shape[1:-1], window.out, window.size, window.strides, window.dilations, before
    axes = tuple(zip(*sizes, strict=True))
    for size, out, length, stride, dilation, start in axes:
        if size + abs(start) + length * dilation + (out + 1) * stride >= MAX_ELEMENTS:
            return None
    missing = (UNIT_WINDOW_AXIS,) * (MAX_SPATIAL_AXES - len(axes))
    descriptor = np.array((image_shape[0], image_shape[-1], *chain(*missing, *axes)), np.int32)
    descriptor.flags.writeable = False
    return descriptor


class WindowPart(NamedTuple):
    """A part of the window positions in one image."""

    descriptor: Array
    """C's descriptor of the part's positions."""
    positions: slice
    """The window positions of the part along the first axis that has several."""


@lru_cache(maxsize=1024)
def split_image(descriptor_bytes: bytes, part_count: int) -> list[WindowPart]:
    """Return parts of the window positions in a single image, given its descriptor as bytes.

    The parts are kept, as it takes longer than a short call to find them.
    """
    descriptor = np.frombuffer(descriptor_bytes, np.int32)
    axes = descriptor[2:].reshape(MAX_SPATIAL_AXES, -1)
    axis = next((i for i in range(MAX_SPATIAL_AXES) if axes[i, 1] > 1), 0)
    found: list[WindowPart] = []
    for first, last in pairwise(split_evenly(int(axes[axis, 1]), part_count)):
        changed = descriptor.copy()
        line = changed[2:].reshape(MAX_SPATIAL_AXES, -1)[axis]
        line[1] = last - first
        line[-1] -= first * line[3]  # the strides that come before it
        found.append(WindowPart(changed, slice(first, last)))
    return found


def split_evenly(item_count: int, max_parts: int) -> list[int]:
    """Return the bounds of nearly equal parts of `item_count` items, at most `max_parts`."""
    max_parts = max(min(max_parts, item_count), 1)
    return [item_count * i // max_parts for i in range(max_parts + 1)]


def count_window_parts(batch: int, work: int, *, keeps_images_whole: bool = False) -> int:
    """Return the maximum number of parts into which `run_windows` divides windows over `batch` images."""
    parts = thread_pool.count_parts(work, MAX_ELEMENTS, PARTS_PER_THREAD)
    return min(parts, batch) if batch > 1 or keeps_images_whole else parts


def run_windows(
    make_call: Callable[..., Call],
    descriptor: Array,
    images: Sequence[Array],
    results: Sequence[Array],
    *,
    work: int,
    scratch_floats: int = 0,
    keeps_images_whole: bool = False,
) -> None:
    """Call a C function for windows over images; threads share them if `work`, the cost in additions, is large.

    Windows slide over the images, which are dense arrays like the results. `make_call` takes the descriptor, images,
    results and scratch memory, if any, of a part, and returns a function and its arguments. Each part has scratch
    memory for itself. If windows write to the pixels that they cover, no image may be divided (`keeps_images_whole`).
    """
    batch = int(descriptor[0])
    parts = count_window_parts(batch, work, keeps_images_whole=keeps_images_whole)
    if batch > 1 or keeps_images_whole:
        scratch_floats = -(-scratch_floats // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS
        others = (empty((parts * scratch_floats,), FLOAT32),) if scratch_floats else ()
        arrays = [*images, *results]
        if parts > 1:  # one of them may be the filter as well, which all parts share
            arrays = [x.view() for x in arrays]
        run, *arguments = make_call(descriptor, *arrays, *others)
        if parts < 2:
            run(*arguments)
            return
        steps = {id(x): x.size // batch for x in arrays}
        steps |= {id(x): -scratch_floats for x in others}
        thread_pool.run_in_parts(
            run,
            tuple(arguments),
            tuple([steps.get(id(x), 0) for x in arguments]),
            next(i for i, x in enumerate(arguments) if x is descriptor),
            batch,
            parts=parts,
        )
        return
    pieces = split_image(descriptor.tobytes(), parts)
    lines = [x.reshape(pieces[-1].positions.stop, -1) for x in results]

    def make_part_call(part: WindowPart) -> Call:
        """Return the call for a part of the window positions."""
        others = (empty((scratch_floats,), FLOAT32),) if scratch_floats else ()
        return make_call(part.descriptor, *images, *(x[part.positions] for x in lines), *others)

    thread_pool.run([make_part_call(piece) for piece in pieces])


def with_filter_rows(descriptor: Array, first_row: int, end_row: int) -> Array:
    """Return C's descriptor for the rows from `first_row` to before `end_row` of a two-dimensional filter."""
    changed = descriptor.copy()
    height = changed[2:].reshape(MAX_SPATIAL_AXES, -1)[1]
    height[2] = end_row - first_row
    height[-1] -= first_row * height[4]  # the dilations of the rows before
    return changed


def reverse_window(image_size: Shape, window: Window) -> Window:
    """Return the window of the transposed convolution for stride 1, which slides over results and gives images.

    Its padding may be negative: then it begins inside.
    """
    sides = zip(window.size, window.dilations, window.padding, strict=True)
    pad = tuple(((length - 1) * step - before, 0) for length, step, (before, _) in sides)
    return window._replace(out=image_size, padding=pad)
