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
    """Return a view if the order of the elements allows it, else a copy."""
    if x.nbytes < COPY_MIN_BYTES or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return as_contiguous(x).reshape(shape)
