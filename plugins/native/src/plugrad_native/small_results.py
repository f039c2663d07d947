"""Results of a few elements: what C puts in front of kernels, with functions of its own or loops of NumPy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import KERNELS, KernelNotFound, Shaped, as_dtype
from plugrad.kernels import binary, creation, movement
from plugrad_cpu.extend import numpy_implementation, put_in_front
from plugrad_native.declare import (
    FLOAT_DTYPES,
    SMALL_RESULTS,
    register_small_result_functions,
    with_small_results_in_c,
)
from plugrad_native.halves import table as table
from plugrad_native.programs.calls import find_ufunc_loop

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel

DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64", "uint8", "bool")))
"""The dtypes of which C calls NumPy's loops."""
FILLED_DTYPES: Final = tuple(map(np.dtype, (*FLOAT_DTYPES, "int32", "int64")))
"""The dtypes whose numbers C writes."""
KINDS_WITHOUT_ERRORS_BY_KERNEL: Final = {binary.power: "f", binary.divide: "f"}
"""Kernels that raise for some integers, by the kinds of dtypes for which they do not."""


def find_numpy_implementation(kernel: Kernel[..., Any]) -> Implementation | None:
    """Return NumPy's implementation of a kernel, or None."""
    try:
        return numpy_implementation(kernel)
    except KernelNotFound:
        return None


def register_numpy_loops(kernel: Kernel[..., Any], ufunc: np.ufunc) -> None:
    """Register a ufunc's loops for small arrays of dtypes for which the pack has no C functions."""
    known = SMALL_RESULTS[kernel.name].functions if kernel.name in SMALL_RESULTS else {}
    for dtype in DTYPES:
        if (
            dtype in known
            or as_dtype(dtype) not in kernel.accepts
            or dtype.kind not in KINDS_WITHOUT_ERRORS_BY_KERNEL.get(kernel, "fiub")
        ):
            continue
        given = [dtype] * len(kernel.inputs)
        result = kernel.infer(*[Shaped((1,), as_dtype(d)) for d in given]).dtype.numpy
        loop = find_ufunc_loop(ufunc, *given, result)
        if loop is not None:
            register_small_result_functions(kernel, "each", {dtype: (ufunc, loop)}, result=result)


register_small_result_functions(movement.reshape, "view", {}, "shape")
register_small_result_functions(movement.expand_dims, "new axis", {}, "dim")
register_small_result_functions(creation.fill, "fill", dict.fromkeys(FILLED_DTYPES))
for _kernel in list(KERNELS.values()):
    _numpy_function = find_numpy_implementation(_kernel)
    if (
        isinstance(_numpy_function, np.ufunc)
        and _kernel.is_elementwise
        and not _kernel.attributes
        and len(_kernel.inputs) <= 2
    ):
        register_numpy_loops(_kernel, _numpy_function)
    if (_small := SMALL_RESULTS.get(_kernel.name)) is not None:
        _own = [config.kernel_func for config in table if config.kernel_name == _kernel.name]
        _all = [*_own, *([] if _numpy_function is None else [_numpy_function])]
        put_in_front(_kernel, partial(with_small_results_in_c, _small), table, *_all)
