"""Copies in another order of axes, and of several arrays to one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.kernels import movement, rearrangement
from plugrad.kernels.rearrangement import plan_depth_to_space
from plugrad_cpu.extend import (
    empty,
    join_adjacent_views,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
    track_allocation,
)
from plugrad_native.declare import (
    C_COPY_BY_ITEM_SIZE,
    C_COPY_MIN_BYTES,
    COPY_COST_IN_ADDITIONS,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    MAX_STRIDE_BYTES,
    as_contiguous,
    merge_axes,
    parallel_strided_loop,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import DataFormat, Implementation, Kernel, Pairs, Scalar, Shape
    from plugrad_native.declare import Array

numpy_concat: Final = numpy_implementation(movement.concat)
"""NumPy's implementation of the kernel `concat`."""
numpy_pack: Final = numpy_implementation(movement.pack)
"""NumPy's implementation of the kernel `pack`."""
numpy_pad: Final = numpy_implementation(movement.pad)
"""NumPy's implementation of the kernel `pad`."""


@table.implements(movement.reshape)
@mark_results_tracked
def reshape(x: Array, *, shape: Shape) -> Array:
    """Return a view if the elements are in memory in order, possibly with gaps, else a copy.

    What follows adds in the order of the memory. In a program of `plugrad_native.programs` that is the order of the
    elements, so a view whose axes lie in another order would lead to other last bits.
    """
    if x.flags.c_contiguous:
        return x.reshape(shape)
    y = x.reshape(shape) if x.nbytes < C_COPY_MIN_BYTES else _as_view(x, shape)
    if y is None:
        return as_contiguous(x).reshape(shape)
    return as_contiguous(y) if _is_transposed(y) else y


def is_copied_in_threads(element_count: int, dtype: np.dtype[Any]) -> bool:
    """Return whether threads share the copy of so many elements."""
    return (
        thread_pool.count_parts(COPY_COST_IN_ADDITIONS * element_count, element_count) > 1
        and element_count < MAX_ELEMENTS
        and dtype.itemsize in C_COPY_BY_ITEM_SIZE
        and not dtype.hasobject
    )


def copy_to_block(x: Array, out: Array, first_position: int, block_strides: Shape) -> None:
    """Copy an array to a block of `out`, given by first position and strides; threads share its first axis.

    `first_position` counts the elements of `out` before the block, and `block_strides` are in bytes.
    """
    descriptor = plan_copy_to_block(x.shape, x.strides, block_strides, x.itemsize)
    if descriptor is None:
        np.lib.stride_tricks.as_strided(out.reshape(-1)[first_position:], x.shape, block_strides)[
            ...
        ] = x
        return
    places = (x, 1), (out.reshape(-1)[first_position:], 2)
    work = COPY_COST_IN_ADDITIONS * x.size
    parallel_strided_loop(C_COPY_BY_ITEM_SIZE[x.itemsize], places, descriptor, work=work)


@lru_cache(maxsize=1024)
def plan_copy_to_block(
    shape: Shape, source_strides: Shape, target_strides: Shape, item_size: int
) -> Array | None:
    """Return C's descriptor of a copy between arrays with strides in bytes, or None if C does not support it.

    Adjacent axes are one if both arrays move along them in equal steps, but two axes remain, of which threads share the
    first one.
    """
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    steps = [[each[axis] for axis in axes] for each in (source_strides, target_strides)]
    if (
        len(axes) < 2
        or 0 in shape
        or any(n % item_size or abs(n) > MAX_STRIDE_BYTES for step in steps for n in step)
    ):
        return None
    sizes = [shape[axis] for axis in axes]
    merge_axes(sizes, steps, min_axes=2)
    numbers = [n // item_size for step in steps for n in step]
    return np.array([len(sizes), *sizes, *numbers], np.int32)


@mark_results_tracked
def concat(*inputs: Array, axis: int) -> Array:
    """Return the inputs concatenated along an axis; threads share their rows."""
    first = inputs[0]
    size = sum([x.size for x in inputs])
    if first.ndim < 2 or not is_copied_in_threads(size, first.dtype):
        return track_allocation(numpy_concat(*inputs, axis=axis))
    length = sum([x.shape[axis] for x in inputs])
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    view = join_adjacent_views(inputs, axis, shape)
    if view is not None:
        return view
    out, place = empty(shape, first.dtype), 0
    for x in inputs:
        copy_to_block(x, out, place, out.strides)
        place += x.shape[axis] * out.strides[axis] // out.itemsize
    return out


@mark_results_tracked
def pack(*inputs: Array, axis: int) -> Array:
    """Return the inputs stacked along a new axis; threads share their rows."""
    first = inputs[0]
    if first.ndim < 2 or not is_copied_in_threads(len(inputs) * first.size, first.dtype):
        return track_allocation(numpy_pack(*inputs, axis=axis))
    out = empty((*first.shape[:axis], len(inputs), *first.shape[axis:]), first.dtype)
    strides = (*out.strides[:axis], *out.strides[axis + 1 :])
    for i, x in enumerate(inputs):
        copy_to_block(x, out, i * out.strides[axis] // out.itemsize, strides)
    return out


@table.implements(movement.pad)
@mark_results_tracked
def pad(x: Array, *, paddings: Pairs, constant_value: Scalar | str) -> Array:
    """Return x surrounded by a constant value; threads share the rows."""
    if x.ndim < 2 or not is_copied_in_threads(x.size, x.dtype):
        return track_allocation(numpy_pad(x, paddings=paddings, constant_value=constant_value))
    pairs = zip(x.shape, paddings, strict=True)
    out = empty(tuple([before + n + after for n, (before, after) in pairs]), x.dtype)
    out.fill(constant_value)
    starts = zip(out.strides, paddings, strict=True)
    first = sum([before * stride for stride, (before, _) in starts]) // x.itemsize
    copy_to_block(x, out, first, out.strides)
    return out


@table.implements(rearrangement.depth_to_space)
def depth_to_space(x: Array, *, block_size: int, data_format: DataFormat) -> Array:
    """Return images in which groups of channels have become blocks of pixels."""
    plan = plan_depth_to_space(x.shape, block_size, data_format)
    return as_contiguous(x.reshape(plan.cells).transpose(plan.order)).reshape(plan.shape)


SMALL_CONCATENATION_MAX_BYTES: Final = 1 << 16
"""The bytes of a result below which C concatenates: larger ones are tracked, or may be views."""
SMALL_CONCATENATION_DTYPES: Final = tuple(
    [
        np.dtype(name)
        for name in ("bool", "float16", *FLOAT_DTYPES, *INTEGER_DTYPES, "complex64", "complex128")
    ]
)
"""The dtypes of the arrays that C concatenates."""


def with_small_concatenations_in_c(
    kernel: Kernel[..., Any], fallback: Implementation
) -> Implementation:
    """Return an implementation of `concat` or `pack` that joins small arrays in C; `fallback` joins others."""
    is_stack = kernel is movement.pack
    return mark_results_tracked(
        current_variant().make_small_concatenation(
            is_stack, SMALL_CONCATENATION_DTYPES, SMALL_CONCATENATION_MAX_BYTES, fallback
        )
    )


for _kernel, _otherwise in (
    (movement.concat, concat),
    (movement.pack, pack),
):
    table.update({_kernel: with_small_concatenations_in_c(_kernel, _otherwise)})


def _as_view(x: Array, shape: Shape) -> Array | None:
    """Return a reshaped view, or None if only a copy can have this shape."""
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return None


def _is_transposed(x: Array) -> bool:
    """Return whether the axes are in memory in another order, apart from broadcast ones."""
    steps = [abs(step) for step, size in zip(x.strides, x.shape, strict=True) if step and size > 1]
    return steps != sorted(steps, reverse=True)
