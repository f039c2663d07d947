"""In-place optimizer steps, which overwrite the variables after everything else in a call has succeeded."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plugrad.extend import Call, Graph, InPlacePlan, count_elements
from plugrad.kernels import optimizers
from plugrad_cpu.extend import owns_memory
from plugrad_native.programs.lowering import lower_call
from plugrad_native.programs.table import Location, ProgramTable
from plugrad_native.programs.writer import ProgramWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Value

    GraphFunction = Callable[..., list[Any]]
    """The type of a function of arrays that runs a graph, and returns the arrays of its results."""
    GraphCompiler = Callable[[Graph], GraphFunction]
    """The type of a function that compiles a graph."""


class CompiledGraphWithUpdates:
    """A compiled graph that can update variables in place, if `plugrad.jit` chooses so."""

    def __init__(self, graph: Graph, in_place: InPlacePlan, compile_graph: GraphCompiler) -> None:
        """Keep the compiler of the whole graph, for calls that are watched or recorded on a tape."""
        self.in_place = in_place
        self._whole = graph
        self._compile = compile_graph

    @cached_property
    def run_out_of_place(self) -> GraphFunction:
        """The function that runs the whole graph without in-place updates."""
        return self._compile(self._whole)

    @property
    def graph(self) -> Graph:
        """The graph as it runs, with the peak memory of in-place updates."""
        graph: Graph = getattr(self.run_out_of_place, "graph", self._whole)
        begun: Graph | None = getattr(self.in_place.begin, "graph", None)
        return graph if begun is None else replace(graph, peak_bytes=begun.peak_bytes)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return results and updates, which are new arrays."""
        return self.run_out_of_place(*arrays)


def plan_updates(
    graph: Graph, is_included: Callable[[Call], bool], compile_graph: GraphCompiler
) -> InPlacePlan | None:
    """Return a plan that updates variables in place by a graph's optimizer steps, or None if there are none.

    C must run the included steps, in one thread. `compile_graph` compiles what remains.
    """
    steps = _find_optimizer_steps(graph, is_included)
    if not steps:
        return None
    targets = [x for step in steps for x in _find_update_targets(step)]
    outputs = [y for step in steps for y in step.outputs]
    operands = [*dict.fromkeys(x for s in steps for x in s.inputs if x is not None)]
    operands = [x for x in operands if x not in targets]
    left = replace(
        graph,
        steps=tuple([step for step in graph.steps if step not in steps]),
        results=(*graph.results, *operands),
        updates=tuple([(variable, v) for variable, v in graph.updates if v not in outputs]),
    )
    last = Graph(graph.backend, graph.specs, (*operands, *targets), tuple(steps), tuple(outputs))
    inputs = [*graph.arguments, *graph.variables]
    return InPlacePlan(
        left,
        compile_graph(left),
        _compile_optimizer_steps(last, operands, targets),
        _LazyProgram(last, compile_graph),
        tuple([graph.variables[x] for x in targets]),
        tuple([inputs.index(x) for x in targets]),
        owns_memory,
    )


class _LazyProgram:
    """A graph compiled on first use."""

    def __init__(self, graph: Graph, compile_graph: GraphCompiler) -> None:
        self._graph, self._compile = graph, compile_graph

    @cached_property
    def _run(self) -> GraphFunction:
        """The compiled function of the graph."""
        return self._compile(self._graph)

    def __call__(self, *arrays: Any) -> list[Any]:
        return self._run(*arrays)


def _find_update_targets(step: Call) -> list[Value]:
    """Return the inputs of an optimizer step that its outputs replace: variables and slots."""
    _, *tensors = step.inputs
    count = len(tensors) // optimizers.LIST_COUNT_OF_KERNEL[step.kernel]
    return [x for x in (*tensors[:count], *tensors[2 * count :]) if x is not None]


def _find_optimizer_steps(graph: Graph, is_included: Callable[[Call], bool]) -> list[Call]:
    """Return the optimizer steps whose outputs only replace the variables that they read."""
    read = {v for step in graph.steps for v in step.inputs} | {*graph.results}
    updated = [value for _, value in graph.updates]
    owners = {value: variable for variable, value in graph.updates if updated.count(value) == 1}
    found: list[Call] = []
    for step in graph.steps:
        if not isinstance(step, Call) or step.kernel not in optimizers.LIST_COUNT_OF_KERNEL:
            continue
        if not is_included(step) or lower_call(step, graph.specs) is None:
            continue
        pairs = [*zip(_find_update_targets(step), step.outputs, strict=True)]
        inputs = [*step.inputs]
        if all(
            y not in read
            and y in owners
            and graph.variables.get(x) is owners[y]
            and inputs.count(x) == 1
            for x, y in pairs
        ):
            found.append(step)
    return found


def _compile_optimizer_steps(
    optimizer_graph: Graph, operands: list[Value], targets: list[Value]
) -> Callable[..., None]:
    """Return the program of optimizer steps, a function of operands and then of targets, which it overwrites."""
    sizes = {
        v: count_elements(s.shape) * s.dtype.itemsize for v, s in optimizer_graph.specs.items()
    }
    places = {v: Location(1 + i, 0, sizes[v]) for i, v in enumerate((*operands, *targets))}
    places |= {y: places[x] for x, y in zip(targets, optimizer_graph.results, strict=True)}
    table = ProgramTable([sizes[v] for v in operands], [sizes[v] for v in targets])
    writer = ProgramWriter(table, optimizer_graph.specs, places, 0, {})
    for step in optimizer_graph.steps:
        assert isinstance(step, Call)
        writer.write_calls(lower_call(step, optimizer_graph.specs) or ())
    return table.make_function(is_indivisible=True)
