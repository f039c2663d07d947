"""Reductions. PyTorch takes no axes to mean all axes, so these cases are separate."""

import math

import torch

from plugrad.extend import Shape
from plugrad.kernels import reduction
from plugrad_torch.declare import Array, implements


@implements(reduction.sum)
def sum_(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return the sum."""
    return torch.sum(x, axis, keepdim=keep_dims, dtype=x.dtype) if axis else x


@implements(reduction.prod)
def prod(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return the product: PyTorch multiplies along one axis at a time."""
    for i in reversed(axis):
        x = torch.prod(x, i, keepdim=keep_dims, dtype=x.dtype)
    return x


@implements(reduction.mean)
def mean(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return the average; NaN if there are no elements."""
    return torch.mean(x, axis, keepdim=keep_dims) if axis else x


@implements(reduction.max)
def max_(x: Array, *, reduction_indices: Shape, keep_dims: bool) -> Array:
    """Return the largest element."""
    return torch.amax(x, reduction_indices, keepdim=keep_dims) if reduction_indices else x


@implements(reduction.min)
def min_(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return the smallest element."""
    return torch.amin(x, axis, keepdim=keep_dims) if axis else x


@implements(reduction.all)
def all_(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return whether every element is True."""
    return torch.all(x, axis, keepdim=keep_dims) if axis else x


@implements(reduction.any)
def any_(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
    """Return whether any element is True."""
    return torch.any(x, axis, keepdim=keep_dims) if axis else x


@implements(reduction.argmax)
def argmax(x: Array, *, axis: int) -> Array:
    """Return the first position of the largest element; PyTorch does not promise which one."""
    return _first_position_of(x, torch.amax(x, axis, keepdim=True), axis)


@implements(reduction.argmin)
def argmin(x: Array, *, axis: int) -> Array:
    """Return the first position of the smallest element."""
    return _first_position_of(x, torch.amin(x, axis, keepdim=True), axis)


def _first_position_of(x: Array, value: Array, axis: int) -> Array:
    """Return the first position along an axis of elements that equal a value, or are NaN as it is."""
    found = (x == value) | (x.isnan() & value.isnan())
    positions = torch.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return torch.amin(torch.where(found, positions, x.shape[axis]), axis).int()


@implements(reduction.bincount)
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Return the counts of all elements."""
    return _weighted_bincount(x.reshape(-1), None if weights is None else weights.reshape(-1), size)


@implements(reduction.dense_bincount)
def dense_bincount(x: Array, weights: Array | None, *, size: int, binary_output: bool) -> Array:
    """Return the counts of each row, or whether each count is not 0."""
    if not binary_output:
        return _weighted_bincount(x, weights, size)
    return (_weighted_bincount(x, None, size) > 0).to(
        torch.int32 if weights is None else weights.dtype
    )


def _weighted_bincount(x: Array, weights: Array | None, size: int) -> Array:
    """Return the sums of the weights along the last axis, with separate bins for each row."""
    shape = (*x.shape[:-1], size)
    rows = torch.arange(math.prod(x.shape[:-1])).reshape(*x.shape[:-1], 1)
    is_inside = (x >= 0) & (x < size)
    places = (rows * size + x)[is_inside]
    values = torch.ones_like(x, dtype=torch.int32) if weights is None else weights
    total = torch.zeros(math.prod(shape), dtype=values.dtype)
    return total.index_add_(0, places, values[is_inside]).reshape(shape)
