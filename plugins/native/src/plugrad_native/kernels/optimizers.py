"""Steps of optimizers: one call for all variables."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.kernels import optimizers
from plugrad_cpu.extend import empty, numpy_implementation, thread_pool
from plugrad_native.declare import (
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    table,
)

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel
    from plugrad_native.declare import Array


def make_optimizer_kernel(kernel: Kernel[..., Any], c_name: str) -> Implementation:
    """Return the implementation of an optimizer kernel by C functions, whose names begin with `c_name`."""
    functions = find_c_functions(c_name, *FLOAT_DTYPES)
    lists = optimizers.LIST_COUNT_OF_KERNEL[kernel]
    numpy_function = numpy_implementation(kernel)

    def implementation(coefficients: Array, *tensors: Array) -> list[Array]:
        """Return the new variables and slots, given coefficients and the tensors of all variables."""
        count = len(tensors) // lists
        sizes = tuple([x.size for x in tensors[:count]])
        largest = max(sizes, default=0)
        if largest >= MAX_ELEMENTS:
            return numpy_function(coefficients, *tensors)
        dtype = coefficients.dtype
        inputs = tuple([x if x.flags.c_contiguous else as_contiguous(x) for x in tensors])
        new_array = np.empty if largest < UNTRACKED_MAX_ELEMENTS else empty
        outputs = [new_array(x.shape, dtype) for x in tensors[count:]]
        run = functions[dtype]
        arguments = (
            as_contiguous(coefficients),
            as_array_of_sizes(sizes),
            inputs,
            tuple(outputs),
            count,
        )
        parts = thread_pool.count_parts(lists * sum(sizes), lists * sum(sizes))
        if parts < 2:
            run(*arguments, 0, 1)
        else:
            thread_pool.run([(run, *arguments, part, parts) for part in range(parts)])
        return outputs

    return implementation


@lru_cache(maxsize=64)
def as_array_of_sizes(sizes: tuple[int, ...]) -> Array:
    """Return sizes in elements as a cached array of int32; each training step asks for the same ones."""
    return np.array(sizes, np.int32)


OPTIMIZER_NAMES: Final = (
    *("adadelta", "adagrad", "adam", "adamax", "centered_rmsprop", "gradient_descent", "momentum"),
    "rmsprop",
)
"""The names of kernels that have C functions. A newer core may have more kernels."""

table.update(
    {
        vars(optimizers)[name]: make_optimizer_kernel(vars(optimizers)[name], name)
        for name in OPTIMIZER_NAMES
    }
)
