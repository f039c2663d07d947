"""Batching rules of pooling: the hidden axis is a part of the batch of images."""

from plugrad.kernels import binary, creation, pooling
from plugrad.registry.batching import Batch, fold_batch_rule, register_batching
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements
from plugrad.types.windows import Window


def _max_pool_with_argmax(
    batch: Batch, x: Tensor, *, window: Window, include_batch_in_index: bool
) -> list[Tensor]:
    found = pooling.max_pool_with_argmax(
        batch.fold(x, 0), window=window, include_batch_in_index=include_batch_in_index
    )
    values, positions = map(batch.unfold, found)
    if include_batch_in_index:  # an example counts from its own first image
        count = count_elements(x.shape[1:])
        dtype = positions.dtype
        size = creation.fill.on(positions.backend, shape=(), value=count, dtype=dtype)
        begin = binary.multiply(batch.positions(positions, positions.shape, dtype), size)
        positions = binary.subtract(positions, begin)
    return [values, positions]


register_batching(pooling.max_pool, fold_batch_rule())
register_batching(pooling.max_pool_gradient, fold_batch_rule())
register_batching(pooling.avg_pool, fold_batch_rule())
register_batching(pooling.avg_pool_gradient, fold_batch_rule())
register_batching(pooling.max_pool_with_argmax, _max_pool_with_argmax)
register_batching(pooling.pool, fold_batch_rule())
