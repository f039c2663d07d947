"""Rearrangements: strided copies. Shapes as values have implementations in the core, which run on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import host_implementations
from plugrad.kernels import rearrangement
from plugrad.kernels.rearrangement import (
    plan_batch_to_space,
    plan_depth_to_space,
    plan_space_to_batch,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.movement import pad
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import (
    concatenate,
    copy_view,
    permute_axes,
    slice_block,
    slice_view,
)

if TYPE_CHECKING:
    from plugrad.extend import DataFormat, Pairs, Shape
    from plugrad.kernels.rearrangement import MirrorMode, Rearrangement
    from plugrad_webgpu.memory.buffers import GpuArray


def rearrange(x: GpuArray, plan: Rearrangement) -> GpuArray:
    """Return x reshaped to blocks, transposed and reshaped, as core's `Rearrangement` describes."""
    return reinterpret(permute_axes(reinterpret(x, plan.cells), plan.order), plan.shape)


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: GpuArray, *, block_shape: Shape, crops: Pairs) -> GpuArray:
    """Return blocks of the batch moved to the spatial axes, then cropped."""
    large = rearrange(x, plan_batch_to_space(x.shape, block_shape))
    margins = ((0, 0), *crops, *((0, 0),) * (len(x.shape) - 1 - len(crops)))
    begin = tuple(before for before, _ in margins)
    size = tuple(n - sum(pair) for n, pair in zip(large.shape, margins, strict=True))
    return slice_block(large, begin, size)


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: GpuArray, *, block_shape: Shape, paddings: Pairs) -> GpuArray:
    """Return blocks of the padded spatial axes moved to the batch."""
    if any(map(any, paddings)):
        margins = ((0, 0), *paddings, *((0, 0),) * (len(x.shape) - 1 - len(paddings)))
        x = pad(x, paddings=margins, constant_value=0)
    return rearrange(x, plan_space_to_batch(x.shape, block_shape))


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: GpuArray, *, block_size: int, data_format: DataFormat) -> GpuArray:
    """Return groups of channels moved to blocks of pixels."""
    return rearrange(x, plan_depth_to_space(x.shape, block_size, data_format))


@table.implements(rearrangement.mirror_pad)
def mirror_pad(x: GpuArray, *, paddings: Pairs, mode: MirrorMode) -> GpuArray:
    """Return x padded with its mirror image, one axis after another."""
    hidden = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        if before or after:
            first = take_mirrored(x, axis, hidden + before - 1, before)
            last = take_mirrored(x, axis, x.shape[axis] - 1 - hidden, after)
            x = concatenate([first, x, last], axis)
    return x


def take_mirrored(x: GpuArray, axis: int, start: int, count: int) -> GpuArray:
    """Return `count` elements along an axis, from the index `start` backwards."""
    axes = range(len(x.shape))
    view = slice_view(
        x.shape,
        tuple(start if i == axis else 0 for i in axes),
        tuple(-1 if i == axis else 1 for i in axes),
    )
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return copy_view(x, shape, view)


table.update(host_implementations(rearrangement), on_host=True)
