"""Elementwise kernels of one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import bool_, float32, int32, uint32
from plugrad.kernels import unary
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import require
from plugrad_webgpu.expressions import elementwise, numbers, real

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray

table.update(
    {
        # arithmetic
        unary.abs: elementwise(real("abs(x)", "abs(x)", "x")),
        unary.negative: elementwise(real("-x", "-x", "0u - x")),
        unary.square: elementwise(numbers("x * x")),
        unary.sign: elementwise(real("sign_of(x)", "sign(x)", "min(x, 1u)")),
        unary.reciprocal: elementwise("1.0 / x"),
        unary.sqrt: elementwise("sqrt(x)"),
        unary.rsqrt: elementwise("1.0 / sqrt(x)"),
        # rounding
        unary.ceil: elementwise(real("ceil(x)", "x", "x")),
        unary.floor: elementwise(real("floor(x)", "x", "x")),
        unary.round: elementwise(real("round(x)", "x", "x")),
        unary.trunc: elementwise(real("trunc(x)", "x", "x")),
        # exponential and logarithmic
        unary.exp: elementwise("exp_accurate(x)"),
        unary.expm1: elementwise("expm1_accurate(x)"),
        unary.log: elementwise("log_accurate(x)"),
        unary.log1p: elementwise("log1p_accurate(x)"),
        unary.log2: elementwise("log2_accurate(x)"),
        unary.log10: elementwise("log10_accurate(x)"),
        # trigonometric and hyperbolic
        unary.sin: elementwise("sin_accurate(x)"),
        unary.cos: elementwise("cos_accurate(x)"),
        unary.tan: elementwise("tan_accurate(x)"),
        unary.asin: elementwise("asin_accurate(x)"),
        unary.acos: elementwise("acos_accurate(x)"),
        unary.atan: elementwise("atan_accurate(x)"),
        unary.sinh: elementwise("sinh_accurate(x)"),
        unary.cosh: elementwise("cosh_accurate(x)"),
        unary.tanh: elementwise("tanh_accurate(x)"),
        unary.asinh: elementwise("asinh_accurate(x)"),
        unary.acosh: elementwise("acosh_accurate(x)"),
        unary.atanh: elementwise("atanh_accurate(x)"),
        unary.erf: elementwise("erf_accurate(x)"),
        unary.step: elementwise(
            real(
                "select(select(parameters.alpha, 1.0, x > 0.0), x, is_nan(x))",
                "select(parameters.alpha, 1, x > 0)",
                "select(parameters.alpha, 1u, x > 0u)",
            ),
            attributes=["alpha"],
        ),
        unary.clip_by_value: elementwise(
            real(
                "minimum(maximum(x, parameters.clip_value_min), parameters.clip_value_max)",
                "min(max(x, parameters.clip_value_min), parameters.clip_value_max)",
                "min(max(x, parameters.clip_value_min), parameters.clip_value_max)",
            ),
            attributes=["clip_value_min", "clip_value_max"],
        ),
        # questions
        unary.is_finite: elementwise(
            real("!(is_nan(x) || is_infinite(x))", "true", "true"), result=bool_
        ),
        unary.is_inf: elementwise(real("is_infinite(x)", "false", "false"), result=bool_),
        unary.is_nan: elementwise(real("is_nan(x)", "false", "false"), result=bool_),
        unary.sign_bit: elementwise("is_negative(x)", result=bool_),
        unary.logical_not: elementwise({bool_: "!x"}),
    }
)

# WGSL does not define the conversion of NaN, and its limits for large floats are those that float32
# can represent; the snippets saturate at the limits of the integers. A float is False only if its
# bits are those of 0 or -0: for a comparison with 0, a fast-math compiler would decide about NaN.
CASTS = {
    float32: elementwise(
        {int32: "f32(x)", uint32: "f32(x)", bool_: "f32(x)", float32: "x"}, result=float32
    ),
    int32: elementwise(
        {float32: "saturated_i32(x)", uint32: "i32(x)", bool_: "i32(x)", int32: "x"}, result=int32
    ),
    uint32: elementwise(
        {float32: "saturated_u32(x)", int32: "u32(x)", bool_: "u32(x)", uint32: "x"},
        result=uint32,
    ),
    bool_: elementwise(
        {
            float32: "(bitcast<u32>(x) & 0x7fffffffu) != 0u",
            int32: "x != 0",
            uint32: "x != 0u",
            bool_: "x",
        },
        result=bool_,
    ),
}


@table.implements(unary.cast)
def cast(x: GpuArray, *, dtype: DType) -> GpuArray:
    """Return the elements as another dtype."""
    if dtype == x.dtype:
        return x
    require(dtype, CASTS)
    return CASTS[dtype](x)


@table.implements(unary.identity)
def identity(x: GpuArray) -> GpuArray:
    """Return the array itself: arrays never change."""
    return x
