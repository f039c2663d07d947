"""Compilation of the control-flow steps of a graph, loops and conditionals, for a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.engine.implementations import active_functions
from plugrad.graph.graph import Cond, Scan
from plugrad.tensor.backend import copy_to_backend_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph.graph import Graph, While
    from plugrad.tensor.backend import Backend


def compile_loop(
    step: Scan | Cond | While,
    backend: Backend,
    compile_graph: Callable[[Graph], Callable[..., list[Any]]],
) -> Callable[..., list[Any]]:
    """Compile a control-flow step to a function from input arrays to outputs."""
    graphs = [compile_graph(graph) for graph in step.graphs]
    if isinstance(step, Scan):
        return _compile_scan(step, backend, graphs[0])
    if isinstance(step, Cond):
        return _compile_cond(backend, graphs[0], graphs[1])
    return _compile_while(step, backend, graphs[0], graphs[1])


def _compile_scan(
    step: Scan, backend: Backend, run_body: Callable[..., list[Any]]
) -> Callable[..., list[Any]]:
    """Return a function that runs the body of a scan for each slice and stacks the results."""
    carries, slices, length = len(step.carry), len(step.slices), step.length
    order = range(length - 1, -1, -1) if step.is_reversed else range(length)
    specs = [step.body.specs[value] for value in step.body.results[carries:]]

    def run(*arrays: Any) -> list[Any]:
        """Return the last carry and the stacked results, given the arrays that the scan reads."""
        functions = active_functions(backend)
        carry: Any = arrays[:carries]
        stacked = arrays[carries : carries + slices]
        captured = arrays[carries + slices :]
        parts = [functions["Unpack"](array, axis=0) for array in stacked if length]
        found: list[list[Any]] = [[None] * length for _ in specs]
        for index in order:
            results = run_body(*carry, *[part[index] for part in parts], *captured)
            carry = results[:carries]
            for place, result in zip(found, results[carries:], strict=True):
                place[index] = result
        if length:
            return [*carry, *[functions["Pack"](*column, axis=0) for column in found]]
        return [
            *carry,
            *[
                copy_to_backend_array(np.empty((0, *s.shape), s.dtype.numpy), backend)
                for s in specs
            ],
        ]

    return run


def _compile_cond(
    backend: Backend, run_yes: Callable[..., list[Any]], run_no: Callable[..., list[Any]]
) -> Callable[..., list[Any]]:
    """Return a function of a flag and operands that runs one of two branches."""

    def run(flag: Any, *operands: Any) -> list[Any]:
        """Return the results of the branch that the flag selects."""
        return (run_yes if backend.to_numpy(flag).item() else run_no)(*operands)

    return run


def _compile_while(
    step: While,
    backend: Backend,
    run_condition: Callable[..., list[Any]],
    run_body: Callable[..., list[Any]],
) -> Callable[..., list[Any]]:
    """Return a function that runs the body of a loop while its condition holds."""
    count = len(step.carry)

    def run(*arrays: Any) -> list[Any]:
        """Return the final carry, given the arrays that the loop reads."""
        carry, captured = list(arrays[:count]), arrays[count:]
        while backend.to_numpy(run_condition(*carry, *captured)[0]).item():
            carry = run_body(*carry, *captured)
        return carry

    return run
