"""Elementwise functions of NumPy, whose elements several threads share."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad_cpu.threads import thread_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_cpu.declare import Array

PART_MULTIPLE: Final = 1 << 14
"""A part, but the last one, is a multiple of so many elements, which some functions compute at a time."""


def fill_shared(function: Callable[..., object], arrays: Sequence[Array], out: Array) -> None:
    """Call an elementwise function that writes to `out`: for parts of large arrays, in several threads.

    Args:
        function: takes the arrays and the keyword `out`, and lets other threads run.
        arrays: operands that broadcast to `out`.
        out: where the results go.
    """
    parts = thread_pool.count_parts(out.size, out.size)
    if parts < 2 or not all(x.dtype.kind in "biufc" for x in (*arrays, out)):
        function(*arrays, out=out)
        return
    flat = _flatten(arrays, out)
    if flat is not None:
        count, step, axis = out.size, PART_MULTIPLE, 0
        *arrays, out = flat
    elif isinstance(function, np.ufunc):
        axis = max(range(out.ndim), key=lambda i: abs(out.strides[i]) if out.shape[i] > 1 else 0)
        count, step = out.shape[axis], 1
    else:
        function(*arrays, out=out)
        return
    bounds = [*(count * i // parts // step * step for i in range(parts)), count]
    thread_pool.run(
        [
            partial(
                function,
                *[_take(x, axis - out.ndim, first, last) for x in arrays],
                out=_take(out, axis - out.ndim, first, last),
            )
            for first, last in pairwise(bounds)
        ]
    )


def _flatten(arrays: Sequence[Array], out: Array) -> list[Array] | None:
    """Return the operands and `out` as vectors, or as single elements; None if their elements lie in another order."""
    dense = [x for x in (*arrays, out) if x.shape == out.shape]
    if len(dense) <= sum(x.size != 1 for x in arrays):
        return None
    if all(x.flags.c_contiguous for x in dense):
        return [x.reshape(-1) for x in (*arrays, out)]
    if all(x.flags.f_contiguous for x in dense):
        return [x.T.reshape(-1) for x in (*arrays, out)]
    return None


def _take(x: Array, axis: int, first: int, last: int) -> Any:
    """Return a part along an axis, counted from the end, of an array that may lack it or repeat along it."""
    if -axis > x.ndim or x.shape[axis] == 1:
        return x
    return x[(..., slice(first, last), *(slice(None),) * (-axis - 1))]
