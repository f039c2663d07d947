"""The kernels of this backend by family, known without importing their implementations.

The manifest lists them; `make docs` writes it. An elementwise kernel for which the modules have an export is one
of them as soon as the C is compiled. A contract that is in neither, as in a core that is newer than this
package, is not declared, so core says that the kernel is missing, or lets another backend compute it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.extend import Kernel, KernelConfig, KernelTable, compute_in_float32, float16
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
    matrix_functions,
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
from plugrad_wasm.deferred import LazyImplementation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from plugrad.extend import Implementation

MANIFEST_FILE: Final = Path(__file__).with_name("plugrad-backend.toml")
"""The path of the file that lists the kernels of this backend."""
ELEMENTWISE_FAMILIES: Final = (activation, binary, bitwise, complex, unary)
"""Families whose elementwise kernels are declared without code if the modules have exports for them."""
HOST_FAMILIES: Final = (decomposition, detection, matrix_functions, pixels, ragged, sparse, string)
"""Families whose kernels run on the host."""
HOST_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (
        *(indexing.where_true, random.multinomial, rearrangement.broadcast_args, sorting.sort),
        sorting.unique,
    )
)
"""Kernels of other families that run on the host."""
FLOAT32_FAMILIES: Final = (
    *(attention, convolution, convolution3d, depthwise, fused, image, morphology),
    *(normalization, pooling, pooling3d, reduction, resize, scan),
)
"""Families whose kernels compute float16 in float32."""
FLOAT32_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (
        *(activation.leaky_relu, unary.clip_by_value, unary.step),
        *(indexing.gather_gradient, indexing.unsorted_segment_sum),
        *(linalg.einsum, scatter.scatter_nd),
    )
)
"""Kernels of other families that compute float16 in float32."""
NATIVE_HALF_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    (linalg.matmul, normalization.layer_norm, reduction.sum)
)
"""Kernels that are not elementwise and have exports for halves."""
UNWIDENED_FAMILIES: Final = (
    *(activation, binary, bitwise, complex, creation, indexing, linalg, movement),
    *(optimizers, random, rearrangement, scatter, signal, sorting, unary),
)
"""Families whose kernels take float16 without a cast to float32, except those in `FLOAT32_KERNELS`."""


@cache
def manifest_kernels() -> frozenset[str]:
    """Return the names of the kernels that the manifest file lists as implemented."""
    return frozenset(tomllib.loads(MANIFEST_FILE.read_text("utf-8"))["kernels"])


def iter_kernels(family: ModuleType) -> Iterator[tuple[str, Kernel[..., Any]]]:
    """Yield the name of each kernel's Python function in a family, and the kernel."""
    for name, value in vars(family).items():
        if isinstance(value, Kernel):
            yield name, cast("Kernel[..., Any]", value)


@cache
def bfloat16_kernels() -> frozenset[str]:
    """Return the names of the kernels whose implementations take bfloat16 without conversion."""
    from plugrad_wasm.program import (
        exported_dtypes_by_kernel,  # not at the top: it imports wasmtime
    )

    elementwise = frozenset(
        kernel.name
        for family in ELEMENTWISE_FAMILIES
        for name, kernel in iter_kernels(family)
        if "bfloat16" in exported_dtypes_by_kernel().get(name, ())
    )
    return elementwise | {kernel.name for kernel in NATIVE_HALF_KERNELS}


LAZY_CAST: Final = LazyImplementation(unary.cast, "unary")
"""The implementation of `cast`, imported on first use."""


def widen_float16(kernel: Kernel[..., Any], function: Implementation) -> Implementation:
    """Return an implementation of a kernel that calls `function`, with float16 inputs cast to float32."""
    return compute_in_float32(kernel, function, LAZY_CAST, (float16,))


def kernel_table() -> KernelTable:
    """Return the table of all kernels; a family's module is imported on first use of one of its kernels."""
    from plugrad_wasm.program import exported_kernels  # not at the top: it imports wasmtime

    exported = exported_kernels()
    listed = manifest_kernels()
    declared = KernelTable("wasm")
    for family in (*HOST_FAMILIES, *FLOAT32_FAMILIES, *UNWIDENED_FAMILIES):
        name = family.__name__.rpartition(".")[2]
        for function_name, kernel in iter_kernels(family):
            is_exported = family in ELEMENTWISE_FAMILIES and function_name in exported
            if not is_exported and kernel.name not in listed:
                continue
            is_float32 = family in FLOAT32_FAMILIES or kernel in FLOAT32_KERNELS
            is_widened = is_float32 and kernel not in NATIVE_HALF_KERNELS
            function = LazyImplementation(kernel, name, widen_float16 if is_widened else None)
            on_host = family in HOST_FAMILIES or kernel in HOST_KERNELS
            declared.add(KernelConfig(kernel.name, declared.backend, function, on_host=on_host))
    return declared
