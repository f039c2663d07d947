"""The graph of a traced function: immutable records of its values and steps.

A *value* is a number, which stands for an array of a known shape and dtype. A graph says where each value comes from:
an argument, a constant, a variable as it is when a call begins, or a step. Steps run in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend
    from plugrad.transforms.variable import Variable
    from plugrad.types.specs import Shaped

Value: TypeAlias = int


class Line(NamedTuple):
    """The line of the program that made a step."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}, in {self.function}"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The call of a kernel."""

    kernel: Kernel[..., Any]
    inputs: tuple[Value | None, ...]
    """The values of the inputs; None is an optional one that is absent."""
    attrs: Mapping[str, Any]
    outputs: tuple[Value, ...]
    returns_list: bool
    """Whether the kernel has several outputs, even if their number is one."""
    line: Line

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside the step: none."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class HostValue:
    """A value that a function on the host computes anew each time; see `plugrad.extend.host_value`."""

    function: Callable[[], Any]
    outputs: tuple[Value]
    line: Line

    @property
    def inputs(self) -> tuple[()]:
        """The values that the step reads: none."""
        return ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside the step: none."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A loop: a graph that runs once for each slice of some values, and hands its carry on to the next time.

    The arguments of the body are the carry, then the slices, then the captured values. Its results are the next carry,
    then what is stacked.
    """

    body: Graph
    length: int
    carry: tuple[Value, ...]
    """What the carry is at first."""
    slices: tuple[Value, ...]
    """The values whose slices along the first axis the body gets one by one."""
    captured: tuple[Value, ...]
    """The values that the body gets whole each time."""
    outputs: tuple[Value, ...]
    """The last carry, then the stacked results."""
    is_reversed: bool
    """Whether the last slice comes first; results are stacked in the order of the slices all the same."""
    line: Line

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the loop reads."""
        return (*self.carry, *self.slices, *self.captured)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside the step."""
        return (self.body,)


@dataclass(frozen=True, slots=True, eq=False)
class Cond:
    """A choice: the graph that runs depends on a flag."""

    flag: Value
    branches: tuple[Graph, Graph]
    """What runs if the flag is true, and if not. Both take the operands, and their results have the same specs."""
    operands: tuple[Value, ...]
    outputs: tuple[Value, ...]
    line: Line

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the choice reads."""
        return (self.flag, *self.operands)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside the step."""
        return self.branches


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """A loop that runs while a graph says so: both graphs take the carry and then the captured values."""

    condition: Graph
    body: Graph
    carry: tuple[Value, ...]
    captured: tuple[Value, ...]
    outputs: tuple[Value, ...]
    line: Line

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the loop reads."""
        return (*self.carry, *self.captured)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside the step."""
        return (self.condition, self.body)


Step: TypeAlias = Call | HostValue | Scan | Cond | While


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """What a function does on one device."""

    backend: Backend
    """The device for which the function was traced."""
    specs: Mapping[Value, Shaped]
    """The shape and dtype of each value."""
    arguments: tuple[Value, ...]
    steps: tuple[Step, ...]
    results: tuple[Value, ...]
    constants: Mapping[Value, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Arrays that the function has closed over."""
    variables: Mapping[Value, Variable] = field(default_factory=lambda: MappingProxyType({}))
    """The variables that are read, by the value that they have when a call begins."""
    updates: tuple[tuple[Variable, Value], ...] = ()
    """What variables become after a call that succeeds."""

    def __str__(self) -> str:
        from plugrad.graph.text import format_graph

        return format_graph(self)
