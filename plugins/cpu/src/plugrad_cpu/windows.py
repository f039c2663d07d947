"""Windows that slide over channels-last images with any number of axes, for convolution and pooling."""

from functools import lru_cache
from operator import mul

from numpy.lib.stride_tricks import as_strided

from plugrad.extend import Shape, Window, cell_slices, window_margins
from plugrad_cpu.declare import Array
from plugrad_cpu.memory import empty

AxisSlices = tuple[slice, ...]
"""The type of an index: a slice for each axis."""


@lru_cache(maxsize=1024)
def padded_size(image_size: Shape, window: Window) -> tuple[Shape, AxisSlices]:
    """Return the spatial size of images padded for a `Window`, and the slices of the images in them."""
    sides = list(zip(image_size, window_margins(image_size, window), strict=True))
    place = (slice(before, before + n) for n, (before, _) in sides)
    return tuple(before + n + after for n, (before, after) in sides), (slice(None), *place)


def pad_images(x: Array, window: Window, padding_value: float) -> Array:
    """Return images with the padding of a `Window`, filled with `padding_value`."""
    sizes, place = padded_size(x.shape[1:-1], window)
    if sizes == x.shape[1:-1]:
        return x
    y = empty((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    for axis in range(1, x.ndim - 1):
        lead = (slice(None),) * axis
        y[(*lead, slice(place[axis].start))] = padding_value
        y[(*lead, slice(place[axis].stop, None))] = padding_value
    y[place] = x
    return y


def crop_padding(x: Array, image_size: Shape, window: Window) -> Array:
    """Return a view of padded images without the padding of a `Window`; `image_size` is the size without it."""
    return x[padded_size(image_size, window)[1]]


def window_patches(x: Array, window: Window) -> Array:
    """Return a view (batch, *window positions, *filter cells, channels) of padded images for a `Window`."""
    by_batch, *by_axis, by_channel = x.strides
    return as_strided(
        x,
        (x.shape[0], *window.out, *window.size, x.shape[-1]),
        (
            by_batch,
            *map(mul, by_axis, window.strides),
            *map(mul, by_axis, window.dilations),
            by_channel,
        ),
        writeable=False,
    )


def iter_cells(window: Window) -> list[tuple[Shape, AxisSlices]]:
    """Return each cell of the windows with the slices of the padded images that it covers in all positions."""
    return [
        (cell, (slice(None), *map(slice, begin, end, window.strides)))
        for cell, begin, end in cell_slices(window)
    ]
