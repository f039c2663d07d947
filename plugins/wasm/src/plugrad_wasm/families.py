"""The kernels of this backend, by family: what is known without importing their implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.extend import Kernel, KernelConfig, KernelTable
from plugrad.kernels import (
    activation,
    attention,
    binary,
    bitwise,
    complex,
    convolution,
    convolution3d,
    creation,
    decomposition,
    depthwise,
    detection,
    fused,
    image,
    indexing,
    linalg,
    morphology,
    movement,
    normalization,
    optimizers,
    pixels,
    pooling,
    pooling3d,
    ragged,
    random,
    rearrangement,
    reduction,
    resize,
    scan,
    scatter,
    signal,
    sorting,
    sparse,
    string,
    unary,
)
from plugrad_wasm.deferred import Deferred
from plugrad_wasm.half import through_float32

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ON_HOST: Final = (decomposition, detection, pixels, ragged, random, sparse, string)
"""Families that run on the host."""
ON_HOST_TOO: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (indexing.where_true, rearrangement.broadcast_args, sorting.sort, sorting.unique)
)
"""Kernels of other families that run there."""
IN_FLOAT32: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, morphology),
    *(normalization, pooling, pooling3d, reduction, resize, scan),
)
"""Families that compute float16 in float32."""
IN_FLOAT32_TOO: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (
        *(activation.leaky_relu, unary.clip_by_value, unary.step),
        *(indexing.gather_gradient, indexing.unsorted_segment_sum),
        *(linalg.einsum, linalg.matmul, scatter.scatter_nd),
    )
)
"""Kernels of other families that do so."""
OTHERS: Final = (
    *(activation, binary, bitwise, complex, creation, indexing, linalg, movement),
    *(optimizers, rearrangement, scatter, signal, sorting, unary),
)


def kernels_of(family: ModuleType) -> Iterator[Kernel[..., Any]]:
    """Yield the kernels of a family."""
    for value in vars(family).values():
        if isinstance(value, Kernel):
            yield cast("Kernel[..., Any]", value)


def all_kernels() -> KernelTable:
    """Return a table of all kernels; the module of a family is imported when one of them is first used."""
    declared = KernelTable("wasm")
    for family in (*ON_HOST, *IN_FLOAT32, *OTHERS):
        name = family.__name__.rpartition(".")[2]
        for kernel in kernels_of(family):
            is_widened = family in IN_FLOAT32 or kernel in IN_FLOAT32_TOO
            function = Deferred(kernel, name, through_float32 if is_widened else None)
            on_host = family in ON_HOST or kernel in ON_HOST_TOO
            declared.add(KernelConfig(kernel.name, declared.backend, function, on_host=on_host))
    return declared
