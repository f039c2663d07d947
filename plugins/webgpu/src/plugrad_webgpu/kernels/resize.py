"""Images of another size, and the gradients: the host computes which places are shown."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad.extend import float32, uint32
from plugrad.kernels import resize
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import vector
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader
from plugrad_webgpu.transfers import uploaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.extend import Pair
    from plugrad_webgpu.buffers import GpuArray

ROWS, COLUMNS = 1, 2
CHUNK = 4  # elements or vectors of an invocation
MOST_STEPS = 8192  # of each of them: all loops of an invocation together must stay below 65,535


@table.implements(resize.resize_bilinear)
def resize_bilinear(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return images interpolated between rows, then between columns."""
    x = cast(images, dtype=float32)
    how = (align_corners, half_pixel_centers)
    rows, columns = (_around(x.shape[axis], size[axis - 1], *how) for axis in (ROWS, COLUMNS))
    return _resized(x, rows, columns, "f32", "first + (second - first) * share")


@table.implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return dy distributed between columns, then between rows."""
    for axis in (COLUMNS, ROWS):
        length = images.shape[axis]
        places = _around(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _collected(dy, axis, length, places, reach=1)
    return dy


@table.implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return the pixels that are shown; they are the bits of any 32-bit dtype."""
    how = (align_corners, half_pixel_centers)
    rows, columns = (_shown(images.shape[axis], size[axis - 1], *how) for axis in (ROWS, COLUMNS))
    return _resized(images, rows, columns, "u32", "first")


@table.implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return the sums of dy over the columns that show the same column, then over rows."""
    for axis in (COLUMNS, ROWS):
        length = images.shape[axis]
        places = _shown(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _collected(dy, axis, length, places, reach=0)
    return dy


class Places(NamedTuple):
    """The position before each step along an axis, and the distance from there, a share of 1."""

    low: NDArray[np.uint32]
    share: NDArray[np.float32]


def _resized(x: GpuArray, rows: Places, columns: Places, element: str, mix: str) -> GpuArray:
    """Return images whose pixels show points between the pixels of images."""
    words = [part.view(np.uint32) for places in (rows, columns) for part in places]
    shape = (x.shape[0], rows.low.size, columns.low.size, x.shape[3])
    channels, chunk, chunks, width = _chunks(shape[3])
    count = math.prod(shape[:3]) * chunks
    parameters = (count, chunks, chunk, channels, *x.shape[1:3], *shape[1:3])
    step = plan(_program(vector(element, width), mix), parameters, count, shape, x.dtype)
    device = x.buffer.device
    return device.launch(step, uploaded(device, np.concatenate(words), uint32), x)


def _collected(dy: GpuArray, axis: int, length: int, places: Places, reach: int) -> GpuArray:
    """Return, for each position along an axis, the weighted sum of dy over the steps that show it.

    A step shows the positions from `low` to ``low + reach``.
    """
    device, (low, share), positions = dy.buffer.device, places, np.arange(length)
    ranges = [low.searchsorted(positions - reach), low.searchsorted(positions, "right")]
    words = np.concatenate([low, share.view(np.uint32), *ranges]).astype(np.uint32)
    numbers = uploaded(device, words, uint32)
    shape = (*dy.shape[:axis], length, *dy.shape[axis + 1 :])
    inner, chunk, chunks, width = _chunks(math.prod(shape[axis + 1 :]))
    program = _gradient_program(vector("f32", width))
    count = math.prod(shape[: axis + 1]) * chunks
    output = device.empty(shape, float32)
    for begin in range(0, low.size, MOST_STEPS):
        steps = (low.size, begin, min(begin + MOST_STEPS, low.size))
        parameters = (count, chunks, chunk, inner, length, *steps)
        device.launch_into(plan(program, parameters, count, shape, float32), output, numbers, dy)
    return output


def _chunks(size: int) -> tuple[int, int, int, int]:
    """Return how elements are divided: the vectors or elements, those of a chunk, the chunks, the width of a vector."""
    width = 4 if size % 4 == 0 else 1
    vectors = size // width
    chunk = min(max(vectors, 1), CHUNK)
    return vectors, chunk, -(-vectors // chunk), width


@cache
def _program(element: str, mix: str) -> Program:
    return Program("resize", partial(shader, "resize", element=element, mix=mix))


@cache
def _gradient_program(element: str) -> Program:
    return Program("resize gradient", partial(shader, "resize_gradient", element=element))


# --- places, in double precision or in integers: the sizes are numbers of the host ------------------


def _around(length: int, count: int, align_corners: bool, half_pixel_centers: bool) -> Places:
    """Return the places between positions that a resized axis shows."""
    steps = np.arange(count)
    places: NDArray[Any]
    if align_corners and count > 1:
        places = steps * ((length - 1) / (count - 1))
    elif half_pixel_centers:
        places = (steps + 0.5) * (length / count) - 0.5
    else:
        places = steps * (length / count)
    places = np.clip(places, 0, length - 1)
    low = places.astype(np.uint32)
    return Places(low, (places - low).astype(np.float32))


def _shown(length: int, count: int, align_corners: bool, half_pixel_centers: bool) -> Places:
    """Return the positions that a resized axis shows."""
    steps = np.arange(count)
    if align_corners and count > 1:
        shown = (2 * steps * (length - 1) + count - 1) // (2 * (count - 1))
    elif half_pixel_centers:
        shown = (2 * steps + 1) * length // (2 * count)
    else:
        shown = steps * length // count
    return Places(shown.astype(np.uint32), np.zeros(count, np.float32))
