"""What the families share: the table, exports by dtype, NumPy's implementations, and which arrays C takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable
from plugrad_cpu.kernels import table as numpy_table
from plugrad_native.variants import variant

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel, Shape

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


def mapped(kernel: Kernel[..., Any], functions: Exports) -> Implementation:
    """Return the implementation of an elementwise kernel of one tensor, whose result has its dtype."""
    numpy_function = in_numpy(kernel)

    def implementation(x: Array) -> Array:
        run = functions.get(x.dtype)
        size = x.size
        if run is None or size >= LIMIT:
            return numpy_function(x)
        out = np.empty(x.shape, x.dtype)
        run(x if x.flags.c_contiguous else dense(x), out, size)
        return out

    return implementation


def combined(kernel: Kernel[..., Any], functions: Exports) -> Implementation:
    """Return the implementation of an elementwise kernel of two tensors, for those of one shape."""
    numpy_function = in_numpy(kernel)

    def implementation(a: Array, b: Array) -> Array:
        run = functions.get(a.dtype)
        size = a.size
        if run is None or a.shape != b.shape or a.dtype != b.dtype or size >= LIMIT:
            return numpy_function(a, b)
        out = np.empty(a.shape, a.dtype)
        run(dense(a), dense(b), out, size, 1, 1)
        return out

    return implementation


@lru_cache(maxsize=1024)
def walk(shape: Shape, *operands: Shape) -> Array:
    """Return the descriptor of a walk over a shape, to which dense operands are broadcast.

    It is the number of axes, their sizes, and the strides of each operand. Adjacent axes along which all
    operands move in equal steps are one axis.
    """
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    sizes = [shape[axis] for axis in axes] or [1]
    steps = [
        [strides[axis] for axis in axes] or [0]
        for strides in (strides_in(shape, operand) for operand in operands)
    ]
    for axis in range(len(sizes) - 1, 0, -1):
        if all(step[axis - 1] == step[axis] * sizes[axis] for step in steps):
            sizes[axis - 1] *= sizes.pop(axis)
            for step in steps:
                del step[axis - 1]
    return np.array([len(sizes), *sizes, *(n for step in steps for n in step)], np.int32)


def strides_in(shape: Shape, operand: Shape) -> list[int]:
    """Return the strides, in elements, of a dense operand that is broadcast to a shape."""
    strides: list[int] = []
    stride = 1
    for size in reversed((1,) * (len(shape) - len(operand)) + operand):
        strides.append(0 if size == 1 else stride)
        stride *= size
    return strides[::-1]


def dense(x: Array) -> Array:
    """Return an array whose elements are contiguous."""
    return x if x.flags.c_contiguous else np.array(x, order="C")
