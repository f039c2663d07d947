"""Normalizations along an axis, of batches, and by neighbours."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import HALVES, count_elements, float32
from plugrad.kernels import normalization
from plugrad_wasm.bits import attribute_converter, fill
from plugrad_wasm.declare import (
    PART_MULTIPLE_ELEMENTS,
    ExportNames,
    make_binary,
    run_elementwise,
    run_over_items,
    run_strided,
    table,
)
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.kernels.unary import cast
from plugrad_wasm.strides import broadcast_strides, merge_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_wasm.memory import WasmArray

FLOAT32_VECTOR_ELEMENTS = 4
"""The number of float32 in a vector."""
MAX_HALF_ROW_ELEMENTS: Final = 1 << 17
"""The maximum elements of a row of halves that C converts to float32, as in csrc/normalization.c."""


def make_row_normalization(kernel: str) -> Callable[[WasmArray, int], WasmArray]:
    """Return a function of an array and an axis that normalizes rows by the exports of a kernel, given by name."""
    rows, columns = ExportNames(kernel), ExportNames(f"{kernel}_columns")

    def normalize_rows(x: WasmArray, axis: int) -> WasmArray:
        """Return x, normalized along an axis."""
        rank = len(x.shape)
        length, inner = x.shape[axis], count_elements(x.shape[axis + 1 :])
        if inner != 1 and (x.dtype is not float32 or inner < FLOAT32_VECTOR_ELEMENTS):
            order = (*(i for i in range(rank) if i != axis), axis)
            moved = normalize_rows(transpose(x, perm=order), rank - 1)
            return transpose(moved, perm=tuple(order.index(i) for i in range(rank)))
        out = x.memory.empty_like(x)
        if x.size:
            outer = x.size // (length * inner)
            places = (x, length * inner), (out, length * inner)
            if inner == 1:
                run_over_items(x, rows[x.dtype], outer, places, length, work=x.size)
            else:
                run_over_items(x, columns[x.dtype], outer, places, length, inner, work=x.size)
        return out

    return normalize_rows


softmax_over_axis: Final = make_row_normalization("softmax")
"""The function of an array and an axis that computes softmax."""
log_softmax_over_axis: Final = make_row_normalization("log_softmax")
"""The function of an array and an axis that computes log softmax."""


@table.implements(normalization.softmax)
def softmax(logits: WasmArray, *, dim: int) -> WasmArray:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return softmax_over_axis(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: WasmArray, *, axis: int) -> WasmArray:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return log_softmax_over_axis(logits, axis)


INVERSE_DEVIATION_EXPORTS = ExportNames("inverse_deviation")
"""The exports that compute 1 / sqrt(variance + epsilon), by dtype."""
BATCH_NORM_EXPORTS = ExportNames("batch_norm")
"""The exports of batch norm with given factors, by dtype."""
LAYER_NORM_EXPORTS = ExportNames("layer_norm")
"""The exports of layer norm, by dtype."""
LAYER_NORM_GRADIENT_EXPORTS = ExportNames("layer_norm_gradient")
"""The exports of the gradient of layer norm for its input, by dtype."""
LAYER_NORM_SUMS_EXPORTS = ExportNames("layer_norm_sums")
"""The exports that sum the gradients of layer norm for offset and scale, by dtype."""
BATCH_NORM_TRAINING_EXPORTS = ExportNames("batch_norm_training")
"""The exports of batch norm with the means and variances of the batch, by dtype."""
BATCH_NORM_GRADIENT_EXPORTS = ExportNames("batch_norm_gradient")
"""The exports of the gradient of batch norm in training, by dtype."""
LRN_EXPORTS = ExportNames("lrn")
"""The exports of local response normalization, by dtype."""
LRN_GRADIENT_EXPORTS = ExportNames("lrn_gradient")
"""The exports of the gradient of local response normalization, by dtype."""
multiply: Final = make_binary("multiply")
"""The implementation of `multiply`, which broadcasts."""


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
    """Return ``(x - mean) * factor + offset``, where the factor has the shape of the variance."""
    memory, shape = x.memory, x.shape
    factor = memory.empty_like(variance)
    places = (variance, 1), (factor, 1)
    epsilon = attribute_converter(x.dtype)(variance_epsilon)
    run_elementwise(x, INVERSE_DEVIATION_EXPORTS[x.dtype], variance.size, places, epsilon)
    if scale is not None:
        factor = multiply(factor, scale)
    if offset is None:
        offset = fill(memory, factor.shape, x.dtype, 0)
    out = memory.empty_like(x)
    if x.size:
        parts = (mean, factor, offset)
        walks = merge_axes(shape, *(broadcast_strides(part.shape, shape) for part in parts))
        descriptor = (len(walks[0]), *(n for strides in walks for n in strides))
        arrays, strides = (x, *parts, out), (0, 1, 2, 3, 0)
        run_strided(x, BATCH_NORM_EXPORTS[x.dtype], descriptor, arrays, strides, work=x.size)
    return out


def as_offset_or_scale(
    x: WasmArray, offset_or_scale: WasmArray | None, shape: tuple[int, ...], default: int
) -> WasmArray:
    """Return an offset or scale; None becomes an array filled with `default`."""
    return fill(x.memory, shape, x.dtype, default) if offset_or_scale is None else offset_or_scale


@table.implements(normalization.layer_norm)
def layer_norm(
    x: WasmArray,
    offset: WasmArray | None,
    scale: WasmArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> WasmArray:
    """Return standardized rows times the scale plus the offset; halves are computed in float32, and rounded once."""
    row = x.shape[axis:]
    length = count_elements(row)
    kind = float32 if x.dtype in HALVES else x.dtype
    if x.dtype in HALVES:
        offset, scale = (
            None if part is None else cast(part, dtype=kind) for part in (offset, scale)
        )
        if length > MAX_HALF_ROW_ELEMENTS:
            wide = cast(x, dtype=kind)
            out = layer_norm(wide, offset, scale, axis=axis, variance_epsilon=variance_epsilon)
            return cast(out, dtype=x.dtype)
    out = x.memory.empty_like(x)
    if x.size:
        parts = [
            fill(x.memory, row, kind, value) if part is None else part
            for part, value in ((offset, 0), (scale, 1))
        ]
        places = (x, length), (parts[0], 0), (parts[1], 0), (out, length)
        epsilon = attribute_converter(kind)(variance_epsilon)
        work = 3 * x.size
        run_over_items(
            x, LAYER_NORM_EXPORTS[x.dtype], x.size // length, places, length, epsilon, work=work
        )
    return out


@table.implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: WasmArray, x: WasmArray, scale: WasmArray | None, *, axis: int, variance_epsilon: float
) -> list[WasmArray]:
    """Return the gradients for x (by rows), and for offset and scale (by columns)."""
    memory, row = x.memory, x.shape[axis:]
    length = count_elements(row)
    dx = memory.empty_like(x)
    if not x.size:
        return [dx, *(fill(memory, row, x.dtype, 0) for _ in range(2))]
    count = x.size // length
    moments = memory.empty((count, 2), x.dtype)
    factors = as_offset_or_scale(x, scale, row, 1)
    places = (dy, length), (x, length), (factors, 0), (dx, length), (moments, 2)
    epsilon = attribute_converter(x.dtype)(variance_epsilon)
    work = 5 * x.size
    run_over_items(
        x, LAYER_NORM_GRADIENT_EXPORTS[x.dtype], count, places, length, epsilon, work=work
    )
    sums = [memory.empty(row, x.dtype) for _ in range(2)]
    places = (dy, 1), (x, 1), (sums[0], 1), (sums[1], 1)
    attributes = count, length, moments.address
    run_over_items(
        x,
        LAYER_NORM_SUMS_EXPORTS[x.dtype],
        length,
        places,
        *attributes,
        work=2 * x.size,
        part_size_multiple=PART_MULTIPLE_ELEMENTS,
        kept_objects=[moments],
    )
    return [dx, *sums]


@table.implements(normalization.batch_norm_training)
def batch_norm_training(
    x: WasmArray,
    offset: WasmArray | None,
    scale: WasmArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[WasmArray]:
    """Return standardized channels times the scale plus the offset, with the means and the variances."""
    memory, channels = x.memory, (x.shape[axis],)
    out = memory.empty_like(x)
    if not x.size:
        return [out, *(fill(memory, channels, x.dtype, math.nan) for _ in range(2))]
    inner = count_elements(x.shape[axis + 1 :])
    moments = [memory.empty(channels, x.dtype) for _ in range(2)]
    parts = as_offset_or_scale(x, offset, channels, 0), as_offset_or_scale(x, scale, channels, 1)
    places = (x, inner), *((part, 1) for part in parts), (out, inner), *((m, 1) for m in moments)
    run_over_channels(BATCH_NORM_TRAINING_EXPORTS, x, axis, places, variance_epsilon)
    return [out, *moments]


@table.implements(normalization.batch_norm_gradient)
def batch_norm_gradient(
    dy: WasmArray,
    x: WasmArray,
    mean: WasmArray,
    variance: WasmArray,
    scale: WasmArray | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[WasmArray]:
    """Return the gradients for x, offset and scale, channel by channel."""
    memory, channels = x.memory, (x.shape[axis],)
    dx = memory.empty_like(x)
    if not x.size:
        return [dx, *(fill(memory, channels, x.dtype, 0) for _ in range(2))]
    inner = count_elements(x.shape[axis + 1 :])
    sums = [memory.empty(channels, x.dtype) for _ in range(2)]
    parts = mean, variance, as_offset_or_scale(x, scale, channels, 1)
    places = (dy, inner), (x, inner), *((part, 1) for part in parts), (dx, inner)
    places = *places, *((part, 1) for part in sums)
    run_over_channels(BATCH_NORM_GRADIENT_EXPORTS, x, axis, places, variance_epsilon)
    return [dx, *sums]


def run_over_channels(
    export_names: ExportNames,
    x: WasmArray,
    axis: int,
    arrays_and_steps: Sequence[tuple[WasmArray, int]],
    variance_epsilon: float,
) -> None:
    """Call an export for the channels of x; each array comes with its elements from one channel to the next."""
    channels, inner = x.shape[axis], count_elements(x.shape[axis + 1 :])
    attributes = x.size // (channels * inner), channels * inner, inner
    epsilon = attribute_converter(x.dtype)(variance_epsilon)
    work = 3 * x.size
    multiple = PART_MULTIPLE_ELEMENTS if inner == 1 else 1
    run_over_items(
        x,
        export_names[x.dtype],
        channels,
        arrays_and_steps,
        *attributes,
        epsilon,
        work=work,
        part_size_multiple=multiple,
    )


def run_local_response_normalization(
    export_names: ExportNames,
    *inputs: WasmArray,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> WasmArray:
    """Return local response normalization or its gradient by an export, which sums over neighbouring channels."""
    x = inputs[0]
    out = x.memory.empty_like(x)
    if x.size:
        length = x.shape[-1]
        radius = min(depth_radius, length - 1)
        run_over_items(
            x,
            export_names[x.dtype],
            x.size // length,
            [(array, length) for array in (*inputs, out)],
            length,
            radius,
            *map(attribute_converter(x.dtype), (bias, alpha, beta)),
            work=x.size * (2 * radius + 1),
            scratch_bytes=(2 * length + 2 * radius) * x.dtype.itemsize,
        )
    return out


table.update(
    {
        normalization.local_response_normalization: partial(
            run_local_response_normalization, LRN_EXPORTS
        ),
        normalization.local_response_normalization_gradient: partial(
            run_local_response_normalization, LRN_GRADIENT_EXPORTS
        ),
    }
)
