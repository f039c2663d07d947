"""Results of a few elements, which C computes before a kernel is called: by its own functions or NumPy's loops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import KERNELS, KernelNotFound, Shaped, as_dtype
from plugrad.kernels import binary, creation, indexing, movement, unary
from plugrad_cpu.extend import numpy_implementation, register_fast_path
from plugrad_native.declare import (
    FLOAT_DTYPES,
    SMALL_RESULTS_BY_KERNEL,
    register_small_result_functions,
    with_small_results_in_c,
)
from plugrad_native.halves import table as table
from plugrad_native.programs.calls import find_ufunc_loop

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel
    from plugrad_native.variants import Layout

DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64", "uint8", "bool")))
"""The dtypes of which C calls NumPy's loops."""
ROUNDING_UFUNCS: Final = {
    unary.ceil: np.ceil,
    unary.floor: np.floor,
    unary.round: np.rint,
    unary.trunc: np.trunc,
}
"""What rounds floats; integers remain as they are, which is not what NumPy does."""
FILLED_DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64")))
"""The dtypes whose numbers C writes."""


def find_numpy_implementation(kernel: Kernel[..., Any]) -> Implementation | None:
    """Return NumPy's implementation of a kernel, or None."""
    try:
        return numpy_implementation(kernel)
    except KernelNotFound:
        return None


def register_numpy_loops(
    kernel: Kernel[..., Any], ufunc: np.ufunc, layout: Layout = "each", kinds: str = "fiub"
) -> None:
    """Register a ufunc's loops for small arrays of dtypes for which the pack has no C functions.

    Args:
        kernel: the kernel.
        ufunc: computes it.
        layout: which arrays the loops take.
        kinds: the kinds of the dtypes for which the ufunc does what the kernel says.
    """
    known = (
        SMALL_RESULTS_BY_KERNEL[kernel.name].functions
        if kernel.name in SMALL_RESULTS_BY_KERNEL
        else ()
    )
    known_dtypes = {given for given, _ in known}
    for dtype in DTYPES:
        if (
            dtype in known_dtypes
            or as_dtype(dtype) not in kernel.accepts
            or dtype.kind not in kinds
        ):
            continue
        given = [dtype] * len(kernel.inputs)
        result = kernel.infer(*[Shaped((1,), as_dtype(d)) for d in given]).dtype.numpy
        loop = find_ufunc_loop(ufunc, *given, result)
        if loop is not None:
            register_small_result_functions(
                kernel, layout, {dtype: (ufunc, loop)}, result_dtype=result
            )


register_small_result_functions(movement.reshape, "view", {}, "shape")
register_small_result_functions(movement.expand_dims, "new axis", {}, "dim")
register_small_result_functions(indexing.gather, "take", {}, "axis", "batch_dims")
register_small_result_functions(creation.fill, "fill", dict.fromkeys(FILLED_DTYPES))
for _kernel, _ufunc in ROUNDING_UFUNCS.items():
    register_numpy_loops(_kernel, _ufunc, "each", "f")
register_numpy_loops(binary.power, np.power, "pairs", "f")
for _kernel in list(KERNELS.values()):
    _numpy_function = find_numpy_implementation(_kernel)
    if (
        isinstance(_numpy_function, np.ufunc)
        and _kernel.is_elementwise
        and not _kernel.attributes
        and len(_kernel.inputs) <= 2
    ):
        raises_for_integers = _kernel is binary.divide
        register_numpy_loops(
            _kernel, _numpy_function, "each", "f" if raises_for_integers else "fiub"
        )
    if (_small := SMALL_RESULTS_BY_KERNEL.get(_kernel.name)) is not None:
        _implementations = [
            config.kernel_func for config in table if config.kernel_name == _kernel.name
        ]
        _equivalent_implementations = [
            *_implementations,
            *([] if _numpy_function is None else [_numpy_function]),
        ]
        register_fast_path(
            _kernel, partial(with_small_results_in_c, _small), table, *_equivalent_implementations
        )
