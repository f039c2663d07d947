"""Gradients of the scatter kernels: an update gets dy from its place, unless another update overwrote it."""

from plugrad.kernels import creation, indexing, movement, scatter
from plugrad.ops.binary import equal, where
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType, int32
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Shape


def _as_coordinate_rows(indices: Tensor) -> Tensor:
    """Return indices with coordinates along their last axis; positions on one axis become rows of one coordinate."""
    return indices if indices.ndim > 1 else movement.reshape(indices, shape=(*indices.shape, 1))


def _zero_overwritten(dy: Tensor, coordinates: Tensor) -> Tensor:
    """Return dy, with zeros in the parts that were overwritten."""
    depth = coordinates.shape[-1]
    zeros = _zeros_on_same_device(dy, (*coordinates.shape[:-1], *dy.shape[depth:]), dy.dtype)
    return scatter.tensor_scatter_update(dy, coordinates, zeros)


def _gather_surviving(dy: Tensor, coordinates: Tensor) -> Tensor:
    """Return each update's part of dy; 0 for updates that a later one overwrote.

    To find the last update of each place, the number of every update is written to its place.
    """
    places, depth = coordinates.shape[:-1], coordinates.shape[-1]
    attrs = {"start": 0, "stop": count_elements(places), "step": 1, "dtype": int32}
    numbers = movement.reshape(creation.range.on(dy.backend, **attrs), shape=places)
    written = scatter.tensor_scatter_update(
        _zeros_on_same_device(dy, dy.shape[:depth], int32), coordinates, numbers
    )
    is_last = equal(indexing.gather_nd(written, coordinates), numbers)
    mask = movement.reshape(is_last, shape=places + (1,) * (dy.ndim - depth))
    return where(mask, indexing.gather_nd(dy, coordinates), 0)


def _zeros_on_same_device(like: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """Return zeros of a shape and dtype on the device of the tensor `like`."""
    return creation.fill.on(like.backend, shape=shape, value=0, dtype=dtype)


def _sparse_coordinate_rows(sparse_indices: Tensor, dy: Tensor) -> Tensor:
    """Return the indices of `sparse_to_dense` as rows of coordinates."""
    count = sparse_indices.shape[0] if sparse_indices.shape else 1
    return movement.reshape(sparse_indices, shape=(count, dy.ndim))


gradient(
    scatter.scatter_nd,
    updates=lambda dy, indices: indexing.gather_nd(dy, _as_coordinate_rows(indices)),
)
gradient(
    scatter.tensor_scatter_update,
    tensor=lambda dy, indices: _zero_overwritten(dy, _as_coordinate_rows(indices)),
    updates=lambda dy, indices: _gather_surviving(dy, _as_coordinate_rows(indices)),
)
gradient(
    scatter.sparse_to_dense,
    sparse_values=lambda dy, sparse_indices: _gather_surviving(
        dy, _sparse_coordinate_rows(sparse_indices, dy)
    ),
    default_value=lambda dy, sparse_indices: _zero_overwritten(
        dy, _sparse_coordinate_rows(sparse_indices, dy)
    ),
)
