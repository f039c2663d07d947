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
UNIT_WINDOW_AXIS: Final = (1, 1, 1, 1, 1, 0)
"""An axis of size 1 and a window of one cell."""


@lru_cache(maxsize=1024)
def describe_window(image: Shape, window: Window) -> Array | None:
    """Return the fields of ``window`` in csrc/window.h for channels-last images.

    None if C does not take them: there are too many axes, or a window reaches too far for 32 bits.
    """
    if len(image) - 2 > MAX_SPATIAL_AXES:
        return None
    before = tuple(start for start, _ in window.padding)
    sizes = image[1:-1], window.out, window.size, window.strides, window.dilations, before
    axes = tuple(zip(*sizes, strict=True))
    for size, out, length, stride, dilation, start in axes:
        if size + abs(start) + length * dilation + (out + 1) * stride >= MAX_ELEMENTS:
            return None
    missing = (UNIT_WINDOW_AXIS,) * (MAX_SPATIAL_AXES - len(axes))
    descriptor = np.array((image[0], image[-1], *chain(*missing, *axes)), np.int32)
    descriptor.flags.writeable = False
    return descriptor


class WindowPart(NamedTuple):
    """A part of the window positions in one image."""

    descriptor: Array
    positions: slice
    """Those along the first axis that has several."""


@lru_cache(maxsize=1024)
def split_image(described: bytes, parts: int) -> list[WindowPart]:
    """Divide the window positions in a single image, whose descriptor is given in bytes.

    The parts are kept, as it takes longer than a short call to find them.
    """
    descriptor = np.frombuffer(described, np.int32)
    axes = descriptor[2:].reshape(MAX_SPATIAL_AXES, -1)
    axis = next((i for i in range(MAX_SPATIAL_AXES) if axes[i, 1] > 1), 0)
    found: list[WindowPart] = []
    for first, last in pairwise(_split_evenly(int(axes[axis, 1]), parts)):
        changed = descriptor.copy()
        line = changed[2:].reshape(MAX_SPATIAL_AXES, -1)[axis]
        line[1] = last - first
        line[-1] -= first * line[3]  # the strides that come before it
        found.append(WindowPart(changed, slice(first, last)))
    return found


def _split_evenly(count: int, parts: int) -> list[int]:
    """Return the bounds of up to `parts` nearly equal parts."""
    parts = max(min(parts, count), 1)
    return [count * i // parts for i in range(parts + 1)]


def run_windows(
    make_call: Callable[..., Call],
    descriptor: Array,
    images: Sequence[Array],
    results: Sequence[Array],
    *,
    work: int,
    scratch: int = 0,
    by_images: bool = False,
) -> None:
    """Call a function for windows over images, in several threads if the work is long.

    Args:
        make_call: takes the descriptor, images, results, and float32 in scratch memory, if any, of a part, and
            returns a function and its arguments.
        descriptor: the geometry.
        images: dense arrays as large as the images that windows slide over.
        results: dense arrays with something for each position of a window.
        work: about how many steps it takes, in those of an addition.
        scratch: the number of float32 in scratch memory, which each part has for itself.
        by_images: a single image is not divided, because windows write to what they cover.
    """
    parts = thread_pool.count_parts(work, MAX_ELEMENTS, PARTS_PER_THREAD)
    batch = int(descriptor[0])
    if batch > 1 or by_images:
        parts = min(parts, batch)
        scratch = -(-scratch // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS
        others = (empty((parts * scratch,), FLOAT32),) if scratch else ()
        arrays = [*images, *results]
        if parts > 1:  # one of them may be the filter as well, which all parts share
            arrays = [x.view() for x in arrays]
        run, *arguments = make_call(descriptor, *arrays, *others)
        if parts < 2:
            run(*arguments)
            return
        steps = {id(x): x.size // batch for x in arrays}
        steps |= {id(x): -scratch for x in others}
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

    def make_part(piece: WindowPart) -> Call:
        others = (empty((scratch,), FLOAT32),) if scratch else ()
        return make_call(piece.descriptor, *images, *(x[piece.positions] for x in lines), *others)

    thread_pool.run([make_part(piece) for piece in pieces])


def with_filter_rows(descriptor: Array, first: int, last: int) -> Array:
    """Return the descriptor restricted to some rows of a two-dimensional filter."""
    changed = descriptor.copy()
    height = changed[2:].reshape(MAX_SPATIAL_AXES, -1)[1]
    height[2] = last - first
    height[-1] -= first * height[4]  # the dilations of the rows before
    return changed


def reverse_window(size: Shape, window: Window) -> Window:
    """Return the window of the transposed convolution, for stride 1: it slides over results and gives images.

    Its padding may be negative: then it begins inside.
    """
    sides = zip(window.size, window.dilations, window.padding, strict=True)
    pad = tuple(((length - 1) * step - before, 0) for length, step, (before, _) in sides)
    return window._replace(out=size, padding=pad)
