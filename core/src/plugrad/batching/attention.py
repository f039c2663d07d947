"""Batching rules of attention: the hidden axis is one of those before the queries."""

from plugrad.kernels import attention as kernels, movement
from plugrad.registry.batching import Batch, insert_axes_to_rank, register_batching
from plugrad.tensor.tensor import Tensor


def _attention(
    batch: Batch, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, scale: float
) -> Tensor:
    q, k, v = (batch.with_batch_axis(x, i) for i, x in enumerate((q, k, v)))
    return kernels.attention(q, k, v, _broadcast_mask_to_queries(batch, mask, 3, q), scale=scale)


def _attention_gradient(
    batch: Batch,
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
) -> list[Tensor]:
    dy, q, k, v = (batch.with_batch_axis(x, i) for i, x in enumerate((dy, q, k, v)))
    return kernels.attention_gradient(
        dy, q, k, v, _broadcast_mask_to_queries(batch, mask, 4, q), scale=scale
    )


def _broadcast_mask_to_queries(
    batch: Batch, mask: Tensor | None, mask_position: int, q: Tensor
) -> Tensor | None:
    """Return a mask with the same leading axes as the queries, or with none."""
    if mask is None or (mask.ndim == 2 and not batch.is_batched[mask_position]):
        return mask
    mask = insert_axes_to_rank(batch.with_batch_axis(mask, mask_position), q.ndim)
    return movement.broadcast_to(mask, shape=(*q.shape[:-2], *mask.shape[-2:]))


register_batching(kernels.attention, _attention)
register_batching(kernels.attention_gradient, _attention_gradient)
