"""Steps of optimizers: one call for all variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import Kernel
from plugrad.kernels import optimizers
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    ExportNames,
    choose_items_per_part,
    run_call_chains,
    select_export,
    table,
)
from plugrad_wasm.memory import WasmArray
from plugrad_wasm.program import exported_kernels

if TYPE_CHECKING:
    from plugrad.extend import Implementation


def make_optimizer_kernel(kernel: Kernel[..., Any], export_prefix: str) -> Implementation:
    """Return the implementation of an optimizer kernel by its exports, whose names begin with `export_prefix`."""
    names = ExportNames(export_prefix)
    lists = optimizers.LIST_COUNT_OF_KERNEL[kernel]

    def implementation(coefficients: WasmArray, *tensors: WasmArray) -> list[WasmArray]:
        """Return the new variables and slots, given coefficients and the tensors of all variables."""
        memory = coefficients.memory
        count = len(tensors) // lists
        outputs = [WasmArray(memory, x.shape, x.dtype, x.size, x.capacity) for x in tensors[count:]]
        sizes = [x.size for x in tensors[:count]]
        # The sizes, the addresses of the inputs and those of the outputs: what follows begins `count` numbers
        # and then one for each input later.
        places = [*sizes, *[x.address for x in tensors], *[x.address for x in outputs]]
        numbers = memory.write_numbers(places)
        first = numbers.address
        last = first + 4 * (count + len(tensors))
        arguments = (coefficients.address, first, first + 4 * count, last, count)
        size = sum(sizes)
        work = lists * size
        if not size:
            return outputs
        length = choose_items_per_part(memory.store, size, work, ELEMENTWISE_PART_STEPS)
        if length >= size:
            select_export(coefficients, names[coefficients.dtype], work)(*arguments, 0, 1)
            return outputs
        parts = -(-size // length)
        chains = [[(*arguments, part, parts)] for part in range(parts)]
        held = (coefficients, numbers, *tensors, *outputs)
        run_call_chains(coefficients, names[coefficients.dtype], chains, held, work)
        return outputs

    return implementation


for name, found in vars(optimizers).items():
    if isinstance(found, Kernel) and name in exported_kernels():
        table.update({found: make_optimizer_kernel(found, name)})
