"""Attention: averages of values, weighted by how well keys match queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import count_elements
from plugrad.kernels import attention as contracts
from plugrad_wasm.bits import attribute_converter, fill
from plugrad_wasm.declare import ExportNames, run_over_items, table

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

ATTENTION_EXPORTS = ExportNames("attention")
"""The exports of attention, by dtype."""
ATTENTION_GRADIENT_EXPORTS = ExportNames("attention_gradient")
"""The exports of the gradient of attention, by dtype."""
QUERIES_PER_TILE, KEYS_PER_TILE = 64, 512
"""The numbers of queries and of keys that C reads at a time, as in csrc/attention.c."""
MAX_STORED_WEIGHTS = 1 << 17
"""The maximum number of attention weights that the gradient stores at a time, unless one query has more."""


@table.implements(contracts.attention)
def attention(
    q: WasmArray, k: WasmArray, v: WasmArray, mask: WasmArray | None, *, scale: float
) -> WasmArray:
    """Return ``softmax(scale q kᵀ + mask) v``."""
    memory = q.memory
    *batch, queries, width = q.shape
    keys, size = v.shape[-2:]
    shape = (*batch, queries, size)
    if not (keys and count_elements(shape)):
        return fill(memory, shape, q.dtype, 0)
    out = memory.empty(shape, q.dtype)
    masks, steps = broadcast_mask(q, mask)
    places = (
        *((q, queries * width), (k, keys * width), (v, keys * size), (masks, steps[2])),
        (out, queries * size),
    )
    run_over_items(
        q,
        ATTENTION_EXPORTS[q.dtype],
        count_elements(tuple(batch)),
        places,
        *(queries, keys, width, size, *steps),
        attribute_converter(q.dtype)(scale),
        work=count_elements(shape[:-1]) * keys * (width + size),
        scratch_bytes=QUERIES_PER_TILE * min(KEYS_PER_TILE, keys) * q.dtype.itemsize,
    )
    return out


@table.implements(contracts.attention_gradient)
def attention_gradient(
    dy: WasmArray,
    q: WasmArray,
    k: WasmArray,
    v: WasmArray,
    mask: WasmArray | None,
    *,
    scale: float,
) -> list[WasmArray]:
    """Return the gradients for q, k and v."""
    memory = q.memory
    *batch, queries, width = q.shape
    keys, size = v.shape[-2:]
    if not (keys and queries and count_elements(tuple(batch))):
        return [fill(memory, x.shape, x.dtype, 0) for x in (q, k, v)]
    results = [memory.empty_like(x) for x in (q, k, v)]
    masks, steps = broadcast_mask(q, mask)
    strides = queries * width, keys * width, keys * size
    most = max(1, min(QUERIES_PER_TILE, queries, MAX_STORED_WEIGHTS // keys))
    places = (
        (dy, queries * size),
        *zip((q, k, v), strides, strict=True),
        (masks, steps[2]),
        *zip(results, strides, strict=True),
    )
    run_over_items(
        q,
        ATTENTION_GRADIENT_EXPORTS[q.dtype],
        count_elements(tuple(batch)),
        places,
        *(queries, keys, width, size, *steps),
        attribute_converter(q.dtype)(scale),
        most,
        work=count_elements(q.shape[:-1]) * keys * (3 * width + 2 * size),
        scratch_bytes=2 * most * keys * q.dtype.itemsize,
    )
    return results


def broadcast_mask(q: WasmArray, mask: WasmArray | None) -> tuple[WasmArray, tuple[int, int, int]]:
    """Return the mask, or a single zero, and its strides, in elements, along queries, keys and batches."""
    if mask is None:
        return fill(q.memory, (1, 1), q.dtype, 0), (0, 0, 0)
    rows, columns = mask.shape[-2:]
    step = rows * columns if len(mask.shape) > 2 else 0
    return mask, (columns if rows > 1 else 0, int(columns > 1), step)
