"""Functions of NumPy whose elements or rows are divided among several threads."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad_cpu.threads import PARTS_PER_THREAD, thread_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_cpu.declare import Array

PART_MULTIPLE_ELEMENTS: Final = 1 << 14
"""The number of elements of which a thread's part has a multiple; some functions compute so many at a time."""


def fill_in_threads(function: Callable[..., object], arrays: Sequence[Array], out: Array) -> None:
    """Call an elementwise function of `arrays` that writes to `out`, in several threads if the arrays are large.

    Args:
        function: takes the arrays and the keyword `out`, and lets other threads run.
        arrays: operands that broadcast to `out`.
        out: where the results go.
    """
    # A number of four bytes, read or written, takes a step, and functions of complex numbers take many.
    item_bytes = max(x.itemsize for x in (*arrays, out))
    work = out.size * item_bytes // (1 if out.dtype.kind == "c" else 4)
    parts = thread_pool.count_parts(work, out.size, PARTS_PER_THREAD)
    if parts < 2 or not all(x.dtype.kind in "biufc" for x in (*arrays, out)):
        function(*arrays, out=out)
        return
    if isinstance(
        function, np.ufunc
    ):  # to which an element that is repeated along all axes is one number
        arrays = [x if any(x.strides) else x[(..., *(slice(1),) * x.ndim)] for x in arrays]
    flat = _flatten(arrays, out)
    if flat is not None:
        # Compiled threads know what a ufunc is, which may take its result as its last argument.
        write = (
            function
            if isinstance(function, np.ufunc)
            else partial(_call_with_last_as_out, function)
        )
        steps = tuple([PART_MULTIPLE_ELEMENTS if x.size != 1 else 0 for x in flat])
        thread_pool.run_in_parts(
            write, flat, steps, -1, out.size, parts=parts, part_size_multiple=PART_MULTIPLE_ELEMENTS
        )
    elif isinstance(function, np.ufunc):
        axis = max(range(out.ndim), key=lambda i: abs(out.strides[i]) if out.shape[i] > 1 else 0)
        count = out.shape[axis]
        parts = min(parts, count)
        bounds = [count * i // parts for i in range(parts + 1)]
        thread_pool.run(
            [
                (
                    function,
                    *[_slice_axis(x, axis - out.ndim, first, last) for x in (*arrays, out)],
                )
                for first, last in pairwise(bounds)
            ]
        )
    else:
        function(*arrays, out=out)


def run_in_ranges(function: Callable[[int, int], object], row_count: int, step_count: int) -> None:
    """Call a function for ranges of rows, given by first row and end, in several threads.

    Args:
        function: computes some rows, and lets other threads run meanwhile.
        row_count: the number of rows.
        step_count: about how many steps all rows take, in those of an addition.
    """
    parts = thread_pool.count_parts(step_count, row_count, PARTS_PER_THREAD)
    bounds = [row_count * i // parts for i in range(parts + 1)]
    thread_pool.run([(function, first, last) for first, last in pairwise(bounds)])


def _call_with_last_as_out(function: Callable[..., object], *arrays: Array) -> None:
    """Call an elementwise function with the last of the arrays as its parameter ``out``."""
    function(*arrays[:-1], out=arrays[-1])


def _flatten(arrays: Sequence[Array], out: Array) -> tuple[Array, ...] | None:
    """Return the operands and `out` as vectors or single elements; None if their elements are not in one order."""
    dense = [x for x in (*arrays, out) if x.shape == out.shape]
    if len(dense) <= sum(x.size != 1 for x in arrays):
        return None
    if all(x.flags.c_contiguous for x in dense):
        return tuple([x.reshape(-1) for x in (*arrays, out)])
    if all(x.flags.f_contiguous for x in dense):
        return tuple([x.T.reshape(-1) for x in (*arrays, out)])
    return None


def _slice_axis(x: Array, axis: int, start: int, end: int) -> Any:
    """Return a slice from `start` to before `end` along a negative axis, or the whole array if it is broadcast."""
    if -axis > x.ndim or x.shape[axis] == 1:
        return x
    return x[(..., slice(start, end), *(slice(None),) * (-axis - 1))]
