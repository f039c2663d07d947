"""Kernels that move elements: each is a change of shape, or strided copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import movement
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import run_walk, table
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.strides import copy_descriptor, row_major, stretched

if TYPE_CHECKING:
    from collections.abc import Iterable

Sizes = tuple[int, ...]


def copy(
    source: WasmArray,
    target: WasmArray,
    sizes: Sizes,
    source_strides: Sizes,
    target_strides: Sizes,
    source_offset: int = 0,
    target_offset: int = 0,
) -> None:
    """Copy a block of `sizes` elements between two arrays; strides and offsets count elements."""
    if 0 in sizes:
        return
    descriptor = copy_descriptor(sizes, source_strides, target_strides)
    export, starts = f"copy_{source.dtype.itemsize}", (source_offset, target_offset)
    work = target.size
    run_walk(source, export, descriptor, (source, target), (1, 2), work=work, starts=starts)


def read(x: WasmArray, sizes: Sizes, strides: Sizes, offset: int = 0) -> WasmArray:
    """Return a dense array of the elements on a strided walk over `x`."""
    out = x.memory.empty(sizes, x.dtype)
    copy(x, out, sizes, strides, row_major(sizes), offset)
    return out


def duplicate(x: WasmArray) -> WasmArray:
    """Return a copy that may be written to."""
    return read(x, x.shape, row_major(x.shape))


def cut(x: WasmArray, begin: Sizes, sizes: Sizes, steps: Sizes | None = None) -> WasmArray:
    """Return the block of `x` that begins at an index, or every `steps`-th element of it."""
    strides = row_major(x.shape)
    walk = strides if steps is None else product(strides, steps)
    return read(x, sizes, walk, sum(product(strides, begin)))


def product(a: Iterable[int], b: Iterable[int]) -> Sizes:
    """Return the elementwise products of two sequences."""
    return tuple(m * n for m, n in zip(a, b, strict=True))


@table.implements(movement.reshape)
def reshape(x: WasmArray, *, shape: Sizes) -> WasmArray:
    """Return a view with another shape."""
    return WasmView(x, shape)


@table.implements(movement.expand_dims)
def expand_dims(input: WasmArray, *, dim: int) -> WasmArray:
    """Return a view with an axis of size 1 at `dim`."""
    return WasmView(input, (*input.shape[:dim], 1, *input.shape[dim:]))


@table.implements(movement.transpose)
def transpose(x: WasmArray, *, perm: Sizes) -> WasmArray:
    """Return the axes in another order."""
    strides = row_major(x.shape)
    return read(x, tuple(x.shape[i] for i in perm), tuple(strides[i] for i in perm))


@table.implements(movement.slice)
def slice(x: WasmArray, *, begin: Sizes, size: Sizes) -> WasmArray:
    """Return a block."""
    return cut(x, begin, size)


@table.implements(movement.strided_slice)
def strided_slice(x: WasmArray, *, begin: Sizes, end: Sizes, strides: Sizes) -> WasmArray:
    """Return every `strides`-th element of a block."""
    return cut(x, begin, slice_shape(begin, end, strides), strides)


def slice_shape(begin: Sizes, end: Sizes, strides: Sizes) -> Sizes:
    """Return the shape of a strided slice."""
    return tuple(len(range(*ends)) for ends in zip(begin, end, strides, strict=True))


@table.implements(movement.strided_slice_gradient)
def strided_slice_gradient(
    dy: WasmArray, *, shape: Sizes, begin: Sizes, end: Sizes, strides: Sizes
) -> WasmArray:
    """Return zeros with `dy` at the elements of the slice."""
    dx = fill(dy.memory, shape, dy.dtype, 0)
    steps = row_major(shape)
    offset = sum(product(steps, begin))
    copy(dy, dx, dy.shape, row_major(dy.shape), product(steps, strides), 0, offset)
    return dx


@table.implements(movement.strided_slice_update)
def strided_slice_update(
    tensor: WasmArray, updates: WasmArray, *, begin: Sizes, end: Sizes, strides: Sizes
) -> WasmArray:
    """Return a copy with the updates at the elements of the slice."""
    out = duplicate(tensor)
    steps = row_major(out.shape)
    sizes = slice_shape(begin, end, strides)
    offset = sum(product(steps, begin))
    copy(updates, out, sizes, stretched(updates.shape, sizes), product(steps, strides), 0, offset)
    return out


@table.implements(movement.concat)
def concat(*inputs: WasmArray, axis: int) -> WasmArray:
    """Return the inputs concatenated along an axis."""
    first = inputs[0]
    length = sum(x.shape[axis] for x in inputs)
    out = first.memory.empty((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)
    strides = row_major(out.shape)
    offset = 0
    for x in inputs:
        copy(x, out, x.shape, row_major(x.shape), strides, 0, offset)
        offset += x.shape[axis] * strides[axis]
    return out


@table.implements(movement.pack)
def pack(*inputs: WasmArray, axis: int) -> WasmArray:
    """Return the inputs stacked along a new axis."""
    return concat(*(expand_dims(x, dim=axis) for x in inputs), axis=axis)


@table.implements(movement.unpack)
def unpack(value: WasmArray, *, axis: int) -> list[WasmArray]:
    """Return the parts along an axis, without it."""
    parts = split(value, num_or_size_splits=(1,) * value.shape[axis], axis=axis)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return [WasmView(part, shape) for part in parts]


@table.implements(movement.split)
def split(x: WasmArray, *, num_or_size_splits: Sizes, axis: int) -> list[WasmArray]:
    """Return parts with given sizes along an axis."""
    strides = row_major(x.shape)
    parts: list[WasmArray] = []
    offset = 0
    for length in num_or_size_splits:
        sizes = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        parts.append(read(x, sizes, strides, offset))
        offset += length * strides[axis]
    return parts


@table.implements(movement.pad)
def pad(x: WasmArray, *, paddings: tuple[tuple[int, int], ...], constant_value: float) -> WasmArray:
    """Return `x` surrounded by a constant value."""
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, paddings, strict=True))
    out = fill(x.memory, shape, x.dtype, constant_value)
    strides = row_major(shape)
    offset = sum(product(strides, (before for before, _ in paddings)))
    copy(x, out, x.shape, row_major(x.shape), strides, 0, offset)
    return out


@table.implements(movement.tile)
def tile(x: WasmArray, *, reps: Sizes) -> WasmArray:
    """Return `x` repeated along each axis: a broadcast with twice as many axes."""
    sizes = tuple(n for pair in zip(reps, x.shape, strict=True) for n in pair)
    strides = tuple(step for stride in row_major(x.shape) for step in (0, stride))
    return WasmView(read(x, sizes, strides), product(reps, x.shape))


@table.implements(movement.reverse)
def reverse(x: WasmArray, *, dims: Sizes) -> WasmArray:
    """Return `x` reversed along some axes."""
    strides = row_major(x.shape)
    signs = tuple(-1 if axis in dims else 1 for axis in range(len(strides)))
    offset = sum((x.shape[axis] - 1) * strides[axis] for axis in dims)
    return read(x, x.shape, product(strides, signs), offset)


@table.implements(movement.broadcast_to)
def broadcast_to(x: WasmArray, *, shape: Sizes) -> WasmArray:
    """Return `x` repeated along new axes and axes of size 1."""
    return x if x.shape == shape else read(x, shape, stretched(x.shape, shape))
