"""Kernels that move elements: each is a change of shape, or strided copies."""

from __future__ import annotations

from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad.kernels import movement
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import run_strided, table
from plugrad_wasm.memory import (
    HOST_COPY_MAX_BYTES,
    StridedView,
    WasmArray,
    WasmSlice,
    WasmStridedView,
    WasmView,
    measure_block,
)
from plugrad_wasm.strides import (
    broadcast_strides,
    contiguous_strides,
    copy_descriptor,
    merge_axes,
    slice_strides,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Sizes = tuple[int, ...]
"""The type of shapes, strides and other integers, one for each axis."""

VIEW_MIN_ELEMENTS: Final = 4096
"""The minimum elements of a part of an array that is a view; a smaller part is a copy."""

COPY_EXPORTS: Final = {size: f"copy_{size}" for size in (1, 2, 4, 8, 16)}
"""The export that copies elements, by their bytes."""

MAX_STRIDED_COPIES: Final = 4
"""The maximum repetitions of neighbours for which a strided copy for each is faster than one of short rows."""


def copy_strided(
    source: WasmArray,
    target: WasmArray,
    sizes: Sizes,
    source_strides: Sizes,
    target_strides: Sizes,
    source_offset: int = 0,
    target_offset: int = 0,
) -> None:
    """Copy elements of a block of `sizes` from one array to another; strides and offsets count elements."""
    if 0 in sizes:
        return
    if len(sizes) > 1 and source_strides[-1] == 0 and 1 < sizes[-1] <= MAX_STRIDED_COPIES:
        block = sizes[:-1], source_strides[:-1], target_strides[:-1], source_offset
        for turn in range(sizes[-1]):
            copy_strided(source, target, *block, target_offset + turn * target_strides[-1])
        return
    descriptor = copy_descriptor(sizes, source_strides, target_strides)
    export, starts = COPY_EXPORTS[source.dtype.itemsize], (source_offset, target_offset)
    work = count_elements(sizes)
    run_strided(
        source, export, descriptor, (source, target), (1, 2), work=work, start_elements=starts
    )


def read_strided(x: WasmArray, sizes: Sizes, strides: Sizes, offset: int = 0) -> WasmArray:
    """Return a contiguous copy of a strided view of `x`; strides and offset count elements."""
    out = x.memory.empty(sizes, x.dtype)
    copy_strided(x, out, sizes, strides, contiguous_strides(sizes), offset)
    return out


def as_contiguous(view: StridedView) -> WasmArray:
    """Return the elements of a strided view as a contiguous array."""
    return read_strided(view.owner, *view[1:])


def as_strided_view(x: WasmArray) -> tuple[WasmArray, Sizes, int]:
    """Return the array that `x` is a view of, the strides, and the first element, all in elements."""
    if isinstance(x, WasmStridedView):
        view = x.strided_view
        if view is not None:
            return view.owner, view.strides, view.start
    return x, contiguous_strides(x.shape), 0


class StridesSummary(NamedTuple):
    """Properties of a strided view: what a copy of it needs, and whether it is contiguous."""

    sizes: Sizes
    """The shape."""
    strides: Sizes
    """The strides, in elements."""
    size: int
    """The number of elements."""
    nbytes: int
    """The bytes of the elements."""
    capacity: int
    """The bytes of the block of a copy."""
    is_dense: bool
    """Whether the elements are adjacent and in order."""
    descriptor: Sizes
    """The descriptor of a copy to a contiguous array."""


@lru_cache(maxsize=1024)
def summarize_strides(sizes: Sizes, strides: Sizes, itemsize: int) -> StridesSummary:
    """Return the size, the contiguity and the copy descriptor of a strided view."""
    size, capacity = measure_block(sizes, itemsize)
    is_dense = size < 2 or merge_axes(sizes, strides)[1] == (1,)
    descriptor = copy_descriptor(sizes, strides, contiguous_strides(sizes))
    return StridesSummary(sizes, strides, size, size * itemsize, capacity, is_dense, descriptor)


def view_or_copy(x: WasmArray, sizes: Sizes, strides: Sizes, start: int) -> WasmArray:
    """Return a strided view of `x` from element `start` on, or a contiguous copy if it has few elements."""
    return view_or_copy_summarized(x, summarize_strides(sizes, strides, x.dtype.itemsize), start)


def view_or_copy_summarized(x: WasmArray, summary: StridesSummary, start: int) -> WasmArray:
    """Return the summarized strided view of `x` from element `start` on, or a copy if it has few elements.

    Neighbouring elements are a view without a copy; all others are copied when a kernel needs them dense.
    """
    sizes, strides, size, nbytes, capacity, is_dense, descriptor = summary
    if size >= VIEW_MIN_ELEMENTS:
        if is_dense:
            return WasmSlice(x, sizes, start)
        return WasmStridedView(StridedView(x, sizes, strides, start), as_contiguous)
    memory, dtype = x.memory, x.dtype
    out = WasmArray(memory, sizes, dtype, size, capacity)
    first, host = x.address + start * dtype.itemsize, memory.host
    if is_dense and nbytes <= HOST_COPY_MAX_BYTES and host is not None:
        host[out.address : out.address + nbytes] = host[first : first + nbytes]
    elif size:
        run = memory.store.exports_holding_gil[COPY_EXPORTS[dtype.itemsize]]
        run(first, out.address, memory.store.descriptor(descriptor).address)
    return out


def copy_array(x: WasmArray) -> WasmArray:
    """Return a contiguous copy of `x`, which may be overwritten."""
    x, strides, start = as_strided_view(x)
    return read_strided(x, x.shape, strides, start)


@lru_cache(maxsize=1024)
def summarize_slice(
    shape: Sizes, itemsize: int, begin: Sizes, sizes: Sizes, steps: Sizes | None, drop: Sizes
) -> tuple[StridesSummary, int]:
    """Return the summary and the first element of a slice of a contiguous array, without the axes in `drop`."""
    sizes, strides, start = slice_strides(contiguous_strides(shape), begin, sizes, steps, drop)
    return summarize_strides(sizes, strides, itemsize), start


def slice_block(
    x: WasmArray, begin: Sizes, sizes: Sizes, steps: Sizes | None = None, drop: Sizes = ()
) -> WasmArray:
    """Return a block of `x` with a begin and sizes, or elements in `steps` of it, without the axes in `drop`."""
    if isinstance(x, WasmStridedView):
        x, strides, start = as_strided_view(x)
        sizes, strides, first = slice_strides(strides, begin, sizes, steps, drop)
        return view_or_copy(x, sizes, strides, start + first)
    summary, start = summarize_slice(x.shape, x.dtype.itemsize, begin, sizes, steps, drop)
    return view_or_copy_summarized(x, summary, start)


def multiply_elementwise(a: Iterable[int], b: Iterable[int]) -> Sizes:
    """Return the products of the numbers in two sequences."""
    return tuple(map(mul, a, b))


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
    """Return `x` with permuted axes."""
    shape = x.shape
    x, strides, start = as_strided_view(x)
    return view_or_copy(
        x, tuple([shape[i] for i in perm]), tuple([strides[i] for i in perm]), start
    )


@table.implements(movement.slice)
def slice(x: WasmArray, *, begin: Sizes, size: Sizes, drop: Sizes) -> WasmArray:
    """Return a block, without the axes in `drop`, which have size 1."""
    if isinstance(x, WasmStridedView):
        return slice_block(x, begin, size, None, drop)
    summary, start = summarize_slice(x.shape, x.dtype.itemsize, begin, size, None, drop)
    return view_or_copy_summarized(x, summary, start)  # as `slice_block`, in fewer calls


@table.implements(movement.strided_slice)
def strided_slice(x: WasmArray, *, begin: Sizes, end: Sizes, strides: Sizes) -> WasmArray:
    """Return the elements from `begin` to before `end`, in steps of `strides`."""
    return slice_block(x, begin, slice_shape(begin, end, strides), strides)


@lru_cache(maxsize=1024)
def slice_shape(begin: Sizes, end: Sizes, strides: Sizes) -> Sizes:
    """Return the shape of a slice from `begin` to before `end`, in steps of `strides`."""
    return tuple(len(range(*ends)) for ends in zip(begin, end, strides, strict=True))


@table.implements(movement.strided_slice_gradient)
def strided_slice_gradient(
    dy: WasmArray, *, shape: Sizes, begin: Sizes, end: Sizes, strides: Sizes
) -> WasmArray:
    """Return zeros with `dy` at the elements of the slice."""
    dx = fill(dy.memory, shape, dy.dtype, 0)
    steps = contiguous_strides(shape)
    offset = sum(multiply_elementwise(steps, begin))
    copy_strided(
        dy,
        dx,
        dy.shape,
        contiguous_strides(dy.shape),
        multiply_elementwise(steps, strides),
        0,
        offset,
    )
    return dx


@table.implements(movement.strided_slice_update)
def strided_slice_update(
    tensor: WasmArray, updates: WasmArray, *, begin: Sizes, end: Sizes, strides: Sizes
) -> WasmArray:
    """Return a copy with the updates at the elements of the slice."""
    out = copy_array(tensor)
    steps = contiguous_strides(out.shape)
    sizes = slice_shape(begin, end, strides)
    offset = sum(multiply_elementwise(steps, begin))
    copy_strided(
        updates,
        out,
        sizes,
        broadcast_strides(updates.shape, sizes),
        multiply_elementwise(steps, strides),
        0,
        offset,
    )
    return out


@table.implements(movement.concat)
def concat(*inputs: WasmArray, axis: int) -> WasmArray:
    """Return the inputs concatenated along an axis."""
    first = inputs[0]
    length = sum(x.shape[axis] for x in inputs)
    out = first.memory.empty((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)
    strides = contiguous_strides(out.shape)
    offset = 0
    for x in inputs:
        owner, steps, start = as_strided_view(x)
        copy_strided(owner, out, x.shape, steps, strides, start, offset)
        offset += x.shape[axis] * strides[axis]
    return out


@table.implements(movement.pack)
def pack(*inputs: WasmArray, axis: int) -> WasmArray:
    """Return the inputs stacked along a new axis."""
    return concat(*(expand_dims(x, dim=axis) for x in inputs), axis=axis)


@table.implements(movement.unpack)
def unpack(value: WasmArray, *, axis: int) -> list[WasmArray]:
    """Return the slices along an axis, without the axis."""
    owner, strides, start = as_strided_view(value)
    sizes = (*value.shape[:axis], *value.shape[axis + 1 :])
    steps = (*strides[:axis], *strides[axis + 1 :])
    count, step = value.shape[axis], strides[axis]
    return [view_or_copy(owner, sizes, steps, start + i * step) for i in range(count)]


@table.implements(movement.split)
def split(x: WasmArray, *, num_or_size_splits: Sizes, axis: int) -> list[WasmArray]:
    """Return parts of the given sizes along an axis."""
    owner, strides, start = as_strided_view(x)
    parts: list[WasmArray] = []
    for length in num_or_size_splits:
        sizes = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        parts.append(view_or_copy(owner, sizes, strides, start))
        start += length * strides[axis]
    return parts


@table.implements(movement.pad)
def pad(x: WasmArray, *, paddings: tuple[tuple[int, int], ...], constant_value: float) -> WasmArray:
    """Return `x` surrounded by a constant value."""
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, paddings, strict=True))
    out = fill(x.memory, shape, x.dtype, constant_value)
    strides = contiguous_strides(shape)
    offset = sum(multiply_elementwise(strides, (before for before, _ in paddings)))
    owner, steps, start = as_strided_view(x)
    copy_strided(owner, out, x.shape, steps, strides, start, offset)
    return out


@table.implements(movement.tile)
def tile(x: WasmArray, *, reps: Sizes) -> WasmArray:
    """Repeat `x` along each axis, by a broadcast with twice as many axes."""
    sizes = tuple(n for pair in zip(reps, x.shape, strict=True) for n in pair)
    owner, steps, start = as_strided_view(x)
    strides = tuple(step for stride in steps for step in (0, stride))
    return WasmView(read_strided(owner, sizes, strides, start), multiply_elementwise(reps, x.shape))


@table.implements(movement.reverse)
def reverse(x: WasmArray, *, dims: Sizes) -> WasmArray:
    """Return `x` reversed along some axes."""
    shape = x.shape
    x, strides, start = as_strided_view(x)
    if 0 not in shape:
        start += sum([(shape[axis] - 1) * strides[axis] for axis in dims])
    signed = [-step if axis in dims else step for axis, step in enumerate(strides)]
    return view_or_copy(x, shape, tuple(signed), start)


@table.implements(movement.broadcast_to)
def broadcast_to(x: WasmArray, *, shape: Sizes) -> WasmArray:
    """Return `x` repeated along new axes and axes of size 1."""
    if x.shape == shape:
        return x
    lead = (0,) * (len(shape) - len(x.shape))
    sizes = x.shape
    x, strides, start = as_strided_view(x)
    repeated = [0 if n == 1 else step for n, step in zip(sizes, strides, strict=True)]
    return view_or_copy(x, shape, (*lead, *repeated), start)
