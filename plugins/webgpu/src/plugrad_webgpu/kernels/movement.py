"""Kernels that move elements without computing: each is a copy with suitable strides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import reduced_shape
from plugrad.kernels import movement
from plugrad_webgpu.declare import table
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import (
    BufferView,
    concatenate,
    copy_array,
    copy_into,
    copy_view,
    full,
    permute_axes,
    slice_block,
    slice_view,
)
from plugrad_webgpu.shaders.layout import broadcast_strides, contiguous_strides

if TYPE_CHECKING:
    from plugrad.extend import Pairs, Scalar, Shape
    from plugrad_webgpu.memory.buffers import GpuArray


@table.implements(movement.reshape)
def reshape(x: GpuArray, *, shape: Shape) -> GpuArray:
    """Return an array with another shape that shares the buffer."""
    return reinterpret(x, movement.reshape.infer(x, shape=shape).shape if -1 in shape else shape)


@table.implements(movement.expand_dims)
def expand_dims(input: GpuArray, *, dim: int) -> GpuArray:
    """Return an array with another axis of size 1 that shares the buffer."""
    return reinterpret(input, insert_axis(input.shape, dim))


@table.implements(movement.transpose)
def transpose(x: GpuArray, *, perm: Shape) -> GpuArray:
    """Return the array with permuted axes."""
    return permute_axes(x, perm)


@table.implements(movement.broadcast_to)
def broadcast_to(x: GpuArray, *, shape: Shape) -> GpuArray:
    """Return the array repeated along missing axes and axes of size 1."""
    if shape == x.shape:
        return x
    return copy_view(x, shape, BufferView(0, broadcast_strides(x.shape, shape)))


@table.implements(movement.slice)
def slice(x: GpuArray, *, begin: Shape, size: Shape, drop: Shape) -> GpuArray:
    """Return the block that starts at `begin`, without the axes in `drop`."""
    out = slice_block(x, begin, size)
    return reinterpret(out, reduced_shape(size, drop, keep_dims=False)) if drop else out


@table.implements(movement.strided_slice)
def strided_slice(x: GpuArray, *, begin: Shape, end: Shape, strides: Shape) -> GpuArray:
    """Return the elements at regular steps within a range of each axis."""
    view = slice_view(x.shape, begin, strides)
    return copy_view(x, count_range_elements(begin, end, strides), view)


@table.implements(movement.strided_slice_gradient)
def strided_slice_gradient(
    dy: GpuArray, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> GpuArray:
    """Return zeros with `dy` at the elements of the slice."""
    output = full(dy.buffer.device, shape, 0, dy.dtype)
    view = slice_view(shape, begin, strides)
    copy_into(output, view, dy)
    return output


@table.implements(movement.strided_slice_update)
def strided_slice_update(
    tensor: GpuArray, updates: GpuArray, *, begin: Shape, end: Shape, strides: Shape
) -> GpuArray:
    """Return a copy with the updates at the elements of the slice."""
    output = copy_array(tensor)
    view = slice_view(tensor.shape, begin, strides)
    copy_into(output, view, updates, count_range_elements(begin, end, strides))
    return output


@table.implements(movement.concat)
def concat(*inputs: GpuArray, axis: int) -> GpuArray:
    """Return the arrays concatenated along an axis."""
    return concatenate(inputs, axis)


@table.implements(movement.pack)
def pack(*inputs: GpuArray, axis: int) -> GpuArray:
    """Return the arrays stacked along a new axis."""
    return concatenate([reinterpret(x, insert_axis(x.shape, axis)) for x in inputs], axis)


@table.implements(movement.unpack)
def unpack(value: GpuArray, *, axis: int) -> list[GpuArray]:
    """Return the slices of an array along an axis, without that axis."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    strides = contiguous_strides(value.shape)
    rest = (*strides[:axis], *strides[axis + 1 :])
    return [
        copy_view(value, shape, BufferView(i * strides[axis], rest))
        for i in range(value.shape[axis])
    ]


@table.implements(movement.split)
def split(x: GpuArray, *, num_or_size_splits: Shape, axis: int) -> list[GpuArray]:
    """Return parts of the given sizes along an axis."""
    parts: list[GpuArray] = []
    offset = 0
    for size in num_or_size_splits:
        begin = tuple(offset if i == axis else 0 for i in range(len(x.shape)))
        parts.append(slice_block(x, begin, (*x.shape[:axis], size, *x.shape[axis + 1 :])))
        offset += size
    return parts


@table.implements(movement.pad)
def pad(x: GpuArray, *, paddings: Pairs, constant_value: Scalar) -> GpuArray:
    """Return the array padded with a constant."""
    shape = tuple(b + n + a for n, (b, a) in zip(x.shape, paddings, strict=True))
    output = full(x.buffer.device, shape, constant_value, x.dtype)
    view = slice_view(shape, tuple(b for b, _ in paddings), (1,) * len(shape))
    copy_into(output, view, x)
    return output


@table.implements(movement.tile)
def tile(x: GpuArray, *, reps: Shape) -> GpuArray:
    """Return the array repeated along its axes, by a broadcast to (repetitions, size)."""
    strides = contiguous_strides(x.shape)
    shape = tuple(n for pair in zip(reps, x.shape, strict=True) for n in pair)
    view = BufferView(0, tuple(n for stride in strides for n in (0, stride)))
    tiled = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
    return reinterpret(copy_view(x, shape, view), tiled)


@table.implements(movement.reverse)
def reverse(x: GpuArray, *, dims: Shape) -> GpuArray:
    """Return the array reversed along the axes `dims`."""
    begin = tuple(n - 1 if axis in dims else 0 for axis, n in enumerate(x.shape))
    steps = tuple(-1 if axis in dims else 1 for axis in range(len(x.shape)))
    return copy_view(x, x.shape, slice_view(x.shape, begin, steps))


def insert_axis(shape: Shape, axis: int) -> Shape:
    """Return a shape with an axis of size 1 at a position."""
    return (*shape[:axis], 1, *shape[axis:])


def count_range_elements(begin: Shape, end: Shape, steps: Shape) -> Shape:
    """Return the number of elements of each range from a begin to an end."""
    return tuple(len(range(*bounds)) for bounds in zip(begin, end, steps, strict=True))
