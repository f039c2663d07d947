"""Updates of elements at coordinates."""

import math

import numpy as np

from plugrad.extend import Shape
from plugrad.kernels import scatter
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels.indexing import flat_positions, segment_sums


def _flat_positions(kernel: str, indices: Array, shape: Shape) -> tuple[Array, int, int]:
    """Return the flat index of each row of coordinates, the number of such indices, and the elements of an update."""
    coordinates = indices if indices.ndim > 1 else indices[:, None]
    depth = coordinates.shape[-1]
    places = flat_positions(kernel, coordinates, shape).reshape(-1)
    return places, math.prod(shape[:depth]), math.prod(shape[depth:])


@table.implements(scatter.scatter_nd)
def scatter_nd(indices: Array, updates: Array, *, shape: Shape) -> Array:
    """Return zeros of a shape with the updates added at coordinates."""
    places, count, size = _flat_positions("ScatterNd", indices, shape)
    return segment_sums(updates.reshape(places.size, size), places, count).reshape(shape)


@table.implements(scatter.tensor_scatter_update)
def tensor_scatter_update(tensor: Array, indices: Array, updates: Array) -> Array:
    """Return a copy with the updates at coordinates; of several updates for one element, NumPy keeps the last."""
    places, count, size = _flat_positions("TensorScatterUpdate", indices, tensor.shape)
    result = tensor.reshape(count, size).copy()
    result[places] = updates.reshape(places.size, size)
    return result.reshape(tensor.shape)


@table.implements(scatter.sparse_to_dense)
def sparse_to_dense(
    sparse_indices: Array, sparse_values: Array, default_value: Array, *, output_shape: Shape
) -> Array:
    """Return the values at the given coordinates, and the default value elsewhere."""
    places, count, _ = _flat_positions("SparseToDense", np.atleast_1d(sparse_indices), output_shape)
    result = np.full(count, default_value, sparse_values.dtype)
    result[places] = sparse_values
    return result.reshape(output_shape)
