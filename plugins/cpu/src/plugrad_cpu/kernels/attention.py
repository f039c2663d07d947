"""Attention: the weights of some queries at a time, for several batches where they are small.

A row of weights is computed as a whole, so that no more than `MAX_BLOCK_WEIGHTS` of them exist, or one row.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from plugrad.kernels import attention as contracts
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.products import multiply_matrices

MAX_BLOCK_WEIGHTS = 1 << 16
"""The maximum number of attention weights computed at a time, so that they stay in the cache."""


@table.implements(contracts.attention)
def attention(q: Array, k: Array, v: Array, mask: Array | None, *, scale: float) -> Array:
    """Return softmax(scale q k^T + mask) v."""
    y = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    q, k, v, out = (_flatten_batch(x) for x in (q, k, v, y))
    masks = _broadcast_mask(mask, q, k)
    for some, rows in _iter_blocks(q, k):
        weights, totals = _block_weights(q[some, rows], k[some], masks, some, rows, scale)
        product = multiply_matrices(weights, _as_float32(v[some]))
        product /= totals
        out[some, rows] = product
    return y


@table.implements(contracts.attention_gradient)
def attention_gradient(
    dy: Array, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float
) -> list[Array]:
    """Return the gradients of attention for q, k and v."""
    wide = accumulation_dtype(q.dtype)
    results = [np.zeros(x.shape, wide) for x in (q, k, v)]
    dq, dk, dv = (_flatten_batch(x) for x in results)
    dy, q, k, v = (_flatten_batch(x) for x in (dy, q, k, v))
    masks = _broadcast_mask(mask, q, k)
    for some, rows in _iter_blocks(q, k):
        weights, totals = _block_weights(q[some, rows], k[some], masks, some, rows, scale)
        weights /= totals
        slopes = _as_float32(dy[some, rows])
        dv[some] += multiply_matrices(weights.swapaxes(1, 2), slopes)
        slopes = multiply_matrices(slopes, _as_float32(v[some]).swapaxes(1, 2))
        slopes -= np.einsum("bij,bij->bi", slopes, weights)[:, :, None]
        slopes *= weights
        slopes *= scale
        dq[some, rows] = multiply_matrices(slopes, _as_float32(k[some]))
        dk[some] += multiply_matrices(slopes.swapaxes(1, 2), _as_float32(q[some, rows]))
    return [x.astype(dy.dtype, copy=False) for x in results]


def _flatten_batch(x: Array) -> Array:
    """Return x with one axis before the last two."""
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:])


def _as_float32(x: Array) -> Array:
    """Return an array in float32 if it is of halves, else as it is."""
    return x.astype(accumulation_dtype(x.dtype), copy=False)


def _broadcast_mask(mask: Array | None, q: Array, k: Array) -> Array | None:
    """Return a view of the mask as (batch or 1, queries, keys), or None if there is no mask."""
    if mask is None:
        return None
    masks = _flatten_batch(mask)
    return np.broadcast_to(masks, (len(masks), q.shape[1], k.shape[1]))


def _iter_blocks(q: Array, k: Array) -> Iterator[tuple[slice, slice]]:
    """Yield a slice of the batches and one of the queries for each block of weights; none if there are no keys."""
    batches, queries, keys = len(q), q.shape[1], k.shape[1]
    if not keys:
        return
    height = max(1, min(queries, MAX_BLOCK_WEIGHTS // keys))
    count = max(1, MAX_BLOCK_WEIGHTS // max(queries * keys, 1))
    for first in range(0, batches, count):
        for row in range(0, queries, height):
            yield slice(first, first + count), slice(row, row + height)


def _block_weights(
    q: Array, k: Array, masks: Array | None, batches: slice, queries: slice, scale: float
) -> tuple[Array, Array]:
    """Return exponentials of some batches' and queries' scores, and their sums along rows, 1 if no key is left."""
    scores = multiply_matrices(_as_float32(q) * scale, _as_float32(k).swapaxes(1, 2))
    if masks is not None:
        scores += masks[batches if len(masks) > 1 else slice(None), queries]
    peaks = scores.max(axis=2, keepdims=True)
    peaks[peaks == -np.inf] = 0
    scores -= peaks
    np.exp(scores, out=scores)
    totals = scores.sum(axis=2, keepdims=True)
    totals[totals == 0] = 1
    return scores, totals
