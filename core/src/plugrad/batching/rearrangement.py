"""Batching rules of kernels that move elements in blocks or mirror them."""

from typing import Any

from plugrad.kernels import movement, rearrangement
from plugrad.kernels.rearrangement import MirrorMode
from plugrad.registry.batching import (
    Batch,
    batched_by_loop,
    fold_batch_rule,
    move_axis,
    register_batching,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.windows import Pairs


def _batch_space_conversion(batch: Batch, x: Tensor, **attrs: Any) -> Tensor:
    # The batch is divided or multiplied by the number of cells, from its front: the hidden axis stands behind it.
    inner = move_axis(x, 0, 1)
    n, size = inner.shape[0], batch.size
    y = batch.kernel(movement.reshape(inner, shape=(n * size, *inner.shape[2:])), **attrs)
    y = movement.reshape(y, shape=(y.shape[0] // max(size, 1), size, *y.shape[1:]))
    return move_axis(y, 1, 0)


def _mirror_pad(batch: Batch, x: Tensor, *, paddings: Pairs, mode: MirrorMode) -> Tensor:
    return rearrangement.mirror_pad(x, paddings=((0, 0), *paddings), mode=mode)


register_batching(rearrangement.batch_to_space_nd, _batch_space_conversion)
register_batching(rearrangement.space_to_batch_nd, _batch_space_conversion)
register_batching(rearrangement.depth_to_space, fold_batch_rule())
register_batching(rearrangement.mirror_pad, _mirror_pad)
batched_by_loop(
    rearrangement.broadcast_args,
    because="because it computes the shape of one call from a few numbers",
)
