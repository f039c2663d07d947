"""Constant folding: a call whose inputs are constants is made once, when the function is traced."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.engine.implementations import active_functions
from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.interruptions import is_interruption
from plugrad.kernels import creation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.tensor.backend import Backend, Implementation
    from plugrad.types.specs import Shaped

FOLDED_MAX_BYTES: Final = 4096
"""The most bytes of the results of a call that is folded, because a program keeps constants as long as it exists."""
_FILL_KERNELS: Final = frozenset({creation.ones_like, creation.zeros_like})
"""The kernels whose results depend only on the shape and dtype of their input."""


def fold_constants(graph: Graph) -> Graph:
    """Return the graph with small results of constant inputs replaced by constants.

    The device's own implementations compute them, so they have the bits that each call of the program would compute. A
    call that fails stays, and fails when the program runs.
    """
    specs = graph.specs
    backend = graph.backend
    functions = active_functions(backend)
    constants = dict(graph.constants)
    known: set[Value | None] = {None, *constants}
    steps: list[Step] = []
    for step in graph.steps:
        found = None
        if type(step) is Call and (known.issuperset(step.inputs) or step.kernel in _FILL_KERNELS):
            arrays = _constant_inputs(step, constants, specs, backend)
            found = None if arrays is None else _call_or_none(step, arrays, functions)
        if found is None:
            steps.append(step)
        else:
            constants.update(zip(step.outputs, found, strict=True))
            known.update(step.outputs)
    if len(steps) == len(graph.steps):
        return graph
    return replace(graph, steps=tuple(steps), constants=constants)


def _is_small(step: Step, specs: Mapping[Value, Shaped]) -> bool:
    """Return whether the results of a step are small enough to be stored as constants."""
    outputs = [specs[value] for value in step.outputs]
    return sum(prod(x.shape) * x.dtype.itemsize for x in outputs) <= FOLDED_MAX_BYTES


def _constant_inputs(
    step: Call, constants: Mapping[Value, Any], specs: Mapping[Value, Shaped], backend: Backend
) -> list[Any] | None:
    """Return the input arrays of a call if all are constants, else None."""
    inputs = step.inputs
    if not inputs:
        return [backend] if _is_small(step, specs) else None
    if all(value is None or value in constants for value in inputs):
        return (
            [None if value is None else constants[value] for value in inputs]
            if _is_small(step, specs)
            else None
        )
    value = inputs[0]
    # With more axes, the result might take the order of the input's axes in memory.
    if step.kernel in _FILL_KERNELS and value is not None and len(specs[value].shape) < 2:
        shape, dtype = specs[value]
        if _is_small(step, specs):
            return [backend.from_numpy(np.zeros(shape, dtype.numpy))]
    return None


def _call_or_none(
    step: Call, arrays: list[Any], functions: Mapping[str, Implementation]
) -> list[Any] | None:
    """Return the output arrays of a call, or None if it raises."""
    try:
        found = functions[step.kernel.name](*arrays, **step.attrs)
    except (
        Exception
    ) as error:  # of whatever kind: the program raises it again, with the line of the user
        if is_interruption(error):
            raise
        return None
    return list(found) if step.returns_list else [found]
