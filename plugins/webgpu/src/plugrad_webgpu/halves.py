"""float16 and bfloat16: two elements in a word of 32 bits, which kernels do not see.

Around a kernel, a shader unpacks the inputs to float32, and another one rounds and packs the results.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import BFLOAT16, compute_in_wider, float16, float32, int32, int64, uint32
from plugrad.kernels import binary, movement, unary
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.kernels.unary import cast as cast_words
from plugrad_webgpu.shaders.elements import HALF_DTYPES, stored_nbytes
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import DType, Implementation, Kernel
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

BUFFER_SHARING_KERNELS: Final = frozenset(
    kernel.name for kernel in (unary.identity, movement.reshape, movement.expand_dims)
)
"""The kernels whose results share the buffer of the input, whatever is in it."""
PACK_PROGRAMS: Final = {
    float16: Program("pack float16", partial(shader, "halves_pack", narrowed="half_bits")),
    BFLOAT16: Program("pack bfloat16", partial(shader, "halves_pack", narrowed="brain_bits")),
}
UNPACK_PROGRAMS: Final = {
    float16: Program("unpack float16", partial(shader, "halves_unpack", widened="bits_of_half")),
    BFLOAT16: Program("unpack bfloat16", partial(shader, "halves_unpack", widened="bits_of_brain")),
}
"""The shaders, by dtype."""
NEXT_AFTER_BY_DTYPE: Final = {
    float16: elementwise("next_half_after(a, b)", ("a", "b")),
    BFLOAT16: elementwise("next_brain_after(a, b)", ("a", "b")),
}
"""The neighbours of halves, in float32."""
COMPUTE_DTYPES: Final = dict.fromkeys(HALF_DTYPES, float32)
round_to_odd_float32: Final = elementwise(
    {int32: "odd_f32_of_i32(x)", uint32: "odd_f32_of_u32(x)", int64: "odd_f32_of_i64(x)"},
    result=float32,
)
"""Integers in float32, with an odd last bit if they are not exact: then rounding again is harmless."""


@lru_cache(maxsize=1024)
def _conversion_plan(program: Program, shape: Shape, dtype: DType) -> Plan:
    count = stored_nbytes(shape, float16) // 4
    return plan(program, (count,), count, shape, dtype)


def with_halves(kernel: Kernel[..., Any], function: Implementation) -> Implementation:
    """Return an implementation that also accepts float16 and bfloat16."""
    if kernel.name in BUFFER_SHARING_KERNELS:
        return function
    if kernel is unary.cast:
        return cast
    widened = compute_in_wider(kernel, function, cast, COMPUTE_DTYPES)
    if kernel is not binary.next_after:
        return widened
    neighbours = {
        d: compute_in_wider(kernel, f, cast, COMPUTE_DTYPES) for d, f in NEXT_AFTER_BY_DTYPE.items()
    }

    def next_after(a: GpuArray, b: GpuArray) -> GpuArray:
        return neighbours.get(a.dtype, function)(a, b)

    return next_after


def cast(x: GpuArray, *, dtype: DType) -> GpuArray:
    """Return the elements as another dtype, rounded once."""
    if x.dtype == dtype:
        return x
    device = x.buffer.device
    if x.dtype in HALF_DTYPES:
        x = device.launch(_conversion_plan(UNPACK_PROGRAMS[x.dtype], x.shape, float32), x)
    if dtype not in HALF_DTYPES:
        return cast_words(x, dtype=dtype)
    is_long = x.dtype in (int32, uint32, int64)
    wide = round_to_odd_float32(x) if is_long else cast_words(x, dtype=float32)
    return device.launch(_conversion_plan(PACK_PROGRAMS[dtype], wide.shape, dtype), wide)
