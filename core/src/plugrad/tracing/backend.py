"""The tracing backend: its arrays have a shape and a dtype, and calling a kernel adds a step to a graph."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

from plugrad.contract.kernel import get_contract
from plugrad.engine.composites import composite_implementation
from plugrad.errors import BackendMismatch, TracingError
from plugrad.graph.graph import Call, Graph, HostValue, Step
from plugrad.kernels.unary import identity
from plugrad.passes.dead import has_effect, remove_dead_steps
from plugrad.registry.composites import find_composite
from plugrad.registry.kernels import list_implementations
from plugrad.tape.nodes import next_node_order
from plugrad.tensor.backend import Backend, Memory, Probe, check_device_alive
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer
from plugrad.tracing.lines import find_called_operation, find_user_line
from plugrad.tracing.replay import compile_replay
from plugrad.transforms.variable import Variable, get_array, get_backend, watched_variables
from plugrad.types.dtype import DType, as_dtype
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.tensor.backend import Implementation, KernelConfig, KernelTables
    from plugrad.types.specs import Shape


class TracedArray:
    """A value of a graph, used where an engine expects a backend's array."""

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, value: int, spec: Shaped) -> None:
        """Represent a value of the graph by its number."""
        self.value: int = value
        self.shape: Shape = spec.shape
        self.dtype: DType = spec.dtype

    def __repr__(self) -> str:
        return f"<traced {self.dtype}{list(self.shape)}>"


class OtherDeviceUsed(Exception):
    """Raised when a function without tensor arguments first uses a tensor of another device."""

    def __init__(self, backend: Backend) -> None:
        """Name the device."""
        self.backend: Backend = backend


class GraphTracer(Tracer):
    """Records the kernel calls of one function for one device, the *target*, as a graph."""

    def __init__(
        self,
        target: Backend,
        arguments: Sequence[Any] = (),
        *,
        may_move: bool = False,
        keeps_stop_gradients: bool = False,
    ) -> None:
        """Begin an empty graph.

        With `may_move`, a tensor from outside on another device raises `OtherDeviceUsed`; with `keeps_stop_gradients`,
        the graph says where no gradient flows.
        """
        self.target = target
        self.name = target.name  # pyright: ignore[reportAttributeAccessIssue] - for others it is that of the class
        self.device = target.device
        self.distribution = target.distribution
        self.options = target.options
        self.functions = RecordingFunctions(self)
        self.constants = {}
        self.first_arguments: Sequence[Any] = arguments
        """The arrays of the call for which the function is traced, by value."""
        self.may_move: bool = may_move
        self.keeps_stop_gradients: bool = keeps_stop_gradients
        self.first_node_order: int = next_node_order()
        """Nodes of the tape that are older are not part of the trace."""
        self.specs: dict[int, Shaped] = {}
        self.steps: list[Step] = []
        self.traced_arrays: list[TracedArray] = []
        self.fixed: dict[int, Any] = {}
        """The constants of the graph by value."""
        self._fixed_by_identity: dict[int, TracedArray] = {}
        self.variables: dict[int, Variable] = {}
        """The variables by the value that they have when a call begins."""
        self.held: dict[Variable, TracedArray] = {}
        """What the variables hold at this point of the trace."""
        self.assigned: dict[Variable, None] = {}
        self.made: list[ref[Variable]] = []
        """The variables that the function has made."""
        self.bodies: list[GraphTracer] = []
        """The tracers of the loops and branches in it."""
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        """Functions, and what they returned: the trace holds as long as they return the same."""
        self.planned_steps: Counter[int] = Counter()
        self.bound_hosts: Iterator[Tensor] | None = None
        """What host values are while the function of another program is traced as part of this one."""

    # --- values ----------------------------------------------------------------------------------

    def new_value(self, spec: Shaped) -> TracedArray:
        """Return an array for a new value of the graph."""
        array = TracedArray(len(self.specs), spec)
        self.specs[array.value] = spec
        self.traced_arrays.append(array)
        return array

    def constant(self, array: Any) -> TracedArray:
        """Return the graph's value for an array of the target; the same array gives the same value."""
        known = self._fixed_by_identity.get(id(array))
        if known is None:
            known = self.new_value(Shaped(tuple(array.shape), as_dtype(array.dtype)))
            self._fixed_by_identity[id(array)] = known
            self.fixed[known.value] = (
                array  # which keeps it alive, so that no other one gets its identity
            )
        return known

    def value_of(self, x: Tensor) -> int:
        """Return the number of a tensor's value in the graph; a tensor from outside the trace becomes a constant."""
        return (x if x.backend is self else self.lift(x)).array.value

    def finish(self, arguments: Sequence[int], results: Sequence[int]) -> Graph:
        """Return the recorded graph with the given values as arguments and results, and stop recording."""
        return Graph(
            self.target,
            self.specs,
            tuple(arguments),
            tuple(self.steps),
            tuple(results),
            self.fixed,
            self.variables,
            tuple([(v, self.held[v].value) for v in self.assigned]),
        )

    def release(self) -> None:
        """Drop the arrays to which only the tracer itself refers."""
        self.functions.clear()
        self.constants.clear()
        self.held.clear()
        self.assigned.clear()
        self.variables = {}  # the graph may have the one before
        for body in self.bodies:
            body.release()
        self._fixed_by_identity.clear()

    def depend_on(self, function: Callable[[], Any]) -> None:
        """Record that the trace is valid only as long as the function's result is equal to its result now."""
        self.guards.append((function, function()))

    def without_tape(self, array: Any) -> Any:
        """Return an array of equal values without gradient: the output of a step that stops it, or the array itself."""
        if not self.keeps_stop_gradients or not isinstance(array, TracedArray):
            return array  # which strings are not
        output = self.new_value(self.specs[array.value])
        inputs, outputs = (array.value,), (output.value,)
        self.steps.append(
            Call(identity, inputs, {}, outputs, False, find_user_line(), stops_gradient=True)
        )
        return output

    # --- what a traced function closes over ------------------------------------------------------

    def lift(self, x: Tensor) -> Tensor:
        """Return a constant of the trace for a tensor from outside."""
        array = x.array  # raises if the tensor has been disposed
        if x.backend is not self.target:
            self._check_origin(x)
        if x.node is not None and x.node.order < self.first_node_order:
            raise TracingError(
                f"the function that is being traced closes over a tensor of shape {x.shape} that is being "
                f"differentiated outside of it, at {find_user_line()}; pass it as an argument"
            )
        return Tensor(self.constant(array), self, x.node)

    def _check_origin(self, x: Tensor) -> None:
        """Raise unless a tensor has values and is on the target.

        Raises:
            TracingError: it is one of another trace.
            OtherDevice, BackendMismatch, DisposedTensor, DeviceLost: see `check_device`.
        """
        backend = x.backend
        if isinstance(backend, Tracer) and backend.outer is not None:
            raise TracingError(
                f"a tensor of shape {x.shape} under vmap meets a loop or a choice that was traced outside of it; put "
                "the loop or the choice into the function under vmap, too"
            )
        if isinstance(backend, GraphTracer):
            raise TracingError(
                f"a tensor of shape {x.shape} was made while another function was traced, and has no values; return "
                "it from that function instead of keeping it"
            )
        self.check_device(backend)

    def check_device(self, backend: Backend) -> None:
        """Raise unless a tensor's backend is the target.

        Raises:
            OtherDevice: the trace may begin again on that device.
            BackendMismatch: it may not.
            DisposedTensor, DeviceLost: the backend is closed, or its device lost.
        """
        if backend is self.target:
            return
        check_device_alive(backend, "jit")
        if self.may_move and not self.steps:
            raise OtherDeviceUsed(backend)
        raise BackendMismatch(
            f"jit: the function runs on {self.target.label}, and uses a tensor on {backend.label} that is not among "
            "its arguments; copy it first, as in x.to(…)"
        )

    def read_variable(self, variable: Tensor) -> Any:
        """Return the traced value of a variable; the first read adds the variable to the graph."""
        held = self.held.get(variable)  # pyright: ignore[reportArgumentType] - only variables ask
        if held is None:
            assert isinstance(variable, Variable)
            self.check_device(get_backend(variable))
            array = get_array(variable)
            held = self.new_value(Shaped(tuple(array.shape), as_dtype(array.dtype)))
            self.held[variable] = held
            self.variables[held.value] = variable
        return held

    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Record a variable's new value."""
        assert isinstance(variable, Variable)
        self.held[variable] = array
        self.assigned[variable] = None

    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Return the concrete value of a tensor in the call that is being traced.

        The host values that it needs are taken out of the graph: later calls do not compute them.
        """
        assert isinstance(variable, Variable)
        graph = self.finish(range(len(self.first_arguments)), [self.value_of(x)])
        graph = remove_dead_steps(replace(graph, updates=()), keeps_effects=False)
        self.steps[:] = [s for s in self.steps if not has_effect(s) or s not in graph.steps]
        variables = map(get_array, graph.variables.values())
        (array,) = compile_replay(graph)(*self.first_arguments, *variables)
        self.made.append(ref(variable))
        return Tensor(array, self.target)

    @contextmanager
    def bind_values(
        self, variables: Mapping[Variable, Tensor], host_values: Sequence[Tensor]
    ) -> Generator[None, None, None]:
        """Bind variables to traced tensors, and the next host values to given tensors, within a block.

        What is assigned inside is lost.
        """
        before = self.held, self.assigned, self.bound_hosts
        self.held = {v: x.array for v, x in variables.items()}
        self.assigned, self.bound_hosts = {}, iter(host_values)
        watched = {v: x.node for v, x in variables.items() if x.node is not None}
        token = watched_variables.set({**(watched_variables.get() or {}), **watched})
        try:
            yield
        finally:
            watched_variables.reset(token)
            self.held, self.assigned, self.bound_hosts = before

    @property
    def bound_tensors(self) -> list[Any]:
        """The traced tensors bound to captured tensors and variables, in this tracer and the enclosing ones."""
        return [{**self.held}]  # as they are now: what runs again must not see later assignments

    @bound_tensors.setter
    def bound_tensors(self, bound_tensors: list[Any]) -> None:
        self.held = bound_tensors[0]

    def resolve_traced_backend(self, backend: Backend) -> Backend:
        """Return the tracer if `backend` is its target."""
        if backend in (self, self.target):
            return self
        raise TracingError(
            f"jit: the function that is being traced runs on {self.target.label}, and asks for {backend.label}, at "
            f"{find_user_line()}; compute there outside of it"
        )

    def next_bound_host_value(self) -> Tensor | None:
        """Return the tensor bound to the next host value, or None if the value is computed anew."""
        return None if self.bound_hosts is None else next(self.bound_hosts)

    def host_value(self, function: Callable[[], Any], shape: Shape, dtype: DType) -> Any:
        """Record a host function that is called in each run of the graph."""
        bound = self.next_bound_host_value()
        if bound is not None:
            return bound.array
        output = self.new_value(Shaped(shape, dtype))
        self.steps.append(HostValue(function, (output.value,), find_user_line()))
        return output

    # --- what it shows of the target -------------------------------------------------------------

    @property
    def kernels(self) -> KernelTables:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The target's kernels."""
        return self.target.kernels

    def dtypes(self) -> frozenset[DType]:
        """Return the target's dtypes."""
        return self.target.dtypes()

    def probe(self) -> Probe:
        """Return a success, because a tracer can always start."""
        return Probe(ok=True)

    def open(self, device: str) -> Iterable[KernelConfig]:
        """Return no kernels, because a tracer needs no opening."""
        return ()

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return an array of the target with the same values, as a constant of the graph."""
        return self.constant(self.target.from_numpy(array))

    def to_numpy(self, array: Any) -> NoReturn:
        """Raise, because traced arrays have no values.

        Raises:
            TracingError: always.
        """
        asked = find_called_operation()
        what = PHRASE_OF_READING_METHOD.get(asked, f"{asked}()")
        raise TracingError(
            f"{what} needs the values of a tensor of shape {array.shape} and dtype {array.dtype}, which is being "
            f"traced and has none, at {find_user_line()}. {REMEDY_OF_METHOD.get(asked, DEFAULT_REMEDY)}"
        )

    def synchronize(self) -> None:
        """Do nothing, because no work has been submitted."""

    def memory(self) -> Memory:
        """Return the target's memory."""
        return self.target.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Set the target's memory limit."""
        self.target.set_memory_limit(limit)

    def close(self) -> None:
        """Do nothing; the target stays open."""


PHRASE_OF_READING_METHOD = {
    "__bool__": "`if`, `while`, `and`, `or` or bool()",
    "__repr__": "Printing",
    "__format__": "Printing",
}
"""How an error describes the call of a method that reads a tensor's values, by method name."""
CONTROL_FLOW_REMEDY = (
    "Choose with plugrad.where(condition, a, b) or plugrad.cond(flag, f, g, *args), loop with plugrad.scan or "
    "plugrad.while_loop, or pass what decides as an argument that is not a tensor"
)
"""The remedy in errors for code that branches or loops on traced values."""
DEFAULT_REMEDY = "Return the tensor and read it after the call, or compute with plugrad's functions"
"""The remedy in the error of a method that is not in `REMEDY_OF_METHOD`."""
REMEDY_OF_METHOD = {
    "__bool__": CONTROL_FLOW_REMEDY,
    "__index__": "Index with the tensor itself, as in plugrad.take(x, i), or pass a Python integer, which is static",
    "__repr__": "Return the tensor and print it after the call",
    "__format__": "Return the tensor and print it after the call",
}
"""What the error of a method that reads a traced tensor's values advises, by method name."""


class RecordingFunctions(dict[str, "Implementation"]):
    """The functions by kernel name that the engine calls for a tracer; each records a step."""

    def __init__(self, tracer: GraphTracer) -> None:
        """Start empty."""
        super().__init__()
        self._tracer = ref(tracer)  # no cycle: what a dropped program holds is freed at once

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that records the calls of a kernel.

        Raises:
            TracingError: the outputs' shapes are not known before the kernel has run.
        """
        tracer = self._tracer()
        assert tracer is not None  # whose functions these are
        contract = get_contract(kernel_name)
        if contract is None:
            raise TracingError(
                f"kernel {kernel_name!r} has no contract, so that the shape of its result is known only after it has "
                "run; declare one with plugrad.extend.kernel, or call it outside the traced function, at "
                f"{find_user_line()}"
            )
        if contract.dynamic_shape:
            raise TracingError(
                f"the shape of the result of {kernel_name} depends on values, which a tensor that is being traced "
                f"does not have, at {find_user_line()}. Call it outside the traced function, or use a mask, as in "
                "plugrad.where(condition, x, 0)"
            )
        composite = find_composite(contract)
        if composite is not None and (
            composite.is_traced or not list_implementations(kernel_name, tracer.target)
        ):
            return composite_implementation(composite, tracer)
        has_inputs, infer = bool(contract.inputs), contract.infer_cached
        new_value, note = tracer.new_value, tracer.steps.append

        def record(*arrays: Any, **attrs: Any) -> Any:
            inputs = arrays if has_inputs else ()
            found = infer(inputs, attrs)
            numbers = tuple([None if x is None else x.value for x in inputs])
            line = find_user_line(3)
            if hasattr(found, "dtype"):
                output = new_value(found)
                note(Call(contract, numbers, attrs, (output.value,), False, line))
                return output
            outputs = [*map(new_value, found)]
            note(Call(contract, numbers, attrs, tuple([y.value for y in outputs]), True, line))
            return outputs

        self[kernel_name] = record
        return record
