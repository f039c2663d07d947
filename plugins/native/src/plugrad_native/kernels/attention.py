"""Attention of float32: the weights of a few queries exist at a time, and stay in the cache.

Small heads have kernels of their own, which compute many queries side by side and copy no factor of a product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import attention as contracts
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import FLOAT32, MAX_ELEMENTS, as_contiguous, parallel_for, table
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad_native.declare import Array

C_ATTENTION = current_variant().kernel("attention_float32")
"""The C function of attention in float32."""
C_ATTENTION_GRADIENT = current_variant().kernel("attention_gradient_float32")
"""The C function of the gradient of attention in float32."""
C_ATTENTION_OF_SMALL_HEADS = current_variant().kernel("attention_of_small_heads_float32")
"""The C function of attention in float32 for heads with few queries and keys."""
C_GRADIENT_OF_SMALL_HEADS = current_variant().kernel("attention_of_small_heads_gradient_float32")
"""The C function of the gradient of attention in float32 for heads with few queries and keys."""
QUERIES_PER_TILE: Final = 64
"""The number of queries that C computes at a time, as in csrc/attention.c."""
KEYS_PER_TILE: Final = 512
"""The number of keys that C reads at a time, as in csrc/attention.c."""
MAX_STORED_WEIGHTS: Final = 1 << 17
"""The maximum number of attention weights that the gradient stores at a time, unless one query has more."""

QUERIES_PER_BLOCK: Final = 32
"""The number of queries of a small head that C computes at a time: a multiple of those in csrc/heads.c."""
SMALL_HEAD_MIN_QUERIES: Final = 8
"""The minimum number of queries of a head for which C computes blocks of queries side by side faster."""
SMALL_HEAD_MAX_ROWS: Final = 128
"""The maximum number of queries, and the maximum number of keys, of a small head."""
SMALL_HEAD_MAX_WIDTH: Final = 64
"""The maximum length of a query or a value of a small head."""

numpy_attention: Final = numpy_implementation(contracts.attention)
"""NumPy's implementation of the kernel `attention`."""
numpy_attention_gradient: Final = numpy_implementation(contracts.attention_gradient)
"""NumPy's implementation of the kernel `attention_gradient`."""


def is_supported(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Return whether C supports the inputs: nonempty float32 queries, keys and values."""
    sizes = [x.size for x in (q, k, v)] + [1 if mask is None else mask.size]
    result = count_elements(q.shape[:-1]) * v.shape[-1]
    return q.dtype == FLOAT32 and 0 not in sizes and max(*sizes, result) < MAX_ELEMENTS


def is_small_head(query_count: int, key_count: int, query_length: int, value_length: int) -> bool:
    """Return whether the kernels of small heads support a head of these sizes."""
    return (
        SMALL_HEAD_MIN_QUERIES <= query_count <= SMALL_HEAD_MAX_ROWS
        and key_count <= SMALL_HEAD_MAX_ROWS
        and query_length % 8 == value_length % 8 == 0
        and max(query_length, value_length) <= SMALL_HEAD_MAX_WIDTH
    )


def count_scratch_elements(query_count: int, key_count: int, *row_lengths: int) -> int:
    """Return how many elements of scratch memory the attention of a head with rows of some lengths needs."""
    blocks = -(-query_count // QUERIES_PER_BLOCK)
    return QUERIES_PER_BLOCK * (key_count * (blocks + 2) + sum(row_lengths))


def find_mask_and_strides(q: Array, mask: Array | None) -> tuple[Array, tuple[int, int, int]]:
    """Return the mask, or a single zero, and its strides, in elements, along queries, keys and batches."""
    if mask is None:
        return np.zeros((1, 1), q.dtype), (0, 0, 0)
    rows, columns = mask.shape[-2:]
    step = rows * columns if mask.ndim > 2 else 0
    return as_contiguous(mask), (columns if rows > 1 else 0, int(columns > 1), step)


@table.implements(contracts.attention)
def attention(q: Array, k: Array, v: Array, mask: Array | None, *, scale: float) -> Array:
    """Return softmax(scale q k^T + mask) v."""
    if not is_supported(q, k, v, mask):
        return numpy_attention(q, k, v, mask, scale=scale)
    *batch, queries, width = q.shape
    keys, size = v.shape[-2:]
    out = empty((*batch, queries, size), q.dtype)
    masks, steps = find_mask_and_strides(q, mask)
    inputs = as_contiguous(q), as_contiguous(k), as_contiguous(v), masks
    strides = queries * width, keys * width, keys * size, steps[2]
    small = is_small_head(queries, keys, width, size)
    parallel_for(
        C_ATTENTION_OF_SMALL_HEADS if small else C_ATTENTION,
        (*zip(inputs, strides, strict=True), (out, queries * size)),
        count_elements(tuple(batch)),
        *(queries, keys, width, size, *steps, scale),
        work=q.size * keys // 4,
        scratch_floats=count_scratch_elements(queries, keys, width, size)
        if small
        else QUERIES_PER_TILE * min(KEYS_PER_TILE, keys),
    )
    return out


@table.implements(contracts.attention_gradient)
def attention_gradient(
    dy: Array, q: Array, k: Array, v: Array, mask: Array | None, *, scale: float
) -> list[Array]:
    """Return the gradients for q, k and v."""
    if not is_supported(q, k, v, mask):
        return numpy_attention_gradient(dy, q, k, v, mask, scale=scale)
    *batch, queries, width = q.shape
    keys, size = v.shape[-2:]
    results = [empty(x.shape, x.dtype) for x in (q, k, v)]
    masks, steps = find_mask_and_strides(q, mask)
    inputs = as_contiguous(dy), as_contiguous(q), as_contiguous(k), as_contiguous(v), masks
    strides = queries * width, keys * width, keys * size
    most = max(1, min(QUERIES_PER_TILE, queries, MAX_STORED_WEIGHTS // keys))
    small = is_small_head(queries, keys, width, size)
    parallel_for(
        C_GRADIENT_OF_SMALL_HEADS if small else C_ATTENTION_GRADIENT,
        (
            *zip(inputs, (queries * size, *strides, steps[2]), strict=True),
            *zip(results, strides, strict=True),
        ),
        count_elements(tuple(batch)),
        *(queries, keys, width, size, *steps, scale, *(() if small else (most,))),
        work=q.size * keys,
        scratch_floats=count_scratch_elements(queries, keys, width, size)
        if small
        else 2 * most * keys,
    )
    return results
