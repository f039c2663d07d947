"""Normalizations along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import normalization
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.movement import transpose

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

SOFTMAX = ExportNames("softmax")
LOG_SOFTMAX = ExportNames("log_softmax")


def along_rows(names: ExportNames, x: WasmArray, axis: int) -> WasmArray:
    """Return the result of a kernel for contiguous rows along any axis, which is moved to the end."""
    rank = len(x.shape)
    if axis != rank - 1:
        order = (*(i for i in range(rank) if i != axis), axis)
        moved = along_rows(names, transpose(x, perm=order), rank - 1)
        return transpose(moved, perm=tuple(order.index(i) for i in range(rank)))
    out = x.memory.like(x)
    if x.size:
        length = x.shape[-1]
        call(x, names[x.dtype], x.size)(x.address, out.address, x.size // length, length)
    return out


@table.implements(normalization.softmax)
def softmax(logits: WasmArray, *, dim: int) -> WasmArray:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return along_rows(SOFTMAX, logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: WasmArray, *, axis: int) -> WasmArray:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return along_rows(LOG_SOFTMAX, logits, axis)
