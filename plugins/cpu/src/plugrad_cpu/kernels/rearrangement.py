"""Rearrangements: a reshape to blocks, a transposition, and a reshape back."""

from math import prod

import numpy as np

from plugrad.extend import DataFormat, Pairs, Shape, host_bodies
from plugrad.kernels import rearrangement
from plugrad.kernels.rearrangement import MirrorMode
from plugrad_cpu.declare import Array, table


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: Array, *, block_shape: Shape, crops: Pairs) -> Array:
    """Return the blocks joined along the spatial axes, cropped."""
    count = len(block_shape)
    batch, sizes, rest = (
        x.shape[0] // prod(block_shape),
        x.shape[1 : 1 + count],
        x.shape[1 + count :],
    )
    cells = x.reshape((*block_shape, batch, *sizes, *rest))
    # Each axis is followed by the axis of its cells.
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    cells = cells.transpose((count, *pairs, *range(2 * count + 1, cells.ndim)))
    large = [n * block for n, block in zip(sizes, block_shape, strict=True)]
    place = [slice(before, n - after) for n, (before, after) in zip(large, crops, strict=True)]
    return cells.reshape((batch, *large, *rest))[(slice(None), *place)]


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: Array, *, block_shape: Shape, paddings: Pairs) -> Array:
    """Return the cells of each block as elements of the batch."""
    count = len(block_shape)
    rest = x.shape[1 + count :]
    filling = np.zeros((), x.dtype).item()  # the empty string for strings
    x = np.pad(x, ((0, 0), *paddings, *((0, 0),) * len(rest)), constant_values=filling)
    sizes = [n // block for n, block in zip(x.shape[1:], block_shape, strict=False)]
    pairs = [n for pair in zip(sizes, block_shape, strict=True) for n in pair]
    cells = x.reshape((x.shape[0], *pairs, *rest))
    positions, blocks = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    cells = cells.transpose((*positions, 0, *blocks, *range(2 * count + 1, cells.ndim)))
    return cells.reshape((x.shape[0] * prod(block_shape), *sizes, *rest))


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: Array, *, block_size: int, data_format: DataFormat) -> Array:
    """Return images in which groups of channels have become blocks of pixels."""
    if data_format == "NHWC":
        batch, height, width, depth = x.shape
        channels = depth // block_size**2
        cells = x.reshape((batch, height, width, block_size, block_size, channels))
        image = (batch, height * block_size, width * block_size, channels)
        return cells.transpose((0, 1, 3, 2, 4, 5)).reshape(image)
    batch, depth, height, width = x.shape
    channels = depth // block_size**2
    cells = x.reshape((batch, block_size, block_size, channels, height, width))
    image = (batch, channels, height * block_size, width * block_size)
    return cells.transpose((0, 3, 4, 1, 5, 2)).reshape(image)


@table.implements(rearrangement.mirror_pad)
def mirror_pad(x: Array, *, paddings: Pairs, mode: MirrorMode) -> Array:
    """Return x surrounded by its mirror images."""
    return np.pad(x, paddings, mode=mode)


table.update(host_bodies(rearrangement))
