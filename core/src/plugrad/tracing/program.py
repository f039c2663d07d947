"""A traced function: its graph, the function that runs it, and the gradient of a call."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from plugrad.discovery.selection import activate_backend
from plugrad.errors import TracingError
from plugrad.ops.creation import zeros_like
from plugrad.ops.streams import keep_positions
from plugrad.passes.dead import has_effect
from plugrad.passes.hosts import return_host_values
from plugrad.passes.memory import plan_memory
from plugrad.passes.simplify import simplify_graph
from plugrad.tape.nodes import (
    CustomNode,
    InputGradients,
    Leaf,
    Node,
    OutputNode,
    Recording,
    ResultBundle,
)
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.backend import check_device_alive
from plugrad.tensor.context import (
    active_scope,
    set_scope,
    set_transfer_target,
    transfer_target,
)
from plugrad.tensor.effects import run_with_host_log
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import iter_tensors
from plugrad.tracing.backend import GraphTracer
from plugrad.tracing.compiled import CompiledGraph, compile_graph
from plugrad.tracing.in_place import run_in_place
from plugrad.tracing.leaks import check_leaks
from plugrad.tracing.structure import ResultRebuilder
from plugrad.transforms.variable import (
    Variable,
    get_array,
    keep_first_arrays,
    replace_arrays,
    watched_variables,
)
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from plugrad.graph.graph import Graph
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.effects import HostLog


@contextmanager
def trace_with(tracer: GraphTracer) -> Generator[None, None, None]:
    """Record all ops within the block on a tracer, and nothing on outer tapes."""
    scope, transfer = active_scope(), transfer_target()
    watched = watched_variables.set(None)
    set_scope(None)
    set_transfer_target(tracer)
    try:
        with activate_backend(tracer):
            yield
    finally:
        set_scope(scope)
        set_transfer_target(transfer)
        watched_variables.reset(watched)


class Program:
    """A function of tensors, traced for their shapes and dtypes on one device."""

    allows_compiled_entry = True
    """Whether a call does nothing more than run the graph."""

    def __init__(
        self,
        name: str,
        function: Callable[[list[Tensor]], Any],
        tensors: Sequence[Tensor],
        backend: Backend,
        *,
        may_move: bool = False,
        keeps_stop_gradients: bool = False,
    ) -> None:
        """Trace the function; with `keeps_stop_gradients`, the graph says where no gradient flows.

        Raises:
            TracingError: the function reads values, or what it does cannot be recorded.
            OtherDevice: with `may_move`, it uses tensors on another device.
        """
        self.name = name
        self.function = function
        self.backend = backend
        tracer = GraphTracer(
            backend,
            [x.array for x in tensors],
            may_move=may_move,
            keeps_stop_gradients=keeps_stop_gradients,
        )
        self.graph, self.rebuild = _trace(name, function, tensors, tracer)
        self.guards = tracer.guards
        self.graph = simplify_graph(self.graph)
        check_leaks(tracer, self.graph, name)
        self.variables = list(self.graph.variables.values())
        self.updated = [v for v, _ in self.graph.updates]
        self.has_effects = any(map(has_effect, self.graph.steps))
        self.has_state = self.has_effects or bool(self.variables or self.updated)
        """Whether a call reads or changes more than its arguments."""
        self.run = compile_graph(self.graph)
        self.entry: Callable[[tuple[Any, ...]], Any] | None = None
        """A short way into the program; see `plugrad.tracing.entry`."""
        self.gradients: dict[Any, Program] = {}
        """The programs of the backward pass, by which inputs and outputs take part."""

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """Run the program on tensors, and return the traced function's results.

        Raises:
            DisposedTensor, DeviceLost: the device is closed or lost, or a tensor is disposed.
        """
        backend = self.backend
        if backend.is_closed or backend.lost:
            check_device_alive(backend, self.name)
        is_recorded = watched_variables.get() is not None
        arrays: list[Any] = []
        for x in tensors:
            arrays.append(x.array)
            if x.node is not None:
                is_recorded = True
        if is_recorded:
            nodes = [*[x.node for x in tensors], *[v.node for v in self.variables]]
            if any(nodes):
                return self._call_on_tape(tensors, nodes)
        outputs = (self.run_with_variables if self.has_state else self.run)(*arrays)
        result = self.rebuild(outputs, backend)
        scope = active_scope()
        if scope is not None:
            for x in iter_tensors(result):
                scope.track(x)
        return result

    def run_with_variables(self, *arrays: Any) -> list[Any]:
        """Run the graph on arrays and on the variables, and update these."""
        return self._execute(self.run, [*arrays, *self._read_variables()])

    def _read_variables(self) -> list[Any]:
        """Return the variables' arrays; no other reference may exist, because `run_in_place` counts them."""
        try:
            return [*map(get_array, self.variables)]
        except AttributeError:  # one is disposed
            return [*map(get_variable_array, self.variables)]

    def planned_graph(self) -> Graph:
        """Return the graph as the device runs it, with fused steps and the planned peak memory."""
        graph: Graph = getattr(self.run, "fused", self.graph)
        if graph.peak_bytes is not None:
            return graph  # by the compiler, which knows what else it takes
        in_place = self.run.in_place if isinstance(self.run, CompiledGraph) else None
        planned = self.graph if in_place is None else in_place.graph
        is_replayed = graph is self.graph
        plan = plan_memory(planned, in_place=not is_replayed)
        return replace(graph, peak_bytes=plan.peak_bytes)

    def is_valid(self) -> bool:
        """Return whether the conditions under which the function was traced still hold."""
        return all(function() == answer for function, answer in self.guards)

    def _execute(self, run_graph: Callable[..., list[Any]], arrays: Sequence[Any]) -> list[Any]:
        """Run the graph and update the variables; a run that fails changes nothing."""
        if not self.has_effects:
            return self._run_and_commit(run_graph, arrays, None)
        return run_with_host_log(partial(self._run_and_commit, run_graph, arrays))

    def _run_and_commit(
        self, run_graph: Callable[..., list[Any]], arrays: Sequence[Any], host_log: HostLog | None
    ) -> list[Any]:
        """Run the graph, then set the variables and advance the random streams: all of them, or none."""
        if self.updated:
            keep_first_arrays(self.updated)
        in_place = run_graph.in_place if isinstance(run_graph, CompiledGraph) else None
        if in_place is not None and (host_log is None or host_log.outer is None):
            return run_in_place(in_place, arrays, len(self.graph.results), host_log)
        outputs = run_graph(*arrays)
        if host_log or self.updated:
            start = len(self.graph.results)
            replace_arrays(self.updated, outputs[start : start + len(self.updated)], host_log)
        return outputs

    # --- the gradient of a call ------------------------------------------------------------------

    def _call_on_tape(self, tensors: Sequence[Tensor], input_nodes: Sequence[Node | None]) -> Any:
        """Run the program as one step of the tape."""
        values = [*[x.array for x in tensors], *map(get_variable_array, self.variables)]
        outputs = self._execute(self._run_with_host_values, values)
        end = len(self.graph.results) + len(self.updated)
        result = self.rebuild(outputs, self.backend)
        step = ProgramNode(self, input_nodes, [*values, *outputs[end:]])
        for index, x in enumerate(iter_tensors(result)):
            if x.dtype.is_inexact:
                x.node = OutputNode(step, index)
        return result

    @cached_property
    def _run_with_host_values(self) -> Callable[..., list[Any]]:
        """A function that runs the graph and returns its results and the host values that a backward pass needs."""
        graph = self.graph
        results = (*graph.results, *[value for _, value in graph.updates])
        return compile_graph(return_host_values(replace(graph, results=results, updates=())))

    def backward(
        self, needs_input_grad: tuple[bool, ...], has_result_grad: tuple[bool, ...]
    ) -> Callable[[list[Tensor]], Any]:
        """Return a function that computes the gradients of a call.

        It takes the arguments, the values of the variables, the host values, and the gradients of those results for
        which `has_result_grad` is true. It returns the gradients of those arguments and variables for which
        `needs_input_grad` is true. It calls the function again, so that it can be traced and differentiated like any
        other.
        """

        def compute_call_gradients(tensors: list[Tensor]) -> list[Tensor]:
            tracer = current_tracer()
            assert isinstance(tracer, GraphTracer)
            places = iter(tensors)
            leaves: list[Leaf] = []
            inputs: list[Tensor] = []
            for is_wanted in needs_input_grad:
                x = next(places)
                if is_wanted:
                    leaf = Leaf((x.node,))
                    leaves.append(leaf)
                    x = Tensor(x.array, x.backend, leaf)
                inputs.append(x)
            count = len(needs_input_grad) - len(self.variables)
            hosts = [
                next(places)
                for _ in range(len(tensors) - len(needs_input_grad) - sum(has_result_grad))
            ]
            held = zip(self.variables, inputs[count:], strict=True)
            hosts_outside = tracer.bound_hosts
            with tracer.bind_values(dict(held), hosts):
                with Recording(leaves):
                    results = [*iter_tensors(self.function(inputs[:count]))]
                tracer.bound_hosts = hosts_outside  # what runs again has host values of its own
                ends = [
                    x.node for x, is_given in zip(results, has_result_grad, strict=True) if is_given
                ]
                found = BackwardPass(ResultBundle(tuple(ends)), leaves).run(list(places))
            differentiated = [
                x for x, is_wanted in zip(inputs, needs_input_grad, strict=True) if is_wanted
            ]
            return [
                zeros_like(Tensor(x.array, x.backend)) if g is None else g
                for x, g in zip(differentiated, found, strict=True)
            ]

        return compute_call_gradients


class ProgramNode(CustomNode):
    """A call of a program on the tape."""

    __slots__ = ("arrays", "program")

    def __init__(self, program: Program, nodes: Sequence[Node | None], arrays: list[Any]) -> None:
        """Keep the arguments, the values of the variables and the host values of a call."""
        super().__init__(tuple(nodes))
        self.program = program
        self.arrays = arrays

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Run the compiled backward pass, and return the gradients of the inputs."""
        program, backend = self.program, self.program.backend
        tracer = current_tracer()
        if tracer is not None and tracer.outer is not None:
            raise TracingError(
                f"vmap: {program.name} is under jit, and its gradient is computed for many examples at once; put jit "
                "around the call of vmap instead"
            )
        parents = self.parents
        tensors = [
            Tensor(array, backend, parents[i] if create_graph and i < len(parents) else None)
            for i, array in enumerate(self.arrays)
        ]
        chosen = tuple(
            [
                parent is not None
                and (needs_input_grad is None or needs_input_grad[i])
                and tensors[i].dtype.is_inexact
                for i, parent in enumerate(parents)
            ]
        )
        given = tuple([index in dy for index in range(len(program.graph.results))])
        tensors += [dy[index] for index in sorted(dy)]
        key = chosen, given
        backward = program.gradients.get(key)
        if backward is None:
            function = program.backward(chosen, given)
            backward = Program(f"the gradient of {program.name}", function, tensors, backend)
            program.gradients[key] = backward
        positions = [i for i, is_chosen in enumerate(chosen) if is_chosen]
        return list(zip(positions, backward(tensors), strict=True))


def get_variable_array(variable: Variable) -> Any:
    """Return the array of a variable.

    Raises:
        DisposedTensor: the variable is disposed.
    """
    try:
        return get_array(variable)
    except AttributeError:
        return variable.array  # which says so


def _trace(
    function_name: str,
    function: Callable[[list[Tensor]], Any],
    tensors: Sequence[Tensor],
    tracer: GraphTracer,
) -> tuple[Graph, Callable[[Any, Any], Any]]:
    """Return the graph of a function, and a function that rebuilds its results from arrays."""
    arguments = [tracer.new_value(Shaped(x.shape, x.dtype)) for x in tensors]
    stand_ins = [Tensor(array, tracer) for array in arguments]
    rebuilder = ResultRebuilder()
    with trace_with(tracer), keep_positions():
        text = rebuilder.expression(function(stand_ins))
        values = [tracer.value_of(x) for x in rebuilder.results]
    for position, (x, array) in enumerate(zip(stand_ins, arguments, strict=True)):
        if x.array is not array:
            raise TracingError(
                f"jit: {function_name} assigns to elements of an argument, tensor number {position} of shape "
                f"{array.shape}, which the tensor of the caller would not show; return the new value instead"
            )
    graph = tracer.finish([x.value for x in arguments], values)
    return graph, rebuilder.compile(text)
