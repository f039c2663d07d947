"""Copies in another order of axes, and of several arrays to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import movement
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
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    as_contiguous,
    parallel_strided_loop,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel, Shape
    from plugrad_native.declare import Array

numpy_concat: Final = numpy_implementation(movement.concat)


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


@mark_results_tracked
def concat(*inputs: Array, axis: int) -> Array:
    """Return the inputs concatenated along an axis; threads share their rows."""
    first = inputs[0]
    size = sum([x.size for x in inputs])
    if (
        thread_pool.count_parts(COPY_COST_IN_ADDITIONS * size, count_elements(first.shape[:axis]))
        == 1
        or size >= MAX_ELEMENTS
        or first.itemsize not in C_COPY_BY_ITEM_SIZE
        or first.dtype.hasobject
    ):
        return track_allocation(numpy_concat(*inputs, axis=axis))
    length = sum([x.shape[axis] for x in inputs])
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    view = join_adjacent_views(inputs, axis, shape)
    if view is not None:
        return view
    outer, row = count_elements(shape[:axis]), count_elements(shape[axis:])
    out = empty(shape, first.dtype)
    place = out.reshape(-1)
    for x in inputs:
        width = x.size // outer
        if width:
            descriptor = np.array((2, outer, width, width, 1, row, 1), INT32)
            places = (as_contiguous(x), 1), (place, 2)
            work = COPY_COST_IN_ADDITIONS * x.size
            parallel_strided_loop(C_COPY_BY_ITEM_SIZE[x.itemsize], places, descriptor, work=work)
            place = place[width:]
    return out


SMALL_CONCATENATION_MAX_BYTES: Final = 1 << 16
"""The bytes from which on a result is tracked, may be a view, or may be copied by threads."""
SMALL_CONCATENATION_DTYPES: Final = tuple(
    [
        np.dtype(name)
        for name in ("bool", "float16", *FLOAT_DTYPES, *INTEGER_DTYPES, "complex64", "complex128")
    ]
)


def with_small_concatenations_in_c(
    kernel: Kernel[..., Any], otherwise: Implementation
) -> Implementation:
    """Return an implementation of concatenation that handles small arrays in C, which takes half of NumPy's time."""
    is_stack = kernel is movement.pack
    return mark_results_tracked(
        current_variant().make_small_concatenation(
            is_stack, SMALL_CONCATENATION_DTYPES, SMALL_CONCATENATION_MAX_BYTES, otherwise
        )
    )


for _kernel, _otherwise in (
    (movement.concat, concat),
    (movement.pack, numpy_implementation(movement.pack)),
):
    table.update({_kernel: with_small_concatenations_in_c(_kernel, _otherwise)})


def _as_view(x: Array, shape: Shape) -> Array | None:
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return None


def _is_transposed(x: Array) -> bool:
    """Return whether the axes are in memory in another order, apart from broadcast ones."""
    steps = [abs(step) for step, size in zip(x.strides, x.shape, strict=True) if step and size > 1]
    return steps != sorted(steps, reverse=True)
