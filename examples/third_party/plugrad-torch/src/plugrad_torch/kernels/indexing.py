"""Indexing by position. PyTorch's index functions take no negative positions, and their errors name no axis."""

import math

import torch

from plugrad.extend import DType, Scalar, Shape, TensorIndexError
from plugrad.kernels import indexing
from plugrad_torch.declare import Array, implements
from plugrad_torch.memory import TORCH_DTYPES


def checked_positions(kernel: str, indices: Array, axis: int, size: int) -> Array:
    """Return positions from 0 to size - 1.

    Raises:
        TensorIndexError: one is out of range.
    """
    indices = indices.long()
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.numel():
        raise TensorIndexError(
            f"{kernel}: index {wrong[0].item()} is out of range for axis {axis} of size {size}"
        )
    return torch.where(indices < 0, indices + size, indices)


def flat_positions(kernel: str, indices: Array, shape: Shape) -> Array:
    """Return the position of each row of coordinates when the first axes of `shape` are flattened."""
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for axis in range(indices.shape[-1]):
        flat = flat * shape[axis] + checked_positions(kernel, indices[..., axis], axis, shape[axis])
    return flat


def sum_at_positions(positions: Array, values: Array, count: int) -> Array:
    """Return, for each of `count` positions, the sum of the rows of values that belong to it."""
    total = torch.zeros((count, *values.shape[1:]), dtype=values.dtype)
    return total.index_add_(0, positions, values)


@implements(indexing.gather)
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the elements at the positions: x is (batches, before, size, after)."""
    places, shape = _gathered_positions("GatherV2", x.shape, indices, axis, batch_dims)
    after = math.prod(x.shape[axis + 1 :])
    rows = x.reshape(math.prod(x.shape[: axis + 1]), after)
    return rows[places].reshape(shape)


@implements(indexing.gather_gradient)
def gather_gradient(
    dy: Array, indices: Array, *, shape: Shape, axis: int, batch_dims: int
) -> Array:
    """Return zeros of a shape with each part of dy added where it was taken from."""
    places, _ = _gathered_positions("GatherV2Grad", shape, indices, axis, batch_dims)
    rows = dy.reshape(places.numel(), math.prod(shape[axis + 1 :]))
    return sum_at_positions(places.reshape(-1), rows, math.prod(shape[: axis + 1])).reshape(shape)


def _gathered_positions(
    kernel: str, shape: Shape, indices: Array, axis: int, batch_dims: int
) -> tuple[Array, Shape]:
    """Return the flat positions of the gathered rows, and the shape of the result."""
    batch, before = math.prod(shape[:batch_dims]), math.prod(shape[batch_dims:axis])
    count, picked = shape[axis], indices.shape[batch_dims:]
    found = checked_positions(kernel, indices, axis, count).reshape(batch, 1, math.prod(picked))
    places = found + torch.arange(batch * before).reshape(batch, before, 1) * count
    return places, (*shape[:axis], *picked, *shape[axis + 1 :])


@implements(indexing.gather_nd)
def gather_nd(params: Array, indices: Array) -> Array:
    """Return the parts at the coordinates."""
    depth = indices.shape[-1]
    parts = params.reshape(math.prod(params.shape[:depth]), *params.shape[depth:])
    return parts[flat_positions("GatherNd", indices, params.shape)]


@implements(indexing.where_true)
def where_true(condition: Array) -> Array:
    """Return the coordinates of the true elements."""
    return torch.nonzero(condition).int()


@implements(indexing.one_hot)
def one_hot(
    indices: Array, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> Array:
    """Return `on_value` where the position along the last axis is the index, else `off_value`."""
    on, off = (torch.tensor(value, dtype=TORCH_DTYPES[dtype]) for value in (on_value, off_value))
    return torch.where(indices[..., None].long() == torch.arange(depth), on, off)


@implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the segments; other ids are ignored."""
    ids = segment_ids.reshape(-1).long()
    is_inside = (ids >= 0) & (ids < num_segments)
    rows = x.reshape(ids.numel(), *x.shape[segment_ids.ndim :])
    return sum_at_positions(ids[is_inside], rows[is_inside], num_segments)
