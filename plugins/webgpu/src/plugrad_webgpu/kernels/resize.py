"""Resizing of images, and its gradients: the host computes the source position of each row and column."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad.extend import float32, uint32
from plugrad.kernels import resize
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.elements import vector_type, words_per_element
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.extend import Pair
    from plugrad_webgpu.memory.buffers import GpuArray

ROW_AXIS, COLUMN_AXIS = 1, 2
"""The axes of images that hold rows and columns."""
VECTORS_PER_INVOCATION = 4
"""The largest number of elements, or of vectors of them, that an invocation computes."""
MAX_LOOP_STEPS = 8192
"""The largest number of steps of a loop: all loops of an invocation together must stay below 65,535."""


@table.implements(resize.resize_bilinear)
def resize_bilinear(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return images interpolated between rows, then between columns."""
    x = cast(images, dtype=float32)
    how = (align_corners, half_pixel_centers)
    return _run_resize(x, size, _bilinear_positions, how, "f32", "first + (second - first) * share")


@table.implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return dy distributed to columns, then to rows."""
    for axis in (COLUMN_AXIS, ROW_AXIS):
        lengths = images.shape[axis], size[axis - 1]
        dy = _sum_along_axis(
            dy,
            axis,
            *lengths,
            _bilinear_positions,
            (align_corners, half_pixel_centers),
            neighbour_count=1,
        )
    return dy


@table.implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return images resized by nearest neighbours; each word of an element is treated as a channel."""
    how = (align_corners, half_pixel_centers)
    *pixels, channels = images.shape
    words = reinterpret(images, (*pixels, channels * words_per_element(images.dtype)), uint32)
    resized = _run_resize(words, size, _nearest_positions, how, "u32", "first")
    return reinterpret(resized, (*resized.shape[:3], channels), images.dtype)


@table.implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: GpuArray, dy: GpuArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> GpuArray:
    """Return for each pixel the sum of dy over the positions that it was copied to."""
    for axis in (COLUMN_AXIS, ROW_AXIS):
        lengths = images.shape[axis], size[axis - 1]
        dy = _sum_along_axis(
            dy,
            axis,
            *lengths,
            _nearest_positions,
            (align_corners, half_pixel_centers),
            neighbour_count=0,
        )
    return dy


class SourcePositions(NamedTuple):
    """The source index below each position along an axis, and the fraction of the way to the next one."""

    lower_index: NDArray[np.uint32]
    """The index of the source row or column at or before each position."""
    fraction: NDArray[np.float32]
    """The distance from the lower index to the position, between 0 and 1."""


SourcePositionFunction = Callable[[int, int, bool, bool], SourcePositions]
"""A function of the lengths of the source and of the result along an axis, and of the flags."""
ResizeFlags = tuple[bool, bool]
"""Whether to align the corners, and whether pixels have their centers at halves."""


def _run_resize(
    x: GpuArray,
    size: Pair,
    find_positions: SourcePositionFunction,
    flags: ResizeFlags,
    wgsl_type: str,
    mix_expression: str,
) -> GpuArray:
    """Return images interpolated at the positions that `find_positions` computes."""
    shape = (x.shape[0], *size, x.shape[3])
    channels, chunk, chunks, width = _chunk_sizes(shape[3])
    count = math.prod(shape[:3]) * chunks
    parameters = (count, chunks, chunk, channels, *x.shape[1:3], *shape[1:3])
    step = plan(
        _resize_program(vector_type(wgsl_type, width), mix_expression),
        parameters,
        count,
        shape,
        x.dtype,
    )
    device = x.buffer.device
    lengths = (x.shape[ROW_AXIS], size[0], x.shape[COLUMN_AXIS], size[1])
    return device.launch(
        step, device.constant(_make_position_table(find_positions), *lengths, *flags), x
    )


@cache
def _make_position_table(
    find_positions: SourcePositionFunction,
) -> Callable[..., NDArray[np.uint32]]:
    """Return a function that computes an array of source positions of rows and columns, which the device caches."""

    def compute_table(
        image_height: int, result_height: int, image_width: int, result_width: int, *flags: bool
    ) -> NDArray[np.uint32]:
        """Return the source positions of rows, then of columns, in one array."""
        of_both = (
            *find_positions(image_height, result_height, *flags),
            *find_positions(image_width, result_width, *flags),
        )
        return np.concatenate([part.view(np.uint32) for part in of_both])

    return compute_table


@cache
def _make_range_table(find_positions: SourcePositionFunction) -> Callable[..., NDArray[np.uint32]]:
    """Return a function that computes an axis's source positions, and the range of results that use each."""

    def compute_table(
        source_length: int, result_length: int, neighbour_count: int, *flags: bool
    ) -> NDArray[np.uint32]:
        (low, share), positions = (
            find_positions(source_length, result_length, *flags),
            np.arange(source_length),
        )
        ranges = [
            low.searchsorted(positions - neighbour_count),
            low.searchsorted(positions, "right"),
        ]
        return np.concatenate([low, share.view(np.uint32), *ranges]).astype(np.uint32)

    return compute_table


def _sum_along_axis(
    dy: GpuArray,
    axis: int,
    source_length: int,
    result_length: int,
    find_positions: SourcePositionFunction,
    flags: ResizeFlags,
    neighbour_count: int,
) -> GpuArray:
    """Return for each source index along an axis the weighted sum of dy over the results that use it.

    A result uses the source indices from the lower one to ``lower + neighbour_count``.
    """
    device = dy.buffer.device
    numbers = device.constant(
        _make_range_table(find_positions), source_length, result_length, neighbour_count, *flags
    )
    shape = (*dy.shape[:axis], source_length, *dy.shape[axis + 1 :])
    inner, chunk, chunks, width = _chunk_sizes(math.prod(shape[axis + 1 :]))
    program = _resize_gradient_program(vector_type("f32", width))
    invocations = math.prod(shape[: axis + 1]) * chunks
    output = device.empty(shape, float32)
    for begin in range(0, result_length, MAX_LOOP_STEPS):
        steps = (result_length, begin, min(begin + MAX_LOOP_STEPS, result_length))
        parameters = (invocations, chunks, chunk, inner, source_length, *steps)
        step = plan(program, parameters, invocations, shape, float32)
        device.launch_into(step, output, numbers, dy)
    return output


def _chunk_sizes(channel_count: int) -> tuple[int, int, int, int]:
    """Return the numbers of vectors of channels, of vectors per chunk, of chunks, and of channels per vector."""
    width = 4 if channel_count % 4 == 0 else 1
    vectors = channel_count // width
    chunk = min(max(vectors, 1), VECTORS_PER_INVOCATION)
    return vectors, chunk, -(-vectors // chunk), width


@cache
def _resize_program(wgsl_type: str, mix_expression: str) -> Program:
    """Return the program that interpolates images."""
    return Program("resize", partial(shader, "resize", element=wgsl_type, mix=mix_expression))


@cache
def _resize_gradient_program(wgsl_type: str) -> Program:
    """Return the program that sums the gradient along an axis."""
    return Program("resize gradient", partial(shader, "resize_gradient", element=wgsl_type))


# --- places, in double precision or in integers: the sizes are numbers of the host ------------------


def _bilinear_positions(
    source_length: int, result_length: int, align_corners: bool, half_pixel_centers: bool
) -> SourcePositions:
    """Return the source positions of bilinear interpolation along an axis."""
    steps = np.arange(result_length)
    places: NDArray[Any]
    if align_corners and result_length > 1:
        places = steps * ((source_length - 1) / (result_length - 1))
    elif half_pixel_centers:
        places = (steps + 0.5) * (source_length / result_length) - 0.5
    else:
        places = steps * (source_length / result_length)
    places = np.clip(places, 0, source_length - 1)
    low = places.astype(np.uint32)
    return SourcePositions(low, (places - low).astype(np.float32))


def _nearest_positions(
    source_length: int, result_length: int, align_corners: bool, half_pixel_centers: bool
) -> SourcePositions:
    """Return the source indices of nearest-neighbour resizing along an axis."""
    steps = np.arange(result_length)
    if align_corners and result_length > 1:
        shown = (2 * steps * (source_length - 1) + result_length - 1) // (2 * (result_length - 1))
    elif half_pixel_centers:
        shown = (2 * steps + 1) * source_length // (2 * result_length)
    else:
        shown = steps * source_length // result_length
    return SourcePositions(shown.astype(np.uint32), np.zeros(result_length, np.float32))
