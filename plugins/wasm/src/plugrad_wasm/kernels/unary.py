"""Elementwise kernels of one tensor."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import (
    COMPLEX,
    HALVES,
    INTEGER,
    DType,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
)
from plugrad.kernels import unary
from plugrad_wasm.bits import attribute_converter, fill
from plugrad_wasm.declare import (
    RELEASE_GIL_MIN_ELEMENTS,
    ExportNames,
    UnaryImplementation,
    declare_elementwise_exports,
    make_unary as mapped,
    run_elementwise,
    table,
)
from plugrad_wasm.dtypes import ARRAY_DTYPES, as_supported_dtype
from plugrad_wasm.kernels.complex import real

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray


def identity(x: WasmArray) -> WasmArray:
    """Return x itself."""
    return x


def make_rounding(kernel: str) -> UnaryImplementation:
    """Return the implementation of the rounding kernel with this name, which returns integers unchanged."""
    on_floats = mapped(kernel)
    return lambda x: x if x.dtype in INTEGER else on_floats(x)


def make_predicate(kernel: str, *, integer_result: bool) -> UnaryImplementation:
    """Return the implementation of the predicate with this name; for integers it is always `integer_result`."""
    on_floats = mapped(kernel, dtype=bool_)
    return lambda x: (
        fill(x.memory, x.shape, bool_, integer_result) if x.dtype in INTEGER else on_floats(x)
    )


table.update(
    {
        unary.ceil: make_rounding("ceil"),
        unary.floor: make_rounding("floor"),
        unary.round: make_rounding("round"),
        unary.trunc: make_rounding("trunc"),
        unary.is_finite: make_predicate("is_finite", integer_result=True),
        unary.is_inf: make_predicate("is_inf", integer_result=False),
        unary.is_nan: make_predicate("is_nan", integer_result=False),
        unary.identity: identity,
    }
)

STEP_EXPORTS = ExportNames("step")
"""The exports of `step`, by dtype."""
CLIP_EXPORTS = ExportNames("clip")
"""The exports of `clip_by_value`, by dtype."""
HALF_CAST_EXPORTS = {
    (source, target)
    for half in HALVES
    for source, target in ((half, "float32"), ("float32", half), ("float64", half))
} | {("int64", "bfloat16"), ("uint64", "bfloat16")}
"""The source and target dtypes of casts from and to halves for which there are exports."""


@table.implements(unary.step)
def step(x: WasmArray, *, alpha: float) -> WasmArray:
    """Return 1 where x is positive, else `alpha`; NaN stays NaN."""
    out = x.memory.empty_like(x)
    places = ((x, 1), (out, 1))
    run_elementwise(x, STEP_EXPORTS[x.dtype], x.size, places, attribute_converter(x.dtype)(alpha))
    return out


@table.implements(unary.clip_by_value)
def clip_by_value(x: WasmArray, *, clip_value_min: float, clip_value_max: float) -> WasmArray:
    """Return x within the bounds, which may exceed the limits of an integer dtype; NaN stays NaN."""
    out = x.memory.empty_like(x)
    bounds = [clip_value_min, clip_value_max]
    if x.dtype in INTEGER:
        limits = np.iinfo(x.dtype)
        bounds = [min(max(bound, limits.min), limits.max) for bound in bounds]
    low, high = map(attribute_converter(x.dtype), bounds)
    run_elementwise(x, CLIP_EXPORTS[x.dtype], x.size, ((x, 1), (out, 1)), low, high)
    return out


@table.implements(unary.cast)
def cast(x: WasmArray, *, dtype: DType | str) -> WasmArray:
    """Return the elements in another dtype."""
    # A string that is equal to a dtype would find what is cached for this.
    if isinstance(dtype, DType) and (export := direct_cast_export(x.dtype, dtype)) is not None:
        out = x.memory.empty(x.shape, dtype)
        if x.size < RELEASE_GIL_MIN_ELEMENTS:
            x.memory.store.exports_holding_gil[export](x.address, out.address, x.size)
        else:
            run_elementwise(x, export, x.size, ((x, 1), (out, 1)))
        return out
    supported = as_supported_dtype(dtype)
    if supported is x.dtype:
        return x
    if supported is not dtype:
        return cast(x, dtype=supported)
    if x.dtype in COMPLEX and supported not in COMPLEX and supported is not bool_:
        return cast(real(x), dtype=supported)
    if supported in COMPLEX and x.dtype not in COMPLEX:
        return cast(cast(x, dtype=float32 if supported is complex64 else float64), dtype=supported)
    # Of halves: float16 is rounded twice only where it overflows; bfloat16 has the range of float32.
    releases_gil = supported == "bfloat16" and x.dtype.is_integer and x.dtype.itemsize > 2
    return cast(cast(x, dtype=float64 if releases_gil else float32), dtype=supported)


@lru_cache(maxsize=1024)
def direct_cast_export(source: DType, target: DType) -> str | None:
    """Return the name of the export that casts directly from one dtype to another, or None."""
    if target is source or target not in HALVES | ARRAY_DTYPES:
        return None
    export = f"cast_{source}_{target}"
    if source in HALVES or target in HALVES:
        return export if (source, target) in HALF_CAST_EXPORTS else None
    if (source in COMPLEX) == (target in COMPLEX) or target is bool_:
        return export
    return export if (source, target) in ((float32, complex64), (float64, complex128)) else None


declare_elementwise_exports(unary)
