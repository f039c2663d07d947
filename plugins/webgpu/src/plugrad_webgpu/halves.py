"""bfloat16: two elements in a word of 32 bits, which kernels do not see.

Around a kernel, a shader unpacks the inputs to float32, and another one rounds and packs the results.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import BFLOAT16, DType, compute_in_float32, float32, known_bfloat16
from plugrad.kernels import binary, movement, unary
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.shaders.elements import stored_nbytes
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

SHARING: Final = frozenset(
    kernel.name for kernel in (unary.identity, movement.reshape, movement.expand_dims)
)
"""The kernels whose results share the buffer of the input, whatever is in it."""
_PACK: Final = Program("pack halves", partial(shader, "halves_pack"))
_UNPACK: Final = Program("unpack halves", partial(shader, "halves_unpack"))
_next_brain_after: Final = elementwise("next_brain_after(a, b)", ("a", "b"))


@lru_cache(maxsize=1024)
def _plan(program: Program, shape: Shape, dtype: DType) -> Plan:
    count = stored_nbytes(shape, DType(BFLOAT16)) // 4
    return plan(program, (count,), count, shape, dtype)


def with_bfloat16(
    kernel: Kernel[..., Any], function: Implementation, cast: Implementation
) -> Implementation:
    """Return an implementation that also takes bfloat16; `cast` is what the device calls for the kernel "Cast"."""
    if kernel.name in SHARING:
        return function
    if kernel is unary.cast:
        return partial(_cast, function)
    own: Implementation = _next_brain_after if kernel is binary.next_after else function
    halves = known_bfloat16()
    widened = compute_in_float32(kernel, own, cast, halves)
    if own is function:
        return widened

    def next_after(a: GpuArray, b: GpuArray) -> GpuArray:
        return (widened if a.dtype in halves else function)(a, b)

    return next_after


def _cast(function: Implementation, x: GpuArray, *, dtype: DType) -> GpuArray:
    """Return the elements as another dtype; `function` casts where neither is bfloat16."""
    device = x.buffer.device
    if x.dtype == BFLOAT16:
        if dtype == BFLOAT16:
            return x
        wide = device.launch(_plan(_UNPACK, x.shape, float32), x)
        return function(wide, dtype=dtype)
    if dtype == BFLOAT16:
        return device.launch(_plan(_PACK, x.shape, dtype), function(x, dtype=float32))
    return function(x, dtype=dtype)
