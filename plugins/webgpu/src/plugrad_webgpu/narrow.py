"""Narrow dtypes for kernels that compute in words: their results wrap around at the end.

The words of a narrow array are those of an array of its wide dtype, so nothing is converted on the
way in. Elementwise kernels, reductions, products of matrices, and kernels that only move elements take
narrow dtypes without this, which saves them a call for each call.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from plugrad.extend import KERNELS, Kernel, KernelConfig, KernelTable, compute_in_wider_dtype
from plugrad.kernels import (
    attention,
    convolution,
    convolution3d,
    depthwise,
    fused,
    image,
    indexing,
    linalg,
    normalization,
    reduction,
    resize,
    scan,
    scatter,
)
from plugrad_webgpu.halves import with_halves
from plugrad_webgpu.kernels import table
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.shaders.elements import WORD_DTYPES_BY_NARROW_DTYPE

HALF_PRECISION_FAMILIES: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, normalization, resize, scan),
)
"""The families whose kernels compute with halves and other narrow dtypes in wider ones."""
OTHER_HALF_PRECISION_KERNELS: Final = (
    *(reduction.bincount, reduction.dense_bincount, indexing.unsorted_segment_sum),
    *(indexing.gather_gradient, linalg.einsum, scatter.scatter_nd),
)
"""The kernels of other families that compute with halves and other narrow dtypes in wider ones."""


@cache
def table_with_narrow_dtypes() -> KernelTable:
    """Return the table of the kernels; all accept halves, and elementwise ones also other narrow dtypes."""
    in_words = {kernel.name for kernel in OTHER_HALF_PRECISION_KERNELS} | {
        kernel.name
        for family in HALF_PRECISION_FAMILIES
        for kernel in vars(family).values()
        if isinstance(kernel, Kernel)
    }
    extended = KernelTable(table.backend)
    for config in table:
        kernel, function = KERNELS[config.kernel_name], config.kernel_func
        if kernel.name in in_words:
            function = compute_in_wider_dtype(kernel, function, cast, WORD_DTYPES_BY_NARROW_DTYPE)
        if not config.on_host:
            function = with_halves(kernel, function)
        extended.add(config._replace(kernel_func=function))
    return extended


@cache
def configs_by_kernel_name() -> dict[str, KernelConfig]:
    """Return the configurations of `table_with_narrow_dtypes` by kernel name."""
    return {config.kernel_name: config for config in table_with_narrow_dtypes()}
