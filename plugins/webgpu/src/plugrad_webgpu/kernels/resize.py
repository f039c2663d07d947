"""Images of another size, and the gradients: one axis after the other, at places that the host computes."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plugrad.extend import float32, int32, uint32
from plugrad.kernels import resize
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import vector
from plugrad_webgpu.kernels.indexing import gather
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import MOST_STEPS
from plugrad_webgpu.shaders import shader
from plugrad_webgpu.transfers import uploaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.extend import Pair
    from plugrad_webgpu.buffers import GpuArray

ROWS, COLUMNS = 1, 2


@table.implements(resize.resize_bilinear)
def resize_bilinear(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return images interpolated between rows, then between columns."""
    x = cast(images, dtype=float32)
    for axis in (ROWS, COLUMNS):
        count, length, outer = size[axis - 1], x.shape[axis], math.prod(x.shape[:axis])
        low, share = _around(length, count, align_corners, half_pixel_centers)
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        inner, width = _vectors(math.prod(shape[axis + 1 :]))
        words = uploaded(x.buffer.device, np.concatenate([low, share.view(np.uint32)]), uint32)
        invocations = outer * count * inner
        parameters = (invocations, inner, length, count, 0, count)
        step = plan(_program("resize", width), parameters, invocations, shape, float32)
        x = x.buffer.device.launch(step, words, x)
    return x


@table.implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return dy distributed between columns, then between rows."""
    for axis in (COLUMNS, ROWS):
        length = images.shape[axis]
        low, share = _around(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _collected(dy, axis, length, low, share, reach=1)
    return dy


@table.implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return the rows that are shown, and of these rows the columns that are shown."""
    for axis in (ROWS, COLUMNS):
        shown = _shown(images.shape[axis], size[axis - 1], align_corners, half_pixel_centers)
        positions = uploaded(images.buffer.device, shown.view(np.int32), int32)
        images = gather(images, positions, axis=axis, batch_dims=0)
    return images


@table.implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return the sums of dy over the columns that show the same column, then over rows."""
    for axis in (COLUMNS, ROWS):
        length = images.shape[axis]
        shown = _shown(length, size[axis - 1], align_corners, half_pixel_centers)
        dy = _collected(dy, axis, length, shown, np.zeros(shown.size, np.float32), reach=0)
    return dy


def _collected(
    dy: GpuArray,
    axis: int,
    length: int,
    low: NDArray[np.uint32],
    share: NDArray[np.float32],
    reach: int,
) -> GpuArray:
    """Return, for each position along an axis, the weighted sum of dy over the steps that show it.

    A step shows the positions from `low` to ``low + reach``.
    """
    device, steps, outer = dy.buffer.device, low.size, math.prod(dy.shape[:axis])
    positions = np.arange(length)
    ranges = [low.searchsorted(positions - reach), low.searchsorted(positions, "right")]
    words = np.concatenate([low, share.view(np.uint32), *ranges]).astype(np.uint32)
    places = uploaded(device, words, uint32)
    shape = (*dy.shape[:axis], length, *dy.shape[axis + 1 :])
    inner, width = _vectors(math.prod(shape[axis + 1 :]))
    count = outer * length * inner
    output = device.empty(shape, float32)
    for begin in range(0, steps, MOST_STEPS):
        parameters = (count, inner, length, steps, begin, min(begin + MOST_STEPS, steps))
        step = plan(_program("gradient", width), parameters, count, shape, float32)
        device.launch_into(step, output, places, dy)
    return output


def _vectors(inner: int) -> tuple[int, int]:
    """Return the number of vectors, or of elements, that are next to each other, and their width."""
    return (inner // 4, 4) if inner % 4 == 0 else (inner, 1)


@cache
def _program(entry_point: Literal["resize", "gradient"], width: int) -> Program:
    source = partial(shader, "resize", element=vector("f32", width))
    return Program(entry_point, source, entry_point=entry_point)


# --- places, in double precision or in integers: the sizes are numbers of the host ------------------


@lru_cache(maxsize=256)
def _around(
    length: int, count: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the position before each place along an axis, and its distance from there."""
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
    return low, (places - low).astype(np.float32)


@lru_cache(maxsize=256)
def _shown(
    length: int, count: int, align_corners: bool, half_pixel_centers: bool
) -> NDArray[np.uint32]:
    """Return the position that each place along an axis shows."""
    steps = np.arange(count)
    if align_corners and count > 1:
        shown = (2 * steps * (length - 1) + count - 1) // (2 * (count - 1))
    elif half_pixel_centers:
        shown = (2 * steps + 1) * length // (2 * count)
    else:
        shown = steps * length // count
    return shown.astype(np.uint32)
