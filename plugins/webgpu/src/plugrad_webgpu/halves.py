"""float16 and bfloat16: two elements in a word of 32 bits.

Elementwise shaders convert halves as they read and write them. Other kernels do not see halves: elementwise casts
convert their inputs to float32, and round their results.
"""

from __future__ import annotations

from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import broadcast, compute_in_wider_dtype, float32
from plugrad.kernels import movement, unary
from plugrad_webgpu.algorithms.expressions import is_elementwise
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.shaders.elements import HALF_DTYPES

if TYPE_CHECKING:
    from plugrad.extend import DType, Implementation, Kernel
    from plugrad_webgpu.memory.buffers import GpuArray

BUFFER_SHARING_KERNELS: Final = frozenset(
    kernel.name for kernel in (unary.identity, movement.reshape, movement.expand_dims)
)
"""The kernels whose results share the buffer of the input, for every dtype."""
COMPUTE_DTYPES: Final = dict.fromkeys(HALF_DTYPES, float32)
"""The dtype in which kernels compute with each half-precision dtype."""


def with_halves(kernel: Kernel[..., Any], function: Implementation) -> Implementation:
    """Return an implementation of a kernel that also accepts float16 and bfloat16."""
    if kernel.name in BUFFER_SHARING_KERNELS or function is cast:
        return function
    if kernel is unary.cast:
        return _with_half_casts(function)
    widened = compute_in_wider_dtype(kernel, function, cast, COMPUTE_DTYPES)
    return _cast_halves_of_odd_rows(function, widened) if is_elementwise(function) else widened


def _with_half_casts(function: Implementation) -> Implementation:
    """Return a cast implementation: this package's cast from and to half precision, else `function`."""

    @wraps(function)
    def implementation(x: GpuArray, *, dtype: DType) -> GpuArray:
        is_half = x.dtype in HALF_DTYPES or dtype in HALF_DTYPES
        return (cast if is_half else function)(x, dtype=dtype)

    return implementation


def _cast_halves_of_odd_rows(
    function: Implementation, widened_function: Implementation
) -> Implementation:
    """Return an elementwise implementation that casts half-precision inputs to float32 only if their rows are odd."""

    @wraps(function)
    def implementation(*arrays: GpuArray, **attrs: Any) -> GpuArray:
        if arrays[-1].dtype not in HALF_DTYPES or _are_rows_whole(arrays):
            return function(*arrays, **attrs)
        return widened_function(*arrays, **attrs)

    return implementation


def _are_rows_whole(arrays: tuple[GpuArray, ...]) -> bool:
    """Return whether no input is repeated along rows whose length is not a multiple of 4."""
    shape = arrays[0].shape
    if all(x.shape == shape for x in arrays):
        return True
    out = broadcast(*[x.shape for x in arrays])
    return out[-1] % 4 == 0 or all(prod(x.shape) in (1, prod(out)) for x in arrays)
