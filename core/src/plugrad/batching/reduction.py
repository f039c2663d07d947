"""Batching rules of kernels that combine the elements along axes, which are one further back, or in bins."""

from typing import Any, cast

from plugrad.kernels import movement, reduction
from plugrad.registry.batching import Batch, register_batching, shift_axes_rule
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements


def _bincount(batch: Batch, x: Tensor, weights: Tensor | None = None, *, size: int) -> Tensor:
    flat = [
        None if y is None else movement.reshape(y, shape=(batch.size, count_elements(y.shape[1:])))
        for y in batch.all_with_batch_axis((x, weights))
    ]
    rows, counted = cast("list[Any]", flat)
    return reduction.dense_bincount(rows, counted, size=size)


def _dense_bincount(
    batch: Batch, x: Tensor, weights: Tensor | None = None, *, size: int, binary_output: bool
) -> Tensor:
    rows, counted = batch.all_with_batch_axis((x, weights))
    if rows.ndim == 2:
        return reduction.dense_bincount(rows, counted, size=size, binary_output=binary_output)
    folded = batch.fold(x, 0), None if weights is None else batch.fold(weights, 1)
    found = reduction.dense_bincount(*folded, size=size, binary_output=binary_output)
    return batch.unfold(found)


register_batching(reduction.sum, shift_axes_rule("axis"))
register_batching(reduction.prod, shift_axes_rule("axis"))
register_batching(reduction.mean, shift_axes_rule("axis"))
register_batching(reduction.variance, shift_axes_rule("axis"))
register_batching(reduction.euclidean_norm, shift_axes_rule("axis"))
register_batching(reduction.max, shift_axes_rule("reduction_indices"))
register_batching(reduction.min, shift_axes_rule("axis"))
register_batching(reduction.all, shift_axes_rule("axis"))
register_batching(reduction.any, shift_axes_rule("axis"))
register_batching(reduction.argmax, shift_axes_rule("axis"))
register_batching(reduction.argmin, shift_axes_rule("axis"))
register_batching(reduction.bincount, _bincount)
register_batching(reduction.dense_bincount, _dense_bincount)
