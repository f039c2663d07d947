"""Recurrent cells of float32, in one pass over the gates. Traced functions have the ops of its composite instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.kernels import recurrent
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT32,
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel
    from plugrad_native.declare import Array

CELL_COST_IN_ADDITIONS: Final = 24
"""How many additions take as long as the activations of one unit of a cell."""

C_SIGMOID: Final = find_c_functions("sigmoid", *FLOAT_DTYPES)
"""The C functions of the sigmoid, by dtype."""


def _sigmoid(x: Array) -> Array:
    """Return the sigmoid, with the same bits as the kernel `sigmoid`."""
    y = empty(x.shape, x.dtype)
    if x.size:
        C_SIGMOID[x.dtype](as_contiguous(x), y, x.size)
    return y


def _make_kernel(
    kernel: Kernel[..., Any], c_name: str, shape_inputs: tuple[int, ...]
) -> Implementation:
    """Return the implementation of a recurrent cell; `shape_inputs` has, by result, the input that has its shape."""
    run = current_variant().kernel(f"{c_name}_float32")
    numpy_function = numpy_implementation(kernel)

    def implementation(*inputs: Array) -> Any:
        """Return the results of the cell, or of NumPy's if C does not support the inputs."""
        state = inputs[-1]
        units = state.shape[-1]
        size = state.size
        if state.dtype != FLOAT32 or not 0 < 4 * size < MAX_ELEMENTS:
            return numpy_function(*inputs, sigmoid=_sigmoid)
        outs = [empty(inputs[place].shape, state.dtype) for place in shape_inputs]
        arrays = [*map(as_contiguous, inputs), *outs]
        places = [(x, x.shape[-1]) for x in arrays]
        parallel_for(run, places, size // units, units, work=CELL_COST_IN_ADDITIONS * size)
        return outs if len(outs) > 1 else outs[0]

    return implementation


for _kernel, _name, _places in (
    (recurrent.lstm_cell, "lstm_cell", (1, 1)),
    (recurrent.lstm_cell_gradient, "lstm_cell_gradient", (2, 3)),
    (recurrent.gru_cell, "gru_cell", (2,)),
    (recurrent.gru_cell_gradient, "gru_cell_gradient", (1, 2, 3)),
):
    table.implements(_kernel)(_make_kernel(_kernel, _name, _places))
