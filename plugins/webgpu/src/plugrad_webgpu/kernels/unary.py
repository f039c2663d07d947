"""Elementwise kernels of one input."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import (
    bool_,
    complex64,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)
from plugrad.kernels import unary
from plugrad_webgpu.algorithms.bodies import clip, floats_only, make_cast, step
from plugrad_webgpu.algorithms.expressions import (
    elementwise,
    per_inexact_dtype,
    per_number_dtype,
    per_real_dtype,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.memory.buffers import host_values_or_none, reinterpret
from plugrad_webgpu.shaders.elements import (
    HALF_DTYPES,
    HIGHEST_VALUES_BY_DTYPE,
    LOWEST_VALUES_BY_DTYPE,
    WORD_DTYPES_BY_NARROW_DTYPE,
    narrow_expression,
    require_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray

table.update(
    {
        # arithmetic
        unary.abs: elementwise(
            per_real_dtype("abs(x)", "abs(x)", "x", "magnitude_i64(x)"), body=np.abs
        ),
        unary.negative: elementwise(
            per_real_dtype("negated(x)", "-x", "0u - x", "negative_i64(x)") | {complex64: "-x"},
            body=np.negative,
        ),
        unary.square: elementwise(
            per_number_dtype("x * x") | {int64: "square_i64(x)", complex64: "complex_square(x)"},
            body=np.square,
        ),
        unary.sign: elementwise(
            per_real_dtype("sign_of(x)", "sign(x)", "min(x, 1u)", "sign_i64(x)"), body=np.sign
        ),
        unary.reciprocal: elementwise(per_inexact_dtype("1.0 / x", "complex_inverse(x)")),
        unary.sqrt: elementwise(per_inexact_dtype("sqrt(x)", "complex_sqrt(x)")),
        unary.rsqrt: elementwise(
            per_inexact_dtype("1.0 / sqrt(x)", "complex_quotient(vec2f(1.0, 0.0), complex_sqrt(x))")
        ),
        # rounding
        unary.ceil: elementwise(
            per_real_dtype("ceil(x)", "x", "x", "x"), body=floats_only(np.ceil)
        ),
        unary.floor: elementwise(
            per_real_dtype("floor(x)", "x", "x", "x"), body=floats_only(np.floor)
        ),
        unary.round: elementwise(
            per_real_dtype("round(x)", "x", "x", "x"), body=floats_only(np.rint)
        ),
        unary.trunc: elementwise(
            per_real_dtype("trunc(x)", "x", "x", "x"), body=floats_only(np.trunc)
        ),
        # exponential and logarithmic
        unary.exp: elementwise(per_inexact_dtype("exp_accurate(x)", "complex_exp(x)")),
        unary.expm1: elementwise(per_inexact_dtype("expm1_accurate(x)", "complex_expm1(x)")),
        unary.log: elementwise(per_inexact_dtype("log_accurate(x)", "complex_log(x)")),
        unary.log1p: elementwise(per_inexact_dtype("log1p_accurate(x)", "complex_log1p(x)")),
        unary.log2: elementwise(
            per_inexact_dtype("log2_accurate(x)", "1.44269504 * complex_log(x)")
        ),
        unary.log10: elementwise(
            per_inexact_dtype("log10_accurate(x)", "0.434294482 * complex_log(x)")
        ),
        # trigonometric and hyperbolic
        unary.sin: elementwise(
            per_inexact_dtype(
                "sin_accurate(x)", "complex_turned_back(complex_sinh(complex_turned(x)))"
            )
        ),
        unary.cos: elementwise(
            per_inexact_dtype("cos_accurate(x)", "complex_cosh(complex_turned(x))")
        ),
        unary.tan: elementwise(
            per_inexact_dtype(
                "tan_accurate(x)", "complex_turned_back(complex_tanh(complex_turned(x)))"
            )
        ),
        unary.asin: elementwise(per_inexact_dtype("asin_accurate(x)", "complex_asin(x)")),
        unary.acos: elementwise(per_inexact_dtype("acos_accurate(x)", "complex_acos(x)")),
        unary.atan: elementwise(
            per_inexact_dtype(
                "atan_accurate(x)", "complex_turned_back(complex_atanh(complex_turned(x)))"
            )
        ),
        unary.sinh: elementwise(per_inexact_dtype("sinh_accurate(x)", "complex_sinh(x)")),
        unary.cosh: elementwise(per_inexact_dtype("cosh_accurate(x)", "complex_cosh(x)")),
        unary.tanh: elementwise(per_inexact_dtype("tanh_accurate(x)", "complex_tanh(x)")),
        unary.asinh: elementwise(
            per_inexact_dtype(
                "asinh_accurate(x)", "complex_turned_back(complex_asin(complex_turned(x)))"
            )
        ),
        unary.acosh: elementwise(per_inexact_dtype("acosh_accurate(x)", "complex_acosh(x)")),
        unary.atanh: elementwise(per_inexact_dtype("atanh_accurate(x)", "complex_atanh(x)")),
        unary.erf: elementwise("erf_accurate(x)"),
        unary.step: elementwise(
            per_real_dtype(
                "select(select(parameters.alpha, 1.0, x > 0.0), x, is_nan(x))",
                "select(parameters.alpha, 1, x > 0)",
                "select(parameters.alpha, 1u, x > 0u)",
                "select(i64_of_words(parameters.alpha), vec2u(1u, 0u), is_less_i64(vec2u(), x))",
            ),
            attributes=["alpha"],
            body=step,
        ),
        unary.clip_by_value: elementwise(
            per_real_dtype(
                "minimum(maximum(x, parameters.clip_value_min), parameters.clip_value_max)",
                "min(max(x, parameters.clip_value_min), parameters.clip_value_max)",
                "min(max(x, parameters.clip_value_min), parameters.clip_value_max)",
                "minimum_i64(maximum_i64(x, i64_of_words(parameters.clip_value_min)), "
                "i64_of_words(parameters.clip_value_max))",
            ),
            attributes=["clip_value_min", "clip_value_max"],
            body=clip,
        ),
        # questions
        unary.is_finite: elementwise(
            per_real_dtype("!(is_nan(x) || is_infinite(x))", "true", "true", "true")
            | {complex64: "!(complex_is_nan(x) || complex_is_infinite(x))"},
            result=bool_,
            body=np.isfinite,
        ),
        unary.is_inf: elementwise(
            per_real_dtype("is_infinite(x)", "false", "false", "false")
            | {complex64: "complex_is_infinite(x)"},
            result=bool_,
            body=np.isinf,
        ),
        unary.is_nan: elementwise(
            per_real_dtype("is_nan(x)", "false", "false", "false")
            | {complex64: "complex_is_nan(x)"},
            result=bool_,
            body=np.isnan,
        ),
        unary.sign_bit: elementwise("is_negative(x)", result=bool_, body=np.signbit),
        unary.logical_not: elementwise({bool_: "!x"}, body=np.logical_not),
    }
)

# WGSL does not define the conversion of NaN, and its limits for large floats are those that float32
# can represent; the snippets saturate at the limits of the integers. A float is False only if its
# bits are those of 0 or -0: for a comparison with 0, a fast-math compiler would decide about NaN.
FLOAT_CAST_EXPRESSIONS = {
    int64: "f32_of_i64(x)",
    uint32: "f32_of_u32(x)",
    complex64: "x.x",
} | dict.fromkeys((int32, bool_, float32), "f32(x)")
"""The WGSL casts of `x` to float32, by the dtype of `x`."""
INT32_CAST_EXPRESSIONS = {
    float32: "saturated_i32(x)",
    int64: "bitcast<i32>(x.x)",
    complex64: "saturated_i32(x.x)",
} | dict.fromkeys((int32, uint32, bool_), "i32(x)")
"""The WGSL casts of `x` to int32, by the dtype of `x`."""
UINT32_CAST_EXPRESSIONS = {
    float32: "saturated_u32(x)",
    int64: "x.x",
    complex64: "saturated_u32(x.x)",
} | dict.fromkeys((int32, uint32, bool_), "u32(x)")
"""The WGSL casts of `x` to uint32, by the dtype of `x`."""

CAST_EXPRESSIONS: dict[DType, dict[DType, str]] = {
    float32: FLOAT_CAST_EXPRESSIONS,
    int32: INT32_CAST_EXPRESSIONS,
    **{
        dtype: {source: narrow_expression(dtype, e) for source, e in INT32_CAST_EXPRESSIONS.items()}
        | {
            float32: f"clamp(saturated_i32(x), {LOWEST_VALUES_BY_DTYPE[dtype]}, {HIGHEST_VALUES_BY_DTYPE[dtype]})",
            complex64: f"clamp(saturated_i32(x.x), {LOWEST_VALUES_BY_DTYPE[dtype]}, {HIGHEST_VALUES_BY_DTYPE[dtype]})",
        }
        for dtype in (int8, int16)
    },
    uint32: UINT32_CAST_EXPRESSIONS,
    **{
        dtype: {
            source: narrow_expression(dtype, e) for source, e in UINT32_CAST_EXPRESSIONS.items()
        }
        | {
            float32: f"min(saturated_u32(x), {HIGHEST_VALUES_BY_DTYPE[dtype]}u)",
            complex64: f"min(saturated_u32(x.x), {HIGHEST_VALUES_BY_DTYPE[dtype]}u)",
        }
        for dtype in (uint8, uint16)
    },
    int64: {
        float32: "saturated_i64(x)",
        int32: "i64_of_i32(x)",
        complex64: "saturated_i64(x.x)",
    }
    | dict.fromkeys((uint32, bool_), "vec2u(u32(x), 0u)"),
    bool_: {
        float32: "(bitcast<u32>(x) & 0x7fffffffu) != 0u",
        int32: "x != 0",
        uint32: "x != 0u",
        int64: "(x.x | x.y) != 0u",
        complex64: "((bitcast<u32>(x.x) | bitcast<u32>(x.y)) & 0x7fffffffu) != 0u",
    },
    complex64: {
        source: f"vec2f({e}, 0.0)"
        for source, e in FLOAT_CAST_EXPRESSIONS.items()
        if source != complex64
    },
}
"""The WGSL casts of `x` to each dtype, by the dtype of `x`."""
CAST_IMPLEMENTATIONS: dict[DType, Callable[..., GpuArray]] = {
    dtype: elementwise(expressions, result=dtype, body=make_cast(dtype))
    for dtype, expressions in CAST_EXPRESSIONS.items()
}
"""The implementations of the casts to each dtype."""
WIDE_FLOAT_CAST_EXPRESSIONS = FLOAT_CAST_EXPRESSIONS | {
    int32: "odd_f32_of_i32(x)",
    uint32: "odd_f32_of_u32(x)",
    int64: "odd_f32_of_i64(x)",
}
"""Casts to float32 before the rounding to a half: integers that are not exact get an odd last bit, to round once."""


@cache
def cast_to_half(dtype: DType) -> Callable[..., GpuArray]:
    """Return the function that casts a float array to float16 or bfloat16."""
    return elementwise(WIDE_FLOAT_CAST_EXPRESSIONS, result=dtype)


@table.implements(unary.cast)
def cast(x: GpuArray, *, dtype: DType) -> GpuArray:
    """Return the elements cast to another dtype."""
    if dtype == x.dtype:
        return x
    if dtype == WORD_DTYPES_BY_NARROW_DTYPE.get(x.dtype) and host_values_or_none(x) is None:
        return reinterpret(x, x.shape, dtype)
    if dtype in HALF_DTYPES:
        return cast_to_half(dtype)(x)
    require_dtype(dtype, CAST_IMPLEMENTATIONS)
    return CAST_IMPLEMENTATIONS[dtype](x)


@table.implements(unary.identity)
def identity(x: GpuArray) -> GpuArray:
    """Return x itself, because arrays are immutable."""
    return x
