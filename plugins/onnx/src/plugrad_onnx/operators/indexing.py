"""Gathering, scattering, sorting and finding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_array, as_tensor
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import (
    is_string,
    number_like,
    replace_negative_indices,
    single_element,
    to_integers,
)
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray

SCATTER_REDUCTIONS = {"mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""NumPy's ufunc for each of ONNX's reductions that have no op."""


@operator("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return the slices of x at indices along an axis."""
    if is_string(x):
        return as_tensor(np.take(as_array(x), as_array(indices), axis=axis), x.device)
    return plugrad.take(x, replace_negative_indices(indices, x.shape[axis]), axis=axis)


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return x[i, …, indices[i, …, k], …]: elements whose index is replaced along one axis."""
    axis = axis % x.ndim
    places = _make_index_rows(replace_negative_indices(indices, x.shape[axis]), axis)
    return plugrad.gather_nd(x, places)


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Return the elements or slices of x at the index rows of a tensor."""
    depth = indices.shape[-1]
    places = _wrap_negative(indices, x.shape[batch_dims : batch_dims + depth])
    if not batch_dims:
        return plugrad.gather_nd(x, places)
    batch = x.shape[:batch_dims]
    grid = np.moveaxis(np.indices(batch), 0, -1)
    grid = grid.reshape(*batch, *(1,) * (indices.ndim - batch_dims - 1), batch_dims)
    grid = np.broadcast_to(grid, (*indices.shape[:-1], batch_dims)).astype(np.int32)
    rows = plugrad.astype(as_tensor(grid, x.device), places.dtype)
    return plugrad.gather_nd(x, plugrad.concat([rows, places], axis=-1))


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Return x with elements or slices at index rows replaced by updates or reduced with them."""
    return _scatter(x, _wrap_negative(indices, x.shape[: indices.shape[-1]]), updates, reduction)


@operator("ScatterElements", "Scatter")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Return x with elements at indices along an axis replaced by updates or reduced with them."""
    axis = axis % x.ndim
    places = _make_index_rows(replace_negative_indices(indices, x.shape[axis]), axis)
    return _scatter(x, places, updates, reduction)


@operator("TensorScatter")
def tensor_scatter(
    cache: Tensor,
    update: Tensor,
    write_indices: HostArray | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Return a cache with new entries written from a start position in each batch."""
    axis, length = axis % cache.ndim, update.shape[axis]
    begins = to_integers(write_indices) if write_indices is not None else [0] * cache.shape[0]
    places = np.arange(length) + np.array(begins)[:, None]
    places = places % cache.shape[axis] if mode == "circular" else places
    order = np.moveaxis(np.indices(update.shape), 0, -1)
    shape = [1] * update.ndim
    shape[0], shape[axis] = places.shape
    order[..., axis] = np.broadcast_to(places.reshape(shape), update.shape)
    return _scatter(cache, as_tensor(order.astype(np.int32), cache.device), update, "none")


@operator("OneHot")
def one_hot(indices: Tensor, depth: HostArray, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return the second of `values` at the indices, and the first elsewhere."""
    size = int(single_element(depth))
    whole = plugrad.trunc(indices) if indices.dtype.is_inexact else indices
    whole = replace_negative_indices(plugrad.astype(whole, "int32"), size)
    flags = plugrad.astype(plugrad.one_hot(whole, size), "bool")
    place = axis if axis >= 0 else axis + flags.ndim
    return plugrad.where(plugrad.moveaxis(flags, -1, place), values[1], values[0])


@operator("NonZero")
def nonzero(x: Tensor) -> Tensor:
    """Return the indices of the nonzero elements, one column for each element."""
    if x.ndim == 0:
        return as_tensor(np.zeros((0, int(bool(x.item()))), np.int64), x.device)
    return plugrad.stack([plugrad.astype(i, "int64") for i in plugrad.nonzero(x)])


@operator("Compress")
def compress(x: Tensor, condition: HostArray, *, axis: int | None = None) -> Tensor:
    """Return the slices along an axis where the condition holds; without an axis, elements."""
    chosen = as_tensor(np.nonzero(condition)[0].astype(np.int32), x.device)
    if axis is None:
        return plugrad.take(plugrad.reshape(x, (-1,)), chosen, axis=0)
    return plugrad.take(x, chosen, axis=axis)


@operator("TopK")
def top_k_by_attribute(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return the k largest elements along an axis, and their indices."""
    return _sort_and_take(x, k, axis, True)


@operator("TopK", since=10)
def top_k(
    x: Tensor, k: HostArray, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest elements along an axis, and their indices."""
    return _sort_and_take(x, int(single_element(k)), axis, bool(largest))


@operator("Unique")
def unique(x: HostArray, *, axis: int | None = None, sorted: int = 1) -> tuple[Any, ...]:
    """Return unique elements or slices, their first indices, the inverse indices and the counts."""
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        first, counts, inverse = first[order], counts[order], places[inverse]
    return values, *(a.astype(np.int64) for a in (first, inverse, counts))


def _wrap_negative(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return indices with the size of their axis added to negative ones."""
    if min(indices.shape, default=1) == 0:
        return indices
    bounds = plugrad.astype(as_tensor(np.array(sizes, np.int32), indices.device), indices.dtype)
    return plugrad.where(
        plugrad.less(indices, number_like(0, indices)), plugrad.add(indices, bounds), indices
    )


def _make_index_rows(indices: Tensor, axis: int) -> Tensor:
    """Return the full index row of each element of indices along one axis."""
    grid = np.indices(indices.shape, dtype=np.int32)
    parts = [
        plugrad.astype(as_tensor(part, indices.device), indices.dtype) if a != axis else indices
        for a, part in enumerate(grid)
    ]
    return plugrad.stack(parts, axis=-1)


def _scatter(x: Tensor, index_rows: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Return x with elements replaced by updates or reduced with them; on the host for reductions without an op."""
    if math.prod(updates.shape) == 0:
        return x
    if reduction == "none":
        return plugrad.tensor_scatter_update(x, index_rows, updates)
    if reduction == "add":
        return plugrad.add(x, plugrad.scatter_nd(index_rows, updates, x.shape))
    if reduction not in SCATTER_REDUCTIONS:
        raise InvalidModel(f"reduction {reduction!r} is not known; none, add, mul, max, min are.")
    values = x.numpy().copy()
    where = tuple(np.moveaxis(index_rows.numpy(), -1, 0))
    SCATTER_REDUCTIONS[reduction].at(values, where, updates.numpy())
    return as_tensor(values, x.device)


def _sort_and_take(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the first `k` elements along an axis in descending or ascending order."""
    if largest:
        values, places = plugrad.top_k(plugrad.moveaxis(x, axis, -1), k)
        values, places = (plugrad.moveaxis(part, -1, axis) for part in (values, places))
        return values, plugrad.astype(places, "int64")
    cut = [slice(None)] * x.ndim
    cut[axis] = slice(0, k)
    places = plugrad.argsort(x, axis=axis)[tuple(cut)]
    return plugrad.take_along_axis(x, places, axis=axis), plugrad.astype(places, "int64")
