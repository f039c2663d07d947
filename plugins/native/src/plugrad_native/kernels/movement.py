"""Copies in another order of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import movement
from plugrad_native.declare import LEAST_COPY, dense, in_numpy, table

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

numpy_reshape = in_numpy(movement.reshape)


@table.implements(movement.reshape)
def reshape(x: Array, *, shape: Shape) -> Array:
    """Return a view if the order of the elements allows it, else a copy."""
    if x.flags.c_contiguous or x.nbytes < LEAST_COPY:
        return numpy_reshape(x, shape=shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return dense(x).reshape(shape)
