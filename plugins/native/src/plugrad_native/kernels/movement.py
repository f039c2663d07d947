"""Copies in another order of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import movement
from plugrad_cpu.extend import tracked
from plugrad_native.declare import COPY_MIN_BYTES, as_contiguous, table

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array


@table.implements(movement.reshape)
@tracked
def reshape(x: Array, *, shape: Shape) -> Array:
    """Return a view if the elements lie in memory in their order, with gaps perhaps, else a copy.

    What follows adds in the order of the memory. In a program of `plugrad_native.programs` that is the order of the
    elements, so a view whose axes lie in another order would lead to other last bits.
    """
    if x.flags.c_contiguous:
        return x.reshape(shape)
    y = x.reshape(shape) if x.nbytes < COPY_MIN_BYTES else _as_view(x, shape)
    if y is None:
        return as_contiguous(x).reshape(shape)
    return as_contiguous(y) if _is_transposed(y) else y


def _as_view(x: Array, shape: Shape) -> Array | None:
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return None


def _is_transposed(x: Array) -> bool:
    """Return whether the axes lie in memory in another order; repeated elements are left out."""
    steps = [abs(step) for step, size in zip(x.strides, x.shape, strict=True) if step and size > 1]
    return steps != sorted(steps, reverse=True)
