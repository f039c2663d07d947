"""Results of a few elements, which C computes before a kernel is called: by its own functions or NumPy's loops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import KERNELS, Shaped, as_dtype
from plugrad.kernels import binary, creation, indexing, movement, unary
from plugrad_cpu.extend import register_fast_path
from plugrad_native.declare import (
    FLOAT_DTYPES,
    SMALL_RESULTS_BY_KERNEL,
    find_numpy_implementation,
    register_small_result_functions,
    with_small_results_in_c,
)
from plugrad_native.halves import table as table
from plugrad_native.programs.calls import find_ufunc_loop

if TYPE_CHECKING:
    from plugrad.extend import Kernel
    from plugrad_native.variants import Layout

NUMPY_LOOP_DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64", "uint8", "bool")))
"""The dtypes for which C calls loops of NumPy's ufuncs."""
ROUNDING_UFUNCS: Final = {
    unary.ceil: np.ceil,
    unary.floor: np.floor,
    unary.round: np.rint,
    unary.trunc: np.trunc,
}
"""By kernel: the ufunc that rounds floats; the kernels return integers unchanged, unlike NumPy."""
FILLED_DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64")))
"""The dtypes of arrays that C fills with a number."""


def register_numpy_loops(
    kernel: Kernel[..., Any], ufunc: np.ufunc, layout: Layout = "each", dtype_kinds: str = "fiub"
) -> None:
    """Register a ufunc's loops, with arguments in the form `layout`, for small arrays without C functions.

    `dtype_kinds` has NumPy's letters for the kinds of dtypes for which the ufunc does what the kernel says.
    """
    known = (
        SMALL_RESULTS_BY_KERNEL[kernel.name].functions
        if kernel.name in SMALL_RESULTS_BY_KERNEL
        else ()
    )
    known_dtypes = {given for given, _ in known}
    for dtype in NUMPY_LOOP_DTYPES:
        if (
            dtype in known_dtypes
            or as_dtype(dtype) not in kernel.accepts
            or dtype.kind not in dtype_kinds
        ):
            continue
        given = [dtype] * len(kernel.inputs)
        result = kernel.infer(*[Shaped((1,), as_dtype(d)) for d in given]).dtype.numpy
        loop = find_ufunc_loop(ufunc, *given, result)
        if loop is not None:
            register_small_result_functions(
                kernel, layout, {dtype: (ufunc, loop)}, result_dtype=result
            )


def _register_fast_paths() -> None:
    """Register C functions and NumPy's loops for the small results of kernels, and their fast paths."""
    register_small_result_functions(movement.reshape, "view", {}, "shape")
    register_small_result_functions(movement.expand_dims, "new axis", {}, "dim")
    register_small_result_functions(indexing.gather, "take", {}, "axis", "batch_dims")
    register_small_result_functions(creation.fill, "fill", dict.fromkeys(FILLED_DTYPES))
    for kernel, ufunc in ROUNDING_UFUNCS.items():
        register_numpy_loops(kernel, ufunc, "each", "f")
    register_numpy_loops(binary.power, np.power, "pairs", "f")
    for kernel in list(KERNELS.values()):
        numpy_function = find_numpy_implementation(kernel)
        if (
            isinstance(numpy_function, np.ufunc)
            and kernel.is_elementwise
            and not kernel.attributes
            and len(kernel.inputs) <= 2
        ):
            raises_for_integers = kernel is binary.divide
            register_numpy_loops(
                kernel, numpy_function, "each", "f" if raises_for_integers else "fiub"
            )
        if (small_results := SMALL_RESULTS_BY_KERNEL.get(kernel.name)) is not None:
            equivalent_implementations = [
                *[config.kernel_func for config in table if config.kernel_name == kernel.name],
                *([] if numpy_function is None else [numpy_function]),
            ]
            register_fast_path(
                kernel,
                partial(with_small_results_in_c, small_results),
                table,
                *equivalent_implementations,
            )


_register_fast_paths()
