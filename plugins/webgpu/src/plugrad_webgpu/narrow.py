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
from plugrad_webgpu.memory.buffers import GpuArray, in_words
from plugrad_webgpu.shaders.elements import WIDE

if TYPE_CHECKING:
    from collections.abc import Collection

    from plugrad.extend import DType, Implementation

FAMILIES: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, morphology, normalization),
    *(pooling, pooling3d, resize, scan),
)
SINGLE: Final = (
    *(reduction.bincount, reduction.dense_bincount, indexing.unsorted_segment_sum),
    *(indexing.gather_gradient, linalg.einsum, scatter.scatter_nd),
)
WITH_INTEGERS: Final = (morphology, pooling, pooling3d)
"""The families that look for the largest integer themselves: it depends on the dtype what that is."""


@cache
def with_narrow() -> KernelTable:
    """Return the table of the kernels, of which those that compute in words take narrow dtypes, too."""
    wrapped: dict[str, tuple[Kernel[..., Any], Collection[DType]]] = {}
    for family in FAMILIES:
        dtypes = (float16,) if family in WITH_INTEGERS else WIDE
        for kernel in vars(family).values():
            if isinstance(kernel, Kernel):
                wrapped[kernel.name] = kernel, dtypes
    wrapped |= {kernel.name: (kernel, WIDE) for kernel in SINGLE}
    extended = KernelTable(table.backend)
    for config in table:
        if config.kernel_name in wrapped:
            kernel, dtypes = wrapped[config.kernel_name]
            config = config._replace(kernel_func=through_words(kernel, config.kernel_func, dtypes))
        extended.add(config)
    return extended


def through_words(
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
        return in_words(x) if x is not None and x.dtype in dtypes else x

    def narrow(y: GpuArray, dtype: DType) -> GpuArray:
        return cast(y, dtype=dtype) if y.dtype == WIDE.get(dtype) else y

    return implementation
