"""float16 for kernels whose exports compute in float32 and float64 only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Kernel, KernelTable, float16, float32
from plugrad.kernels import (
    activation,
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
    unary,
)
from plugrad_wasm.kernels.unary import cast

if TYPE_CHECKING:
    from plugrad.extend import Implementation
    from plugrad_wasm.memory import WasmArray

FAMILIES: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, morphology),
    *(normalization, pooling, pooling3d, reduction, resize, scan),
)
KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (
        *(kernel for f in FAMILIES for kernel in vars(f).values() if isinstance(kernel, Kernel)),
        *(activation.leaky_relu, unary.clip_by_value, unary.step),
        *(indexing.unsorted_segment_sum, linalg.einsum, linalg.matmul, scatter.scatter_nd),
    )
)


def with_float16(table: KernelTable) -> KernelTable:
    """Return a table in which these kernels take float16, too: they compute in float32."""
    names = {kernel.name for kernel in KERNELS}
    extended = KernelTable(table.backend)
    for config in table:
        if config.kernel_name in names:
            config = config._replace(kernel_func=through_float32(config.kernel_func))
        extended.add(config)
    return extended


def through_float32(function: Implementation) -> Implementation:
    """Return an implementation that computes float16 in float32; the results are float16 again."""

    @wraps(function)
    def implementation(*arrays: WasmArray | None, **attrs: Any) -> Any:
        for x in arrays:
            if x is not None and x.dtype is float16:
                break
        else:
            return function(*arrays, **attrs)
        result: Sequence[WasmArray] | WasmArray = function(*(wide(x) for x in arrays), **attrs)
        return [narrow(y) for y in result] if isinstance(result, Sequence) else narrow(result)

    def wide(x: WasmArray | None) -> WasmArray | None:
        return cast(x, dtype=float32) if x is not None and x.dtype is float16 else x

    def narrow(y: WasmArray) -> WasmArray:
        return cast(y, dtype=float16) if y.dtype is float32 else y

    return implementation
