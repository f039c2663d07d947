"""A graph as text, with a line for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import short_repr
from plugrad.graph.graph import Call, Cond, HostValue, Scan, Step, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from plugrad.graph.graph import Graph
    from plugrad.types.specs import Shaped


def format_graph(graph: Graph) -> str:
    """Return a graph as text."""
    return "\n".join(_lines(graph, f"graph on {graph.backend.label}", "return", ""))


def _lines(graph: Graph, title: str, end: str, indent: str) -> Iterator[str]:
    specs = graph.specs
    arguments = ", ".join(f"%{value}: {format_spec(specs[value])}" for value in graph.arguments)
    yield f"{indent}{title} ({arguments})"
    inner = f"{indent}  "
    for value in graph.constants:
        yield f"{inner}%{value} = constant {format_spec(specs[value])}"
    for value, variable in graph.variables.items():
        name = f" {variable.name!r}" if variable.name else ""
        yield f"{inner}%{value} = variable{name} {format_spec(specs[value])}"
    for step in graph.steps:
        outputs = ", ".join(f"%{value}" for value in step.outputs)
        found = ", ".join(format_spec(specs[value]) for value in step.outputs)
        yield f"{inner}{outputs} = {describe(step)}  {found}"
        for body in step.graphs:
            yield from _lines(body, "do", "give", f"{inner}  ")
    for variable, value in graph.updates:
        yield f"{inner}{variable.name or 'variable'!r} becomes %{value}"
    yield f"{indent}{end} {_values(graph.results)}"


def describe(step: Step) -> str:
    """Return what a step does, without its outputs."""
    if isinstance(step, Call):
        attrs = [f"{name}={short_repr(value)}" for name, value in step.attrs.items()]
        return f"{step.kernel.name}({', '.join([*map(_value, step.inputs), *attrs])})"
    if isinstance(step, HostValue):
        return f"host {getattr(step.function, '__qualname__', 'value')}"
    if isinstance(step, Scan):
        direction = " backwards" if step.is_reversed else ""
        return (
            f"scan {step.length} times{direction}, carry ({_values(step.carry)}), slices of ({_values(step.slices)}), "
            f"with ({_values(step.captured)})"
        )
    if isinstance(step, Cond):
        return f"if %{step.flag}, with ({_values(step.operands)})"
    return f"while, carry ({_values(step.carry)}), with ({_values(step.captured)})"


def format_spec(spec: Shaped) -> str:
    """Return a shape and dtype such as ``float32[2, 3]``."""
    return f"{spec.dtype}{list(spec.shape)}"


def _values(values: Iterable[Value]) -> str:
    return ", ".join(map(_value, values))


def _value(value: Value | None) -> str:
    return "_" if value is None else f"%{value}"
