"""The graph of a traced function: immutable records of its values and steps.

A *value* is a number, which stands for an array of a known shape and dtype. A graph says where each value comes from:
an argument, a constant, a variable as it is when a call begins, or a step. Steps run in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugrad.errors import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend
    from plugrad.transforms.variable import Variable
    from plugrad.types.specs import Shaped

Value: TypeAlias = int
"""The number of a value in its graph."""
MAX_LISTED_VALUES: Final = 12
"""The most inputs or outputs that the text of a step lists; a step of an optimizer may have hundreds."""


class SourceLine(NamedTuple):
    """The line of the user's program in which a step was traced."""

    file: str
    """The path of the file."""
    number: int
    """The number of the line, from 1 on."""
    function: str
    """The qualified name of the function that contains the line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.number}, in {self.function}"


@dataclass(frozen=TYPE_CHECKING, slots=True, eq=False)
class Call:
    """A step that calls a kernel."""

    # Frozen for type checkers only: a trace makes many calls, and `frozen=True` takes four times as long for each.
    kernel: Kernel[..., Any]
    """The contract of the kernel."""
    inputs: tuple[Value | None, ...]
    """The values of the inputs, in which None is an absent optional input."""
    attrs: Mapping[str, Any]
    """The attributes of the call by name."""
    outputs: tuple[Value, ...]
    """The values that the call computes."""
    returns_list: bool
    """Whether the kernel has several outputs, even if their number is one."""
    line: SourceLine
    """The user's line of which the trace made the step."""
    stops_gradient: bool = False
    """Whether the call is a `stop_gradient`, through which a program that is made of the graph passes no gradient."""

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The subgraphs of the step, of which there are none."""
        return ()

    def __str__(self) -> str:
        attrs = [f"{name}={short_repr(self.attrs[name])}" for name in sorted(self.attrs)]
        inputs = [_format_values(self.inputs)] if self.inputs else []
        end = " without gradient" if self.stops_gradient else ""
        return f"{self.kernel.name}({', '.join([*inputs, *attrs])}){end}"


@dataclass(frozen=True, slots=True, eq=False)
class HostValue:
    """A value that a host function computes anew in each run; see `plugrad.extend.host_value`."""

    function: Callable[[], Any]
    """The function without parameters that computes the value."""
    outputs: tuple[Value]
    """The only value, as a tuple."""
    line: SourceLine
    """The user's line of which the trace made the step."""

    @property
    def inputs(self) -> tuple[()]:
        """The values that the step reads, of which there are none."""
        return ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The subgraphs of the step, of which there are none."""
        return ()

    def __str__(self) -> str:
        return f"host value of {getattr(self.function, '__qualname__', 'a function')}"


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A loop whose body runs once for each slice of its sequences and passes its carry to the next iteration.

    The arguments of the body are the carry, then the slices, then the captured values. Its results are the next carry,
    then what is stacked.
    """

    body: Graph
    """The graph of one iteration."""
    length: int
    """The number of iterations."""
    carry: tuple[Value, ...]
    """The values of the initial carry."""
    slices: tuple[Value, ...]
    """The values that are sliced along the first axis; each iteration gets one slice of each."""
    captured: tuple[Value, ...]
    """The values that each iteration gets as a whole."""
    outputs: tuple[Value, ...]
    """The last carry, then the stacked results."""
    is_reversed: bool
    """Whether the loop begins with the last slice; results are stacked in the order of the slices in any case."""
    line: SourceLine
    """The user's line of which the trace made the step."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the loop reads."""
        return (*self.carry, *self.slices, *self.captured)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The body, which is the only subgraph of the step."""
        return (self.body,)

    def __str__(self) -> str:
        direction = " backwards" if self.is_reversed else ""
        return (
            f"scan {self.length} times{direction}, carry ({_format_values(self.carry)}), "
            f"slices of ({_format_values(self.slices)}), with ({_format_values(self.captured)})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cond:
    """A conditional: a flag selects which of two graphs runs."""

    flag: Value
    """The value of the bool that selects a branch."""
    branches: tuple[Graph, Graph]
    """The graphs for a true and for a false flag. Both take the operands, and their results have the same specs."""
    operands: tuple[Value, ...]
    """The values that both branches take."""
    outputs: tuple[Value, ...]
    """The values of the graph that hold the results of the chosen branch."""
    line: SourceLine
    """The user's line of which the trace made the step."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the conditional reads."""
        return (self.flag, *self.operands)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Both branches, which are the subgraphs of the step."""
        return self.branches

    def __str__(self) -> str:
        return f"if %{self.flag}, with ({_format_values(self.operands)})"


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """A loop that runs while its condition graph returns true; both graphs take the carry, then the captured values."""

    condition: Graph
    """The graph that returns whether the loop goes on."""
    body: Graph
    """The graph of one iteration, which returns the next carry."""
    carry: tuple[Value, ...]
    """The values of the initial carry."""
    captured: tuple[Value, ...]
    """The values that each iteration gets unchanged."""
    outputs: tuple[Value, ...]
    """The values of the graph that hold the last carry."""
    line: SourceLine
    """The user's line of which the trace made the step."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the loop reads."""
        return (*self.carry, *self.captured)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The condition and the body, which are the subgraphs of the step."""
        return (self.condition, self.body)

    def __str__(self) -> str:
        return (
            f"while, carry ({_format_values(self.carry)}), with ({_format_values(self.captured)})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """A step made of several steps that a device runs as one; passes in `plugrad.passes.fusion` create it."""

    body: Graph
    """The graph of the fused steps, whose values have the same numbers as outside.

    Its arguments are the step's inputs, and its results the step's outputs.
    """
    line: SourceLine
    """The user's line of which the trace made the step."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the fused steps read but do not compute."""
        return self.body.arguments

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the fused steps compute and other steps read."""
        return self.body.results

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The body, which is the only subgraph of the step."""
        return (self.body,)

    def __str__(self) -> str:
        return f"{len(self.body.steps)} steps as one, of ({_format_values(self.inputs)})"


Step: TypeAlias = Call | HostValue | Scan | Cond | While | Fused
"""A step of a graph."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A traced function: the steps that it runs on one device."""

    backend: Backend
    """The device for which the function was traced."""
    specs: Mapping[Value, Shaped]
    """The shape and dtype of each value."""
    arguments: tuple[Value, ...]
    """The values of the function's arguments."""
    steps: tuple[Step, ...]
    """The steps in the order in which they run."""
    results: tuple[Value, ...]
    """The values that the function returns."""
    constants: Mapping[Value, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The arrays that the function closes over, by value."""
    variables: Mapping[Value, Variable] = field(default_factory=lambda: MappingProxyType({}))
    """The variables that are read, by the value that they have when a call begins."""
    updates: tuple[tuple[Variable, Value], ...] = ()
    """The variables that the function assigns, each with its value after a call that succeeds."""
    peak_bytes: int | None = None
    """The most bytes that the values computed by the steps need at one time, if this was planned; see `make_graph`."""

    def __str__(self) -> str:
        lines = [*_format_lines(self, f"graph on {self.backend.label}", "return", "")]
        if self.peak_bytes is not None:
            lines.append(f"planned peak: {self.peak_bytes:,} bytes")
        return "\n".join(lines)


def _format_lines(graph: Graph, title: str, end_keyword: str, indent: str) -> Iterator[str]:
    """Yield the lines of a graph's text, from the title to the results after `end_keyword`, with indented subgraphs."""
    specs = graph.specs
    arguments = ", ".join(f"%{value}: {format_spec(specs[value])}" for value in graph.arguments)
    yield f"{indent}{title} ({arguments})"
    inner = f"{indent}  "
    for value in graph.constants:
        text = format_constant(graph, value)
        yield f"{inner}%{value} = constant {f'{text}  ' if text else ''}{format_spec(specs[value])}"
    for value, variable in graph.variables.items():
        name = f" {variable.name!r}" if variable.name else ""
        yield f"{inner}%{value} = variable{name} {format_spec(specs[value])}"
    for step in graph.steps:
        found = _shorten_list([format_spec(specs[value]) for value in step.outputs])
        yield f"{inner}{_format_values(step.outputs)} = {step}  {found}"
        for body in step.graphs:
            yield from _format_lines(body, "do", "give", f"{inner}  ")
    for variable, value in graph.updates:
        yield f"{inner}{variable.name or 'variable'!r} becomes %{value}"
    results = ", ".join(f"%{value}" for value in graph.results)
    yield f"{indent}{end_keyword} {results}"


def format_spec(spec: Shaped) -> str:
    """Return a shape and dtype as text, such as ``float32[2, 3]``."""
    return f"{spec.dtype}{list(spec.shape)}"


def format_constant(graph: Graph, value: Value) -> str:
    """Return the text of a scalar constant, or an empty string for a larger one."""
    shape = graph.specs[value].shape
    if prod(shape) != 1:
        return ""
    return short_repr(graph.backend.to_numpy(graph.constants[value]).reshape(-1).tolist()[0])


def _format_values(values: Iterable[Value | None]) -> str:
    """Return a list of values as text, such as ``%1, %2``; an absent one is an underscore."""
    return _shorten_list(["_" if value is None else f"%{value}" for value in values])


def _shorten_list(texts: Sequence[str]) -> str:
    """Join texts to one line, with the middle left out if it is long."""
    if len(texts) <= MAX_LISTED_VALUES:
        return ", ".join(texts)
    return f"{', '.join(texts[:3])}, … {len(texts) - 4} more …, {texts[-1]}"
