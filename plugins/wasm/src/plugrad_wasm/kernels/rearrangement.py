"""Rearrangements: strided copies. Shapes as values have implementations in the core, which run on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import DataFormat, Pairs, Shape, host_bodies, size_of
from plugrad.kernels import rearrangement
from plugrad_wasm.declare import table
from plugrad_wasm.kernels.movement import copy, cut, pad, product, transpose
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.strides import row_major

if TYPE_CHECKING:
    from plugrad.kernels.rearrangement import MirrorMode


def rearranged(x: WasmArray, cells: Shape, perm: Shape, shape: Shape) -> WasmArray:
    """Return `x` with the axes `cells`, in another order, as an array of a shape."""
    return WasmView(transpose(WasmView(x, cells), perm=perm), shape)


@table.implements(rearrangement.batch_to_space_nd)
def batch_to_space_nd(x: WasmArray, *, block_shape: Shape, crops: Pairs) -> WasmArray:
    """Return the blocks joined along the spatial axes, cropped."""
    count = len(block_shape)
    batch, sizes, rest = (
        x.shape[0] // size_of(block_shape),
        x.shape[1 : 1 + count],
        x.shape[1 + count :],
    )
    # Each axis is followed by the axis of its cells.
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    large = (batch, *product(sizes, block_shape), *rest)
    joined = rearranged(
        x,
        (*block_shape, batch, *sizes, *rest),
        (count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(rest))),
        large,
    )
    if not any(map(any, crops)):
        return joined
    margins = ((0, 0), *crops, *((0, 0),) * len(rest))
    begin = tuple(before for before, _ in margins)
    return cut(joined, begin, tuple(n - sum(pair) for n, pair in zip(large, margins, strict=True)))


@table.implements(rearrangement.space_to_batch_nd)
def space_to_batch_nd(x: WasmArray, *, block_shape: Shape, paddings: Pairs) -> WasmArray:
    """Return the cells of each block as elements of the batch."""
    count = len(block_shape)
    rest = x.shape[1 + count :]
    if any(map(any, paddings)):
        x = pad(x, paddings=((0, 0), *paddings, *((0, 0),) * len(rest)), constant_value=0)
    sizes = [n // block for n, block in zip(x.shape[1:], block_shape, strict=False)]
    pairs = [n for pair in zip(sizes, block_shape, strict=True) for n in pair]
    positions, blocks = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    return rearranged(
        x,
        (x.shape[0], *pairs, *rest),
        (*positions, 0, *blocks, *range(2 * count + 1, 2 * count + 1 + len(rest))),
        (x.shape[0] * size_of(block_shape), *sizes, *rest),
    )


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: WasmArray, *, block_size: int, data_format: DataFormat) -> WasmArray:
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
def mirror_pad(x: WasmArray, *, paddings: Pairs, mode: MirrorMode) -> WasmArray:
    """Return x surrounded by its mirror images, which are copied within the result, one axis after another."""
    hidden = 1 if mode == "reflect" else 0
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, paddings, strict=True))
    out = x.memory.empty(shape, x.dtype)
    strides = row_major(shape)
    # The part of the result that is there: its sizes, and its first element.
    sizes, corner = x.shape, sum(product(strides, (before for before, _ in paddings)))
    copy(x, out, sizes, row_major(x.shape), strides, 0, corner)
    for axis, ((before, after), stride) in enumerate(zip(paddings, strides, strict=True)):
        length = sizes[axis]
        walk = product(strides, (-1 if i == axis else 1 for i in range(len(strides))))
        for count, first, start in (
            (before, hidden + before - 1, -before),
            (after, length - 1 - hidden, length),
        ):
            border = (*sizes[:axis], count, *sizes[axis + 1 :])
            copy(out, out, border, walk, strides, corner + first * stride, corner + start * stride)
        sizes = (*sizes[:axis], shape[axis], *sizes[axis + 1 :])
        corner -= before * stride
    return out


table.update(host_bodies(rearrangement), on_host=True)
