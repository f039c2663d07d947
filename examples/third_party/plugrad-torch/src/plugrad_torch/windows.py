"""Windows that slide over channels-last images, for convolution, pooling and morphology."""

from collections.abc import Sequence

import torch
from torch.nn import functional

from plugrad.extend import Shape, Window, cell_slices
from plugrad_torch.declare import Array


def window_margins(size: Sequence[int], window: Window) -> list[tuple[int, int]]:
    """Return how many cells the windows reach beyond an image on each axis; cells left out count as negative."""
    return [
        (before, (out - 1) * stride + (length - 1) * dilation + 1 - before - n)
        for n, length, stride, (before, _), dilation, out in zip(size, *window, strict=True)
    ]


def frame_images(x: Array, window: Window, border_value: float = 0) -> Array:
    """Return images with exactly the cells that the windows cover; those beyond the image hold `border_value`."""
    sides = window_margins(x.shape[1:-1], window)
    return functional.pad(
        x, [0, 0, *(n for pair in reversed(sides) for n in pair)], value=border_value
    )


def unframe_images(x: Array, size: Sequence[int], window: Window) -> Array:
    """Return images of a size, given those of `frame_images`; cells that no window covers are 0."""
    sides = window_margins(size, window)
    return functional.pad(x, [0, 0, *(-n for pair in reversed(sides) for n in pair)])


def iter_cells(window: Window) -> list[tuple[Shape, tuple[slice, ...]]]:
    """Return each cell of the filter with the slice of the framed images that it meets in all windows."""
    return [
        (cell, (slice(None), *map(slice, begin, end, window.strides)))
        for cell, begin, end in cell_slices(window)
    ]


def lowest_value(x: Array) -> float:
    """Return the least number of the dtype of x."""
    return -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
