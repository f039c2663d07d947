"""Rearrangements: a reshape to blocks, a transposition, and a reshape back."""

import torch
from torch.nn import functional

from plugrad.extend import DataFormat, Pairs, Shape, host_implementations
from plugrad.kernels import rearrangement
from plugrad.kernels.rearrangement import (
    MirrorMode,
    Rearrangement,
    plan_batch_to_space,
    plan_depth_to_space,
    plan_space_to_batch,
)
from plugrad_torch.declare import Array, implements, table


def rearrange(x: Array, plan: Rearrangement) -> Array:
    """Return the elements, moved in blocks."""
    return x.reshape(plan.cells).permute(plan.order).reshape(plan.shape)


@implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: Array, *, block_shape: Shape, crops: Pairs) -> Array:
    """Return the blocks joined along the spatial axes, cropped."""
    large = rearrange(x, plan_batch_to_space(tuple(x.shape), block_shape))
    place = [slice(b, n - a) for n, (b, a) in zip(large.shape[1:], crops, strict=False)]
    return large[(slice(None), *place)]


@implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: Array, *, block_shape: Shape, paddings: Pairs) -> Array:
    """Return the cells of each block as elements of the batch."""
    margins = [(0, 0)] * (x.ndim - 1 - len(paddings)) + list(reversed(paddings))
    x = functional.pad(x, [n for pair in margins for n in pair])
    return rearrange(x, plan_space_to_batch(tuple(x.shape), block_shape))


@implements(rearrangement.depth_to_space)
def depth_to_space(x: Array, *, block_size: int, data_format: DataFormat) -> Array:
    """Return images in which groups of channels have become blocks of pixels."""
    return rearrange(x, plan_depth_to_space(tuple(x.shape), block_size, data_format))


@implements(rearrangement.mirror_pad)
def mirror_pad(x: Array, *, paddings: Pairs, mode: MirrorMode) -> Array:
    """Return x surrounded by its mirror images, taken by position along each axis."""
    hidden = mode == "reflect"
    for axis, (before, after) in enumerate(paddings):
        n = x.shape[axis]
        start = range(before - 1 + hidden, hidden - 1, -1)
        end = range(n - 1 - hidden, n - 1 - hidden - after, -1)
        x = x.index_select(axis, torch.tensor([*start, *range(n), *end], dtype=torch.int64))
    return x


table.update(host_implementations(rearrangement), on_host=True)
