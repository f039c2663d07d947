"""Attention: products and a softmax, for so many queries at a time that their weights take little memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plugrad.kernels import attention as contracts
from plugrad_webgpu.copying import block, filled, joined
from plugrad_webgpu.declare import table
from plugrad_webgpu.expressions import elementwise
from plugrad_webgpu.kernels.linalg import products
from plugrad_webgpu.kernels.normalization import softmax_or_zero
from plugrad_webgpu.product import add_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_webgpu.buffers import GpuArray

MOST_WEIGHTS = 1 << 24
"""How many weights exist at a time, or those of one query in each batch: 64 MiB."""

_scaled = elementwise("x * parameters.scale", attributes=("scale",))
_add = elementwise("a + b", ("a", "b"))
_product = elementwise("a * b", ("a", "b"))
_slopes = elementwise(
    "parameters.scale * weights * (slopes - total)",
    ("weights", "total", "slopes"),
    attributes=("scale",),
)


@table.implements(contracts.attention)
def attention(
    q: GpuArray, k: GpuArray, v: GpuArray, mask: GpuArray | None, *, scale: float
) -> GpuArray:
    """Return softmax(scale q k^T + mask) v."""
    shape = (*q.shape[:-1], v.shape[-1])
    if 0 in (*shape, k.shape[-2]):
        return filled(q.buffer.device, shape, 0, q.dtype)
    parts = [
        products(_weights(some, k, _mask_of(mask, first, count), scale), v, False, False)
        for some, first, count in _groups(q, k)
    ]
    return parts[0] if len(parts) == 1 else joined(parts, len(shape) - 2)


@table.implements(contracts.attention_gradient)
def attention_gradient(
    dy: GpuArray,
    q: GpuArray,
    k: GpuArray,
    v: GpuArray,
    mask: GpuArray | None,
    *,
    scale: float,
) -> list[GpuArray]:
    """Return the gradients for q, k and v."""
    if 0 in (*q.shape[:-1], k.shape[-2]):
        return [filled(x.buffer.device, x.shape, 0, x.dtype) for x in (q, k, v)]
    dqs: list[GpuArray] = []
    sums: list[GpuArray] = []
    for some, first, count in _groups(q, k):
        weights = _weights(some, k, _mask_of(mask, first, count), scale)
        from_y = _rows(dy, first, count)
        slopes = products(from_y, v, False, True)
        total = add_parts(_product(weights, slopes), (len(q.shape) - 1,), True)
        slopes = _slopes(weights, total, slopes, scale=scale)
        dqs.append(products(slopes, k, False, False))
        found = [products(slopes, some, True, False), products(weights, from_y, True, False)]
        sums = [_add(a, b) for a, b in zip(sums, found, strict=True)] if sums else found
    return [dqs[0] if len(dqs) == 1 else joined(dqs, len(q.shape) - 2), *sums]


def _groups(q: GpuArray, k: GpuArray) -> Iterator[tuple[GpuArray, int, int]]:
    """Yield some queries, the number of the first one, and how many they are."""
    queries = q.shape[-2]
    height = max(1, MOST_WEIGHTS // (math.prod(q.shape[:-2]) * k.shape[-2]))
    for first in range(0, queries, height):
        count = min(height, queries - first)
        yield _rows(q, first, count), first, count


def _rows(x: GpuArray, first: int, count: int) -> GpuArray:
    """Return some rows of matrices."""
    axes = len(x.shape)
    begin = tuple(first if axis == axes - 2 else 0 for axis in range(axes))
    return block(x, begin, (*x.shape[:-2], count, x.shape[-1]))


def _mask_of(mask: GpuArray | None, first: int, count: int) -> GpuArray | None:
    """Return the rows of a mask for some queries, or the only one, which is for all of them."""
    return mask if mask is None or mask.shape[-2] == 1 else _rows(mask, first, count)


def _weights(q: GpuArray, k: GpuArray, mask: GpuArray | None, scale: float) -> GpuArray:
    scores = products(_scaled(q, scale=scale), k, False, True)
    if mask is not None:
        scores = _add(mask, scores)
    return softmax_or_zero(scores, len(scores.shape) - 1)
