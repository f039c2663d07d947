"""The verifier, which checks that a graph is well-formed, whichever pass has made it.

It takes about as long as a trace, so programs do not run it; tests do, after each pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from plugrad.errors import ArgumentValueError, PlugradError
from plugrad.graph.graph import (
    Call,
    Cond,
    Fused,
    Graph,
    HostValue,
    Scan,
    Step,
    Value,
    While,
    format_spec,
)
from plugrad.transforms.variable import get_array
from plugrad.types.dtype import as_dtype
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Sequence


def verify_graph(graph: Graph) -> None:
    """Raise unless a graph is well-formed.

    Each value is defined once, and before it is used. Its shape and dtype are those that the contract of its kernel
    gives. Variables become what they can hold. The graphs inside loops and choices are well-formed, and fit what they
    are given and what is made of their results.

    >>> from plugrad.extend import verify_graph
    >>> verify_graph(plugrad.make_graph(lambda x: x + 1)(plugrad.ones(3)))

    Raises:
        ArgumentValueError: the message names the step and the value.
    """
    specs = graph.specs
    defined: set[Value] = set()
    for name, values in (
        ("argument", graph.arguments),
        ("constant", graph.constants),
        ("variable", graph.variables),
    ):
        for value in values:
            _check_new_value(graph, value, name, defined)
    for value, array in graph.constants.items():
        _check_spec(f"constant %{value}", specs[value], _as_spec(array))
    for value, variable in graph.variables.items():
        _check_spec(f"variable %{value}", specs[value], _as_spec(get_array(variable)))
    for index, step in enumerate(graph.steps):
        where = f"step {index}, {step}"
        for value in step.inputs:
            if value is not None and value not in defined:
                _raise_invalid_graph(f"{where}, reads %{value}, which nothing before it defines")
        for value in step.outputs:
            _check_new_value(graph, value, where, defined)
        _check_step(graph, step, where)
    for value in graph.results:
        if value not in defined:
            _raise_invalid_graph(f"the result %{value} is not defined")
    updated = [variable for variable, _ in graph.updates]
    if len(set(map(id, updated))) != len(updated):
        _raise_invalid_graph("a variable is updated twice")
    for variable, value in graph.updates:
        if value not in defined:
            _raise_invalid_graph(f"the update %{value} of a variable is not defined")
        _check_spec(f"the update %{value}", specs[value], _as_spec(get_array(variable)))


def _check_new_value(graph: Graph, value: Value, location: str, defined_values: set[Value]) -> None:
    """Record a value as defined; raise if it is defined already, or has no shape and dtype."""
    if value in defined_values:
        _raise_invalid_graph(f"{location}, defines %{value}, which is defined already")
    if value not in graph.specs:
        _raise_invalid_graph(f"{location}, defines %{value}, which has no shape and dtype")
    defined_values.add(value)


def _check_step(graph: Graph, step: Step, location: str) -> None:
    """Raise unless the outputs of a step are what its contract or its subgraphs give."""
    specs = graph.specs
    found = [specs[value] for value in step.outputs]
    for body in step.graphs:
        if body.backend is not graph.backend:
            _raise_invalid_graph(
                f"{location}, has a graph for {body.backend.label} inside one for {graph.backend.label}"
            )
        if body.updates:
            _raise_invalid_graph(f"{location}, has a graph inside that updates variables")
        verify_graph(body)
    if isinstance(step, Call):
        inputs = [None if value is None else specs[value] for value in step.inputs]
        try:
            inferred = step.kernel.infer(*inputs, **step.attrs)
        except PlugradError as error:
            _raise_invalid_graph(f"{location}, does not fit the contract: {error}")
        is_list = not hasattr(inferred, "dtype")
        if is_list is not step.returns_list:
            _raise_invalid_graph(
                f"{location}, has returns_list={step.returns_list}, which is not what the contract says"
            )
        _check_specs(location, found, list(inferred) if is_list else [inferred])
    elif isinstance(step, HostValue):
        if len(found) != 1:
            _raise_invalid_graph(f"{location}, has {len(found)} outputs instead of one")
    elif isinstance(step, Fused):
        _check_specs(
            f"{location}, inputs", _argument_specs(step.body), [specs[v] for v in step.inputs]
        )
        _check_specs(f"{location}, outputs", _result_specs(step.body), found)
    else:
        _check_loop(graph, step, location, found)


def _check_loop(
    graph: Graph, step: Scan | Cond | While, location: str, output_specs: Sequence[Shaped]
) -> None:
    """Raise unless the subgraphs of a loop or a conditional fit its values."""
    specs = graph.specs
    if isinstance(step, Cond):
        operands = [specs[value] for value in step.operands]
        for body in step.branches:
            _check_specs(f"{location}, operands", _argument_specs(body), operands)
            _check_specs(f"{location}, results", _result_specs(body), output_specs)
        if specs[step.flag].shape != ():
            _raise_invalid_graph(
                f"{location}, has a flag of shape {specs[step.flag].shape}, which must be ()"
            )
        return
    carry = [specs[value] for value in step.carry]
    captured = [specs[value] for value in step.captured]
    if isinstance(step, While):
        for body in step.graphs:
            _check_specs(f"{location}, arguments", _argument_specs(body), [*carry, *captured])
        _check_specs(f"{location}, carry", _result_specs(step.body), carry)
        _check_specs(f"{location}, results", output_specs, carry)
        decided = _result_specs(step.condition)
        if len(decided) != 1 or decided[0].shape != ():
            _raise_invalid_graph(
                f"{location}, has a condition that does not return one flag of shape ()"
            )
        return
    slices: list[Shaped] = []
    for value in step.slices:
        shape, dtype = specs[value]
        if shape[:1] != (step.length,):
            _raise_invalid_graph(
                f"{location}, runs {step.length} times over %{value} of shape {shape}"
            )
        slices.append(Shaped(shape[1:], dtype))
    _check_specs(f"{location}, arguments", _argument_specs(step.body), [*carry, *slices, *captured])
    results = _result_specs(step.body)
    count = len(carry)
    _check_specs(f"{location}, carry", results[:count], carry)
    stacked = [Shaped((step.length, *shape), dtype) for shape, dtype in results[count:]]
    _check_specs(f"{location}, results", output_specs, [*carry, *stacked])


def _argument_specs(graph: Graph) -> list[Shaped]:
    """Return the shapes and dtypes of a graph's arguments and variables."""
    return [graph.specs[value] for value in (*graph.arguments, *graph.variables)]


def _result_specs(graph: Graph) -> list[Shaped]:
    """Return the shapes and dtypes of a graph's results."""
    return [graph.specs[value] for value in graph.results]


def _as_spec(array: object) -> Shaped:
    """Return the shape and dtype of an array."""
    shape, dtype = getattr(array, "shape", ()), getattr(array, "dtype", None)
    return Shaped(tuple(shape), as_dtype(dtype))


def _check_specs(
    location: str, actual_specs: Sequence[Shaped], expected_specs: Sequence[Shaped]
) -> None:
    """Raise unless shapes and dtypes are the expected ones; the error begins with the text `location`."""
    if len(actual_specs) != len(expected_specs):
        _raise_invalid_graph(
            f"{location}: there are {len(actual_specs)} values instead of {len(expected_specs)}"
        )
    for one, other in zip(actual_specs, expected_specs, strict=True):
        _check_spec(location, one, other)


def _check_spec(location: str, actual_spec: Shaped, expected_spec: Shaped) -> None:
    """Raise unless a shape and dtype are the expected ones; the error begins with the text `location`."""
    if (
        tuple(actual_spec.shape) != tuple(expected_spec.shape)
        or actual_spec.dtype is not expected_spec.dtype
    ):
        _raise_invalid_graph(
            f"{location}: {format_spec(actual_spec)} stands where {format_spec(expected_spec)} is expected"
        )


def _raise_invalid_graph(problem: str) -> NoReturn:
    """Raise the error for a graph with a problem, given as text."""
    raise ArgumentValueError(f"the graph is not well-formed: {problem}")
