"""What the families share: the table, exports by dtype, NumPy's implementations, and which arrays C takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable
from plugrad_cpu.kernels import table as numpy_table
from plugrad_native.variants import variant

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel

Array: TypeAlias = NDArray[Any]
Export: TypeAlias = Callable[..., Any]
Exports: TypeAlias = Mapping[np.dtype[Any], Export]

LIMIT: Final = 2**31
"""The kernels count elements in 32 bits; NumPy takes arrays with more."""
FLOAT32: Final = np.dtype(np.float32)
FLOATS: Final = ("float32", "float64")

LANES: Final = variant().VECTOR_BYTES // 4
"""The number of float32 in a vector."""

table: Final = KernelTable("cpu")
"""All implementations of this pack; the modules in `kernels` add them."""
_by_name: Final = {config.kernel_name: config.kernel_func for config in numpy_table}


def in_numpy(kernel: Kernel[..., Any]) -> Implementation:
    """Return the implementation of plugrad-cpu, which runs where C does not."""
    return _by_name[kernel.name]


def exports(kernel: str, *dtypes: str) -> Exports:
    """Return functions of C by the dtypes of their arrays, such as ``relu_float32``."""
    return {np.dtype(dtype): variant().kernel(f"{kernel}_{dtype}") for dtype in dtypes}


def dense(x: Array) -> Array:
    """Return an array whose elements are contiguous."""
    return x if x.flags.c_contiguous else np.array(x, order="C")
