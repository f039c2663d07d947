"""The traces of parts of a traced function: the body of a loop, or a branch."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from plugrad.errors import TracingError
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer
from plugrad.tracing.backend import GraphTracer, TracedArray
from plugrad.tracing.lines import find_user_line
from plugrad.transforms.variable import Variable, watched_variables
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from plugrad.tape.nodes import Leaf

CaptureKey = tuple[str, int, int]
"""What identifies a captured value: its kind, the identity of its object, and that of its node on the tape."""
SubgraphKind: TypeAlias = Literal["scan", "cond", "while"]
"""The control-flow step that a traced body belongs to."""


class CapturedValue(NamedTuple):
    """A value of the enclosing trace that a loop body reads."""

    outer_tensor: Tensor
    """The tensor of the enclosing trace, with its node on the tape."""
    inner_array: Any
    """The array that stands in for it in the body."""
    variable: Variable | None
    """The variable whose value was read, or None if it was a tensor."""


class CapturingTracer(Tracer):
    """The tracer of a loop body, which turns values of the enclosing trace (*captured* values) into arguments."""

    parent: Any
    """The tracer of the enclosing function."""

    def __init__(self, watched: Mapping[Variable, Leaf]) -> None:
        """Begin with nothing; `watched` are the variables that are being differentiated around the body."""
        self.captured: dict[CaptureKey, CapturedValue] = {}
        self.outer_watched = watched
        self.bound_captured: dict[CaptureKey, Tensor] = {}

    @abstractmethod
    def make_placeholder(self, outer_tensor: Tensor, variable: Variable | None) -> Any:
        """Return an array of the body for a tensor or a variable of the enclosing tracer."""

    @abstractmethod
    def bind_host_values(self, host_values: Iterator[Tensor] | None) -> Iterator[Tensor] | None:
        """Bind host values to the given tensors in order; return the previous binding."""

    @property
    def bound_tensors(self) -> list[Any]:
        """The traced tensors bound to captured tensors and variables, in this tracer and the enclosing ones."""
        return [self.bound_captured, *self.parent.bound_tensors]

    @bound_tensors.setter
    def bound_tensors(self, bound_tensors: list[Any]) -> None:
        self.bound_captured = bound_tensors[0]
        self.parent.bound_tensors = bound_tensors[1:]

    def capture(
        self, key: CaptureKey, outer_tensor: Tensor, variable: Variable | None = None
    ) -> Tensor:
        """Return the body's tensor for a tensor or variable of the enclosing trace, identified by the key."""
        bound = self.bound_captured.get(key)
        if bound is not None:
            return bound
        known = self.captured.get(key)
        if known is None:
            known = self.captured[key] = CapturedValue(
                outer_tensor, self.make_placeholder(outer_tensor, variable), variable
            )
        return Tensor(known.inner_array, self)

    def lift(self, x: Tensor) -> Tensor:
        """Capture a tensor from outside and return the body's tensor for it."""
        outer = x if x.backend is self.parent else self.parent.lift(x)
        return self.capture(("tensor", id(outer.array), id(outer.node)), outer)

    def read_variable(self, variable: Tensor) -> Any:
        """Return the value of a variable at the start of the loop."""
        assert isinstance(variable, Variable)
        key = ("variable", id(variable), 0)
        bound = self.bound_captured.get(key)
        if bound is not None:
            return bound.array
        outer = Tensor(
            self.parent.read_variable(variable), self.parent, self.outer_watched.get(variable)
        )
        return self.capture(key, outer, variable).array

    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Raise, because a body may run many times or never.

        Raises:
            TracingError: always.
        """
        raise TracingError(
            f"a variable is assigned to inside the body of scan, cond or while_loop, at {find_user_line()}; return the "
            "value, as a part of the carry, and assign it after the loop"
        )

    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Raise, because each iteration would make another variable.

        Raises:
            TracingError: always.
        """
        raise TracingError(
            f"a variable is made inside the body of scan, cond or while_loop, at {find_user_line()}; make it before "
            "the loop"
        )

    @contextmanager
    def bind_captured_tensors(
        self,
        bindings: Iterable[tuple[CaptureKey, CapturedValue, Tensor]],
        host_values: Sequence[Tensor],
    ) -> Generator[None, None, None]:
        """Bind captured values of another trace to tensors of this body, as `bindings` pairs them, within a block.

        Host values are bound to the given tensors, in their order.
        """
        before = self.bound_captured
        bindings = list(bindings)
        self.bound_captured = {**before, **{key: x for key, _, x in bindings}}
        hosts_before = self.bind_host_values(iter(host_values))
        watched = {c.variable: x.node for _, c, x in bindings if c.variable is not None and x.node}
        token = watched_variables.set({**(watched_variables.get() or {}), **watched})
        try:
            yield
        finally:
            watched_variables.reset(token)
            self.bound_captured = before
            self.bind_host_values(hosts_before)


class BodyTracer(CapturingTracer, GraphTracer):
    """Records a loop body; values that it closes over become arguments of its graph."""

    def __init__(self, parent: GraphTracer, kind: SubgraphKind) -> None:
        """Begin an empty graph inside that of `parent`."""
        GraphTracer.__init__(self, parent.target, keeps_stop_gradients=parent.keeps_stop_gradients)
        CapturingTracer.__init__(self, watched_variables.get() or {})
        self.parent: GraphTracer = parent
        self.kind: SubgraphKind = kind
        self.drawn: list[Tensor] = []
        """The tensors around the body that its host values are bound to."""
        self.slices: list[TracedArray] = []
        """The arguments of the body of a scan that get slices of them."""
        parent.bodies.append(self)
        self.guards = parent.guards

    def release(self) -> None:
        """Drop the tensors and arrays that the tracer itself keeps."""
        super().release()
        self.captured.clear()
        self.drawn.clear()
        self.slices.clear()

    def make_placeholder(self, outer_tensor: Tensor, variable: Variable | None) -> TracedArray:
        """Return the array of a new argument of the loop body."""
        return self.new_value(Shaped(outer_tensor.shape, outer_tensor.dtype))

    def bind_host_values(self, host_values: Iterator[Tensor] | None) -> Iterator[Tensor] | None:
        """Bind host values to the given tensors; return the previous binding."""
        before, self.bound_hosts = self.bound_hosts, host_values
        return before

    def next_bound_host_value(self) -> Tensor | None:
        """Return the tensor for the next host value: in a scan, its slice of the values of all iterations.

        A loop of unknown length is bound as a whole, by its results.
        """
        if self.bound_hosts is not None or self.kind == "while":
            return super().next_bound_host_value()
        outer = self.parent.next_bound_host_value()
        if outer is None:
            return None
        self.drawn.append(outer)
        if self.kind == "cond":
            return self.capture(("host", id(outer.array), 0), outer)
        self.slices.append(self.new_value(Shaped(outer.shape[1:], outer.dtype)))
        return Tensor(self.slices[-1], self)

    def constant(self, array: Any) -> TracedArray:
        """Return the value for an array of the target, stored as a constant of the outermost trace."""
        outer = self.parent.constant(array)
        return self.capture(("tensor", id(outer), id(None)), Tensor(outer, self.parent)).array
