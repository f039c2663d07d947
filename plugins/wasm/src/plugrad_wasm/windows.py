"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plugrad.extend import Window

Sizes = tuple[int, ...]


def window_descriptor(image: Sizes, window: Window) -> Sizes:
    """Return the fields of ``window`` in csrc/window.h for images (batch, one to three axes, channels)."""
    before = (start for start, _ in window.pad)
    sizes = image[1:-1], window.out, window.filter, window.strides, window.dilations, before
    axes = zip(*sizes, strict=True)
    missing = (SINGLE,) * (5 - len(image))
    return (image[0], image[-1], *chain(*missing, *axes))


SINGLE: Final = (1, 1, 1, 1, 1, 0)
"""An axis of size 1 and a window of one cell."""


def reversed_window(size: Sizes, window: Window) -> Window:
    """Return how the reversed window slides over the result of one with stride 1, to give images of a size.

    Its padding may be negative: then it begins inside.
    """
    pad = tuple(
        ((length - 1) * step - before, 0)
        for length, step, (before, _) in zip(
            window.filter, window.dilations, window.pad, strict=True
        )
    )
    return window._replace(out=size, pad=pad)
