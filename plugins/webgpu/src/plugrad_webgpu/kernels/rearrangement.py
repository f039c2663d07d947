"""Rearrangements: strided copies. Shapes as values have implementations in the core, which run on the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plugrad.extend import host_bodies
from plugrad.kernels import rearrangement
from plugrad_webgpu.buffers import shared
from plugrad_webgpu.copying import block, copied, joined, range_view, transposed
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.movement import pad

if TYPE_CHECKING:
    from plugrad.extend import DataFormat, Pairs, Shape
    from plugrad.kernels.rearrangement import MirrorMode
    from plugrad_webgpu.buffers import GpuArray


def rearranged(x: GpuArray, cells: Shape, order: Shape, shape: Shape) -> GpuArray:
    """Return an array with the axes `cells`, in another order, as an array of a shape."""
    return shared(transposed(shared(x, cells), order), shape)


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: GpuArray, *, block_shape: Shape, crops: Pairs) -> GpuArray:
    """Return the blocks joined along the spatial axes, cropped."""
    count = len(block_shape)
    batch, sizes = x.shape[0] // math.prod(block_shape), x.shape[1 : 1 + count]
    rest = x.shape[1 + count :]
    cells = (*block_shape, batch, *sizes, *rest)
    # Each axis is followed by the axis of its cells.
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    order = (count, *pairs, *range(2 * count + 1, len(cells)))
    large = (batch, *[n * b for n, b in zip(sizes, block_shape, strict=True)], *rest)
    margins = ((0, 0), *crops, *((0, 0),) * len(rest))
    begin = tuple(before for before, _ in margins)
    size = tuple(n - before - after for n, (before, after) in zip(large, margins, strict=True))
    return block(rearranged(x, cells, order, large), begin, size)


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: GpuArray, *, block_shape: Shape, paddings: Pairs) -> GpuArray:
    """Return the cells of each block as elements of the batch."""
    count = len(block_shape)
    rest = x.shape[1 + count :]
    if any(map(any, paddings)):
        x = pad(x, paddings=((0, 0), *paddings, *((0, 0),) * len(rest)), constant_value=0)
    sizes = [n // size for n, size in zip(x.shape[1:], block_shape, strict=False)]
    pairs = [n for pair in zip(sizes, block_shape, strict=True) for n in pair]
    cells = (x.shape[0], *pairs, *rest)
    positions, blocks = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    order = (*positions, 0, *blocks, *range(2 * count + 1, len(cells)))
    shape = (x.shape[0] * math.prod(block_shape), *sizes, *rest)
    return rearranged(x, cells, order, shape)


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: GpuArray, *, block_size: int, data_format: DataFormat) -> GpuArray:
    """Return images in which groups of channels have become blocks of pixels."""
    if data_format == "NHWC":
        batch, height, width, depth = x.shape
        channels = depth // block_size**2
        cells = (batch, height, width, block_size, block_size, channels)
        image = (batch, height * block_size, width * block_size, channels)
        return rearranged(x, cells, (0, 1, 3, 2, 4, 5), image)
    batch, depth, height, width = x.shape
    channels = depth // block_size**2
    cells = (batch, block_size, block_size, channels, height, width)
    image = (batch, channels, height * block_size, width * block_size)
    return rearranged(x, cells, (0, 3, 4, 1, 5, 2), image)


@table.implements(rearrangement.mirror_pad)
def mirror_pad(x: GpuArray, *, paddings: Pairs, mode: MirrorMode) -> GpuArray:
    """Return x surrounded by its mirror images, which are joined to it one axis after another."""
    hidden = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        if before or after:
            first = mirrored(x, axis, hidden + before - 1, before)
            last = mirrored(x, axis, x.shape[axis] - 1 - hidden, after)
            x = joined([first, x, last], axis)
    return x


def mirrored(x: GpuArray, axis: int, start: int, count: int) -> GpuArray:
    """Return `count` elements along an axis, from `start` backwards."""
    axes = range(len(x.shape))
    view = range_view(
        x.shape,
        tuple(start if i == axis else 0 for i in axes),
        tuple(-1 if i == axis else 1 for i in axes),
    )
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return copied(x, shape, view)


table.update(host_bodies(rearrangement), on_host=True)
