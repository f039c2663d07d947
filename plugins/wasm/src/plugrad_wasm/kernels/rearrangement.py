"""Rearrangements: strided copies. Shapes as values have implementations in the core, which run on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import DataFormat, Pairs, Shape, host_implementations
from plugrad.kernels import rearrangement
from plugrad.kernels.rearrangement import (
    plan_batch_to_space,
    plan_depth_to_space,
    plan_space_to_batch,
)
from plugrad_wasm.declare import table
from plugrad_wasm.kernels.movement import (
    copy_strided,
    multiply_elementwise,
    pad,
    slice_block,
    transpose,
)
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.strides import contiguous_strides

if TYPE_CHECKING:
    from plugrad.kernels.rearrangement import MirrorMode, Rearrangement


def rearrange(x: WasmArray, plan: Rearrangement) -> WasmArray:
    """Return x reshaped to cells, transposed and reshaped again, as `plan` says."""
    return WasmView(transpose(WasmView(x, plan.cells), perm=plan.order), plan.shape)


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: WasmArray, *, block_shape: Shape, crops: Pairs) -> WasmArray:
    """Return images joined from blocks of the batch, cropped."""
    large = rearrange(x, plan_batch_to_space(x.shape, block_shape))
    if not any(map(any, crops)):
        return large
    margins = ((0, 0), *crops, *((0, 0),) * (len(x.shape) - 1 - len(crops)))
    begin = tuple(before for before, _ in margins)
    size = tuple(n - sum(pair) for n, pair in zip(large.shape, margins, strict=True))
    return slice_block(large, begin, size)


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: WasmArray, *, block_shape: Shape, paddings: Pairs) -> WasmArray:
    """Return padded images in whose batch the cells of each block of pixels have become elements."""
    if any(map(any, paddings)):
        margins = ((0, 0), *paddings, *((0, 0),) * (len(x.shape) - 1 - len(paddings)))
        x = pad(x, paddings=margins, constant_value=0)
    return rearrange(x, plan_space_to_batch(x.shape, block_shape))


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: WasmArray, *, block_size: int, data_format: DataFormat) -> WasmArray:
    """Return images in which groups of channels have become blocks of pixels."""
    return rearrange(x, plan_depth_to_space(x.shape, block_size, data_format))


@table.implements(rearrangement.mirror_pad)
def mirror_pad(x: WasmArray, *, paddings: Pairs, mode: MirrorMode) -> WasmArray:
    """Return x padded with its mirror image, copied within the result one axis after another."""
    hidden = 1 if mode == "reflect" else 0
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, paddings, strict=True))
    out = x.memory.empty(shape, x.dtype)
    strides = contiguous_strides(shape)
    # The part of the result that is there: its sizes, and its first element.
    sizes, corner = x.shape, sum(multiply_elementwise(strides, (before for before, _ in paddings)))
    copy_strided(x, out, sizes, contiguous_strides(x.shape), strides, 0, corner)
    for axis, ((before, after), stride) in enumerate(zip(paddings, strides, strict=True)):
        length = sizes[axis]
        mirrored_strides = multiply_elementwise(
            strides, (-1 if i == axis else 1 for i in range(len(strides)))
        )
        for count, first, start in (
            (before, hidden + before - 1, -before),
            (after, length - 1 - hidden, length),
        ):
            border = (*sizes[:axis], count, *sizes[axis + 1 :])
            copy_strided(
                out,
                out,
                border,
                mirrored_strides,
                strides,
                corner + first * stride,
                corner + start * stride,
            )
        sizes = (*sizes[:axis], shape[axis], *sizes[axis + 1 :])
        corner -= before * stride
    return out


table.update(host_implementations(rearrangement), on_host=True)
