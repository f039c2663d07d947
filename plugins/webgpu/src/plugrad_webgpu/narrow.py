"""Narrow dtypes for kernels that compute in words: their results are wrapped around or rounded at the end.

The words of a narrow array are those of an array of its wide dtype, so nothing is converted on the
way in. Elementwise kernels, reductions, products of matrices, and kernels that only move elements take
narrow dtypes without this, which saves them a call for each call.
"""

from __future__ import annotations

from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Kernel, KernelTable, float16
from plugrad.kernels import (
    attention,
    convolution,
    convolution3d,
    depthwise,
    fused,
    image,
    indexing,
    linalg,
    morphology,
    normalization,
    pooling,
    pooling3d,
    reduction,
    resize,
    scan,
    scatter,
)
from plugrad_webgpu.kernels import table
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import GpuArray, as_words
from plugrad_webgpu.shaders.elements import WORD_DTYPE

if TYPE_CHECKING:
    from collections.abc import Collection

    from plugrad.extend import DType, Implementation

FAMILIES: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, morphology, normalization),
    *(pooling, pooling3d, resize, scan),
)
EXTRA_KERNELS: Final = (
    *(reduction.bincount, reduction.dense_bincount, indexing.unsorted_segment_sum),
    *(indexing.gather_gradient, linalg.einsum, scatter.scatter_nd),
)
INTEGER_FAMILIES: Final = (morphology, pooling, pooling3d)
"""The families that look for the largest integer themselves: it depends on the dtype what that is."""


@cache
def table_with_narrow_dtypes() -> KernelTable:
    """Return the table of the kernels, of which those that compute in words take narrow dtypes, too."""
    wrapped: dict[str, tuple[Kernel[..., Any], Collection[DType]]] = {}
    for family in FAMILIES:
        dtypes = (float16,) if family in INTEGER_FAMILIES else WORD_DTYPE
        for kernel in vars(family).values():
            if isinstance(kernel, Kernel):
                wrapped[kernel.name] = kernel, dtypes
    wrapped |= {kernel.name: (kernel, WORD_DTYPE) for kernel in EXTRA_KERNELS}
    extended = KernelTable(table.backend)
    for config in table:
        if config.kernel_name in wrapped:
            kernel, dtypes = wrapped[config.kernel_name]
            config = config._replace(
                kernel_func=compute_in_words(kernel, config.kernel_func, dtypes)
            )
        extended.add(config)
    return extended


def compute_in_words(
    kernel: Kernel[..., Any], function: Implementation, dtypes: Collection[DType]
) -> Implementation:
    """Return an implementation that computes these narrow dtypes in wide ones."""

    @wraps(function)
    def implementation(*arrays: GpuArray | None, **attributes: Any) -> Any:
        for x in arrays:
            if x is not None and x.dtype in dtypes:
                break
        else:
            return function(*arrays, **attributes)
        promised: Any = kernel.infer(*arrays, **attributes)
        result: Any = function(*(wide(x) for x in arrays), **attributes)
        if isinstance(result, GpuArray):
            return narrow(result, promised.dtype)
        return [narrow(y, spec.dtype) for y, spec in zip(result, promised, strict=True)]

    def wide(x: GpuArray | None) -> GpuArray | None:
        return as_words(x) if x is not None and x.dtype in dtypes else x

    def narrow(y: GpuArray, dtype: DType) -> GpuArray:
        return cast(y, dtype=dtype) if y.dtype == WORD_DTYPE.get(dtype) else y

    return implementation
