"""Writing elements at positions."""

import math

import torch

from plugrad.extend import Shape
from plugrad.kernels import scatter
from plugrad_torch.declare import Array, implements
from plugrad_torch.kernels.indexing import flat_positions, sum_at_positions


def _flat_positions(kernel: str, indices: Array, shape: Shape) -> tuple[Array, int, Shape]:
    """Return the flat position of each row of coordinates, the number of positions, and the shape of a part."""
    rows = indices if indices.ndim > 1 else indices.reshape(-1, 1)
    depth = rows.shape[-1]
    places = flat_positions(kernel, rows, shape).reshape(-1)
    return places, math.prod(shape[:depth]), shape[depth:]


def _find_last_of_each(positions: Array) -> tuple[Array, Array]:
    """Return each position once, and the number of its last update: PyTorch does not promise which one stays."""
    found, which = torch.unique(positions, return_inverse=True)
    last = torch.zeros(len(found), dtype=torch.int64)
    numbers = torch.arange(len(positions))
    return found, last.scatter_reduce_(0, which, numbers, "amax", include_self=False)


@implements(scatter.scatter_nd)
def scatter_nd(indices: Array, updates: Array, *, shape: Shape) -> Array:
    """Return the sums of the updates for each place."""
    places, count, part = _flat_positions("ScatterNd", indices, shape)
    return sum_at_positions(places, updates.reshape(len(places), *part), count).reshape(shape)


@implements(scatter.tensor_scatter_update)
def tensor_scatter_update(tensor: Array, indices: Array, updates: Array) -> Array:
    """Return a copy with the updates; the last one for a place counts."""
    places, count, part = _flat_positions("TensorScatterUpdate", indices, tensor.shape)
    y = tensor.reshape(count, *part).clone()
    found, last = _find_last_of_each(places)
    y[found] = updates.reshape(len(places), *part)[last]
    return y.reshape(tensor.shape)


@implements(scatter.sparse_to_dense)
def sparse_to_dense(
    sparse_indices: Array, sparse_values: Array, default_value: Array, *, output_shape: Shape
) -> Array:
    """Return the values at their places, and the default value elsewhere."""
    places, count, _ = _flat_positions("SparseToDense", sparse_indices, output_shape)
    y = default_value.to(sparse_values.dtype).expand(count).clone()
    found, last = _find_last_of_each(places)
    y[found] = sparse_values.reshape(-1).expand(len(places))[last]
    return y.reshape(output_shape)
