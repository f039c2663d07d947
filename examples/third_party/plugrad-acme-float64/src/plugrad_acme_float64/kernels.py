"""The kernels: functions of NumPy, and one wrapper that counts the results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import KernelTable
from plugrad.kernels import (
    activation,
    binary,
    creation,
    indexing,
    linalg,
    movement,
    normalization,
    reduction,
    unary,
)
from plugrad_acme_float64.memory import Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from plugrad.extend import Backend, Kernel

table = KernelTable("acme_float64")


def softmax(logits: NDArray[Any], dim: int) -> NDArray[Any]:
    """Return exponentials that are scaled to the sum 1; the maximum is subtracted first to avoid infinities."""
    powers = np.exp(logits - logits.max(dim, keepdims=True, initial=-np.inf))
    return powers / powers.sum(dim, keepdims=True)


def as_slices(begin: Any, end: Any, strides: Any) -> tuple[slice, ...]:
    """Return Python slices; the end -1 of a range that runs backwards becomes None."""
    return tuple(
        slice(b, None if e < 0 else e, s) if range(b, e, s) else slice(0)
        for b, e, s in zip(begin, end, strides, strict=True)
    )


def scatter_slice(dy: NDArray[Any], shape: Any, begin: Any, end: Any, strides: Any) -> NDArray[Any]:
    """Return zeros of a shape, with dy in the positions of a slice."""
    result = np.zeros(shape, dy.dtype)
    result[as_slices(begin, end, strides)] = dy
    return result


def sum_segments(x: NDArray[Any], segment_ids: NDArray[Any], num_segments: int) -> NDArray[Any]:
    """Return the sum of the elements of each segment; elements with other ids are dropped."""
    result = np.zeros((num_segments, *x.shape[segment_ids.ndim :]), x.dtype)
    known = (segment_ids >= 0) & (segment_ids < num_segments)
    np.add.at(result, segment_ids[known], x[known])
    return result


def multiply_matrices(
    a: NDArray[Any], b: NDArray[Any], transpose_a: bool, transpose_b: bool
) -> NDArray[Any]:
    """Return the products of matrices, after transposing them if asked to."""
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


# Functions of NumPy arrays; their keyword parameters are the contract's attributes.
NUMPY_FUNCTIONS: dict[Kernel[..., Any], Callable[..., Any]] = {
    # one input
    unary.abs: np.abs,
    unary.negative: np.negative,
    unary.square: np.square,
    unary.sign: np.sign,
    unary.reciprocal: lambda x: 1 / x,
    unary.sqrt: np.sqrt,
    unary.rsqrt: lambda x: 1 / np.sqrt(x),
    unary.floor: np.floor,
    unary.ceil: np.ceil,
    unary.round: np.round,
    unary.exp: np.exp,
    unary.expm1: np.expm1,
    unary.log: np.log,
    unary.log1p: np.log1p,
    unary.sin: np.sin,
    unary.cos: np.cos,
    unary.tan: np.tan,
    unary.sinh: np.sinh,
    unary.cosh: np.cosh,
    unary.tanh: np.tanh,
    unary.atan: np.arctan,
    unary.is_nan: np.isnan,
    unary.is_finite: np.isfinite,
    unary.logical_not: np.logical_not,
    unary.identity: np.copy,
    unary.step: lambda x, alpha: np.where(np.isnan(x), x, np.where(x > 0, 1, alpha)),
    unary.clip_by_value: lambda x, clip_value_min, clip_value_max: np.clip(
        x, clip_value_min, clip_value_max
    ),
    unary.cast: lambda x, dtype: x,  # the wrapper converts the result to the dtype
    activation.relu: lambda x: np.maximum(x, 0),
    activation.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    activation.softplus: lambda x: np.logaddexp(x, 0),
    # two or more inputs
    binary.add: np.add,
    binary.subtract: np.subtract,
    binary.multiply: np.multiply,
    binary.divide: np.divide,
    binary.floor_divide: np.floor_divide,
    binary.remainder: np.remainder,
    binary.power: np.power,
    binary.squared_difference: lambda a, b: np.square(a - b),
    binary.maximum: np.maximum,
    binary.minimum: np.minimum,
    binary.equal: np.equal,
    binary.not_equal: np.not_equal,
    binary.less: np.less,
    binary.less_equal: np.less_equal,
    binary.greater: np.greater,
    binary.greater_equal: np.greater_equal,
    binary.logical_and: np.logical_and,
    binary.logical_or: np.logical_or,
    binary.select: np.where,
    binary.add_n: lambda *inputs: sum(inputs[1:], inputs[0]),
    linalg.matmul: multiply_matrices,
    # along axes
    reduction.sum: lambda x, axis, keep_dims: x.sum(axis, keepdims=keep_dims),
    reduction.prod: lambda x, axis, keep_dims: x.prod(axis, keepdims=keep_dims),
    reduction.mean: lambda x, axis, keep_dims: np.divide(
        x.sum(axis, keepdims=keep_dims), math.prod(x.shape[i] for i in axis)
    ),
    reduction.max: lambda x, reduction_indices, keep_dims: x.max(
        reduction_indices, keepdims=keep_dims
    ),
    reduction.min: lambda x, axis, keep_dims: x.min(axis, keepdims=keep_dims),
    reduction.all: lambda x, axis, keep_dims: x.all(axis, keepdims=keep_dims),
    reduction.any: lambda x, axis, keep_dims: x.any(axis, keepdims=keep_dims),
    reduction.argmax: lambda x, axis: x.argmax(axis),
    normalization.softmax: softmax,
    # movement
    movement.reshape: lambda x, shape: x.reshape(shape),
    movement.expand_dims: lambda input, dim: np.expand_dims(input, dim),
    movement.transpose: lambda x, perm: x.transpose(perm),
    movement.broadcast_to: lambda x, shape: np.broadcast_to(x, shape),
    movement.strided_slice: lambda x, **bounds: x[as_slices(**bounds)],
    movement.strided_slice_gradient: scatter_slice,
    movement.concat: lambda *inputs, axis: np.concatenate(inputs, axis),
    movement.pack: lambda *inputs, axis: np.stack(inputs, axis),
    movement.unpack: lambda value, axis: list(np.moveaxis(value, axis, 0)),
    movement.tile: lambda x, reps: np.tile(x, reps),
    movement.reverse: lambda x, dims: np.flip(x, dims),
    movement.pad: lambda x, paddings, constant_value: (
        np.pad(x, paddings, constant_values=constant_value) if paddings else x
    ),
    indexing.unsorted_segment_sum: sum_segments,
    # creation
    creation.fill: lambda shape, value, dtype: np.full(shape, value),
    creation.zeros_like: np.zeros_like,
    creation.ones_like: np.ones_like,
}


def with_limit_check(
    contract: Kernel[..., Any], function: Callable[..., Any]
) -> Callable[..., Array | list[Array]]:
    """Return an implementation that checks the limit before it computes; the contract gives the size of the results."""

    def implementation(*inputs: Array | Backend, **attrs: Any) -> Array | list[Array]:
        arrays = [x for x in inputs if isinstance(x, Array)]
        allocator = inputs[0].allocator  # a kernel without inputs gets the backend
        promised = contract.infer(*arrays, **attrs)
        specs = [promised] if hasattr(promised, "dtype") else promised
        allocator.make_room(sum(math.prod(s.shape) * s.dtype.itemsize for s in specs))
        with np.errstate(all="ignore"):
            result = function(*[x.values for x in arrays], **attrs)
        parts = result if isinstance(result, list) else [result]
        made = [
            allocator.array(np.asarray(part).astype(str(s.dtype)))
            for part, s in zip(parts, specs, strict=True)
        ]
        return made if isinstance(result, list) else made[0]

    return implementation


table.update({contract: with_limit_check(contract, f) for contract, f in NUMPY_FUNCTIONS.items()})
