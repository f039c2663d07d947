"""Sums of updates at coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import scatter
from plugrad_cpu.extend import flat_positions, numpy_implementation
from plugrad_native.declare import table
from plugrad_native.kernels.indexing import compute_segment_sums, is_segment_sum_supported

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

numpy_scatter: Final = numpy_implementation(scatter.scatter_nd)
"""NumPy's implementation of the kernel `scatter_nd`."""


@table.implements(scatter.scatter_nd)
def scatter_nd(indices: Array, updates: Array, *, shape: Shape) -> Array:
    """Return zeros with the updates added at coordinates."""
    coordinates = indices if indices.ndim > 1 else indices[:, None]
    depth = coordinates.shape[-1]
    count = count_elements(shape[:depth])
    flat = (count, *shape[depth:])
    if depth == 0 or not is_segment_sum_supported(updates, coordinates[..., 0], flat):
        return numpy_scatter(indices, updates, shape=shape)
    places = flat_positions("ScatterNd", coordinates, shape)
    return compute_segment_sums(updates, places.astype(np.int32), flat).reshape(shape)
