"""Steps of optimizers: the formulas of the core, for as many elements at a time as stay in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import host_implementations
from plugrad.kernels import optimizers
from plugrad_cpu.declare import table
from plugrad_cpu.memory import empty

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel
    from plugrad_cpu.declare import Array

BLOCK_ELEMENTS: Final = 1 << 14
"""The number of elements that a formula computes at a time, so that intermediate results stay in the cache."""


def run_in_blocks(kernel: Kernel[..., Any], body: Implementation) -> Implementation:
    """Return an implementation of an optimizer that calls `body`, the core's formula, for blocks of each variable."""
    lists = optimizers.LIST_COUNT_OF_KERNEL[kernel]

    def implementation(coefficients: Array, *tensors: Array) -> list[Array]:
        """Return the new variables and slots, given coefficients and the tensors of all variables."""
        count = len(tensors) // lists
        moved: list[list[Array]] = []
        for i in range(count):
            variable = tensors[i::count]
            size = variable[0].size
            if size <= BLOCK_ELEMENTS:
                moved.append(body(coefficients, *variable))
                continue
            flat = [x.reshape(-1) for x in variable]
            outputs = [empty(x.shape, x.dtype) for x in variable[1:]]
            for first in range(0, size, BLOCK_ELEMENTS):
                block = np.s_[first : first + BLOCK_ELEMENTS]
                results = body(coefficients, *(x[block] for x in flat))
                for out, result in zip(outputs, results, strict=True):
                    out.reshape(-1)[block] = result
            moved.append(outputs)
        return [x for values in zip(*moved, strict=True) for x in values]

    return implementation


table.update(
    {
        kernel: run_in_blocks(kernel, body)
        for kernel, body in host_implementations(optimizers).items()
    }
)
