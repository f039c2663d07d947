"""Normalizations along an axis, of batches, and by neighbours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from plugrad.extend import float32, size_of
from plugrad.kernels import normalization
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    ExportNames,
    binary,
    run_elements,
    run_items,
    run_walk,
    table,
)
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.kernels.unary import converter
from plugrad_wasm.strides import collapsed, stretched

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_wasm.memory import WasmArray

VECTOR = 4  # elements of float32


def along_axis(kernel: str) -> Callable[[WasmArray, int], WasmArray]:
    """Return the function (x, axis) with exports for rows, which are contiguous, and for columns in float32."""
    rows, columns = ExportNames(kernel), ExportNames(f"{kernel}_columns")

    def function(x: WasmArray, axis: int) -> WasmArray:
        rank = len(x.shape)
        length, inner = x.shape[axis], size_of(x.shape[axis + 1 :])
        if inner != 1 and (x.dtype is not float32 or inner < VECTOR):
            order = (*(i for i in range(rank) if i != axis), axis)
            moved = function(transpose(x, perm=order), rank - 1)
            return transpose(moved, perm=tuple(order.index(i) for i in range(rank)))
        out = x.memory.like(x)
        if x.size:
            outer = x.size // (length * inner)
            places = (x, length * inner), (out, length * inner)
            if inner == 1:
                run_items(x, rows[x.dtype], outer, places, length, work=x.size)
            else:
                run_items(x, columns[x.dtype], outer, places, length, inner, work=x.size)
        return out

    return function


softmax_along = along_axis("softmax")
log_softmax_along = along_axis("log_softmax")


@table.implements(normalization.softmax)
def softmax(logits: WasmArray, *, dim: int) -> WasmArray:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return softmax_along(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: WasmArray, *, axis: int) -> WasmArray:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return log_softmax_along(logits, axis)


INVERSE_DEVIATION = ExportNames("inverse_deviation")
BATCH_NORM = ExportNames("batch_norm")
RESPONSE = ExportNames("lrn")
RESPONSE_GRADIENT = ExportNames("lrn_gradient")
multiply = binary("multiply")


@table.implements(normalization.batch_norm)
def batch_norm(
    x: WasmArray,
    mean: WasmArray,
    variance: WasmArray,
    offset: WasmArray | None,
    scale: WasmArray | None,
    *,
    variance_epsilon: float,
) -> WasmArray:
    """Return (x - mean) * factor + offset, where the factor has the shape of the variance."""
    memory, shape = x.memory, x.shape
    factor = memory.like(variance)
    places = (variance, 1), (factor, 1)
    epsilon = converter(x.dtype)(variance_epsilon)
    run_elements(x, INVERSE_DEVIATION[x.dtype], variance.size, places, epsilon)
    if scale is not None:
        factor = multiply(factor, scale)
    if offset is None:
        offset = fill(memory, factor.shape, x.dtype, 0)
    out = memory.like(x)
    if x.size:
        parts = (mean, factor, offset)
        walks = collapsed(shape, *(stretched(part.shape, shape) for part in parts))
        descriptor = (len(walks[0]), *(n for walk in walks for n in walk))
        arrays, strides = (x, *parts, out), (0, 1, 2, 3, 0)
        run_walk(x, BATCH_NORM[x.dtype], descriptor, arrays, strides, work=x.size)
    return out


def response(
    names: ExportNames,
    *inputs: WasmArray,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> WasmArray:
    """Return the result of a kernel that sums over neighbours on the last axis."""
    x = inputs[0]
    out = x.memory.like(x)
    if x.size:
        length = x.shape[-1]
        radius = min(depth_radius, length - 1)
        run_items(
            x,
            names[x.dtype],
            x.size // length,
            [(array, length) for array in (*inputs, out)],
            length,
            radius,
            *map(converter(x.dtype), (bias, alpha, beta)),
            work=x.size * (2 * radius + 1),
            scratch=(2 * length + 2 * radius) * x.dtype.itemsize,
        )
    return out


table.update(
    {
        normalization.local_response_normalization: partial(response, RESPONSE),
        normalization.local_response_normalization_gradient: partial(response, RESPONSE_GRADIENT),
    }
)
