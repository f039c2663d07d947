"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from plugrad.extend import ArgumentValueError

if TYPE_CHECKING:
    from plugrad.extend import Window

Sizes = tuple[int, ...]


@lru_cache(maxsize=1024)
def window_descriptor(image: Sizes, window: Window) -> Sizes:
    """Return the fields of ``window`` in csrc/window.h for images (batch, up to three axes, channels).

    Raises:
        ArgumentValueError: a window reaches so far that its cells cannot be counted.
    """
    before = tuple(start for start, _ in window.pad)
    sizes = image[1:-1], window.out, window.filter, window.strides, window.dilations, before
    axes = tuple(zip(*sizes, strict=True))
    for size, _, length, _, dilation, start in axes:
        if size + abs(start) + (length - 1) * dilation > LARGEST:
            raise ArgumentValueError(
                f"wasm: a window of {window.filter} with dilations {window.dilations} and "
                f"padding {window.pad} reaches further than 2**31 cells; use "
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
    out, pad, filter, strides, dilations = window
    return window._replace(
        out=out[axes],
        pad=pad[axes],
        filter=filter[axes],
        strides=strides[axes],
        dilations=dilations[axes],
    )


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
