"""Rearrangements: a reshape to blocks, a transposition, and a reshape back."""

import numpy as np

from plugrad.extend import DataFormat, Pairs, Shape, host_implementations
from plugrad.kernels import rearrangement
from plugrad.kernels.rearrangement import (
    MirrorMode,
    Rearrangement,
    plan_batch_to_space,
    plan_depth_to_space,
    plan_space_to_batch,
)
from plugrad_cpu.declare import Array, table


def rearrange(x: Array, steps: Rearrangement) -> Array:
    """Return x after the reshape to cells, the transposition and the reshape that a `Rearrangement` says."""
    return x.reshape(steps.cells).transpose(steps.order).reshape(steps.shape)


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: Array, *, block_shape: Shape, crops: Pairs) -> Array:
    """Return images joined from blocks of the batch, cropped."""
    large = rearrange(x, plan_batch_to_space(x.shape, block_shape))
    place = [
        slice(before, n - after) for n, (before, after) in zip(large.shape[1:], crops, strict=False)
    ]
    return large[(slice(None), *place)]


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: Array, *, block_shape: Shape, paddings: Pairs) -> Array:
    """Return images in whose batch the cells of each block of pixels have become elements."""
    filling = np.zeros((), x.dtype).item()  # the empty string for strings
    margins = ((0, 0), *paddings, *((0, 0),) * (x.ndim - 1 - len(paddings)))
    x = np.pad(x, margins, constant_values=filling)
    return rearrange(x, plan_space_to_batch(x.shape, block_shape))


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: Array, *, block_size: int, data_format: DataFormat) -> Array:
    """Return images in which groups of channels have become blocks of pixels."""
    return rearrange(x, plan_depth_to_space(x.shape, block_size, data_format))


@table.implements(rearrangement.mirror_pad)
def mirror_pad(x: Array, *, paddings: Pairs, mode: MirrorMode) -> Array:
    """Return x surrounded by its mirror images."""
    return np.pad(x, paddings, mode=mode)


table.update(host_implementations(rearrangement))
