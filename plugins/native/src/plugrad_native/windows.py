"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad_native.declare import MAX_ELEMENTS, Array

if TYPE_CHECKING:
    from plugrad.extend import Shape, Window

MAX_SPATIAL_AXES: Final = 3
UNIT_AXIS: Final = (1, 1, 1, 1, 1, 0)
"""An axis of size 1 and a window of one cell."""


@lru_cache(maxsize=1024)
def window_descriptor(image: Shape, window: Window) -> Array | None:
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
    missing = (UNIT_AXIS,) * (MAX_SPATIAL_AXES - len(axes))
    descriptor = np.array((image[0], image[-1], *chain(*missing, *axes)), np.int32)
    descriptor.flags.writeable = False
    return descriptor


def with_batch_size(descriptor: Array, count: int) -> Array:
    """Return the descriptor with another batch size."""
    changed = descriptor.copy()
    changed[0] = count
    return changed


def reversed_window(size: Shape, window: Window) -> Window:
    """Return how the reversed window slides over the result of one with stride 1, to give images of a size.

    Its padding may be negative: then it begins inside.
    """
    sides = zip(window.size, window.dilations, window.padding, strict=True)
    pad = tuple(((length - 1) * step - before, 0) for length, step, (before, _) in sides)
    return window._replace(out=size, padding=pad)
