"""A scan under `plugrad.vmap` that is traced: one step of the graph, whose body computes a round of all examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.registry.batching import move_axis
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer, current_tracer
from plugrad.tensor.trees import map_tree
from plugrad.tracing.body import CapturingTracer
from plugrad.tracing.carries import check_iteration_result, next_or_none
from plugrad.tracing.subgraphs import lift_tensors_of_tree
from plugrad.transforms.batched_kernels import BatchedArray, DrawState
from plugrad.transforms.batches import BatchTracer
from plugrad.transforms.variable import watched_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from plugrad.tape.nodes import Leaf
    from plugrad.tensor.backend import Backend
    from plugrad.tracing.body import CapturedValue, CaptureKey
    from plugrad.transforms.variable import Variable
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape


class BatchedBody(CapturingTracer, BatchTracer):
    """Runs the body of a loop for many examples at once, and captures values of the enclosing function."""

    def __init__(
        self, parent: BatchTracer, outer: Tracer, watched: Mapping[Variable, Leaf]
    ) -> None:
        """Create the tracer of a loop's body, whose tensors belong to the tracer of the enclosing function."""
        BatchTracer.__init__(self, outer, parent.size, parent.randomness, [])
        CapturingTracer.__init__(self, watched)
        self.parent: BatchTracer = parent
        self.hosts: list[Tensor] = []
        """The host values of the function."""
        self._bound_hosts: Iterator[Tensor] | None = None

    def make_placeholder(self, outer_tensor: Tensor, variable: Variable | None) -> Any:
        """Return the outer tensor's own array; the tensor is captured when the array is used."""
        return outer_tensor.array if variable is None else BatchTracer.read_variable(self, variable)

    @property
    def bound_tensors(self) -> list[Any]:
        """The traced tensors bound to captured tensors and variables, in the enclosing tracers."""
        assert isinstance(self.outer, Tracer)
        return [self.bound_captured, self.parent.bound_tensors, self.outer.bound_tensors]

    @bound_tensors.setter
    def bound_tensors(self, bound_tensors: list[Any]) -> None:
        assert isinstance(self.outer, Tracer)
        self.bound_captured, self.parent.bound_tensors, self.outer.bound_tensors = bound_tensors

    def bind_host_values(self, host_values: Iterator[Tensor] | None) -> Iterator[Tensor] | None:
        """Bind host values to the given tensors; return the previous binding."""
        before, self._bound_hosts = self._bound_hosts, host_values
        return before

    def provide_draw_state(
        self, word_count: int, next_state: Callable[[int, Backend], Tensor]
    ) -> Tensor:
        """Return the state of the random stream for a draw: a new one, or that of an earlier trace of the body."""
        if self._bound_hosts is not None:
            state: BatchedArray = next(self._bound_hosts).array
            return Tensor(DrawState(state.tensor, is_batched=False), self)
        self.hosts.append(super().provide_draw_state(word_count, next_state))
        return self.hosts[-1]

    def host_value(self, function: Callable[[], Any], shape: Shape, dtype: DType) -> Any:
        """Return a host value: a new one, or the bound one from an earlier trace of the same function."""
        if self._bound_hosts is not None:
            return next(self._bound_hosts).array
        array = super().host_value(function, shape, dtype)
        self.hosts.append(Tensor(array, self))
        return array


class LoopOutputs(NamedTuple):
    """The outputs of a traced batched loop, with the tensors and host values that its body captured."""

    tree: Any
    """The structure of the last carry and of the results."""
    outputs: list[Tensor]
    """The last carry, the stacked results, and, if the loop is recorded, the carries of all rounds."""
    captured: list[tuple[CaptureKey, CapturedValue]]
    """The tensors and variables of the enclosing trace that the body reads."""
    host_values: list[Tensor]
    """The host values of all rounds, if the loop is recorded."""
    is_recorded: bool
    """Whether the loop is a step of the tape."""


def run_batched_loop(
    tracer: BatchTracer,
    function: Callable[..., Any],
    argument_trees: tuple[Any, Any],
    argument_tensors: tuple[list[Tensor], list[Tensor]],
    scan_outside: Callable[[Callable[..., Any], Any, Any], tuple[Any, Any]],
) -> LoopOutputs:
    """Run one scan for the whole batch by `scan_outside`, and return its last carry and its stacked results."""
    carry, slices = argument_tensors
    watched = watched_variables.get() or {}
    traced: list[tuple[Any, BatchedBody, bool, list[bool]]] = []

    def run_iteration_for_all_examples(
        outer_carry: list[Tensor], outer_slices: list[Tensor]
    ) -> Any:
        """Return the next carry and the results of one round, as outer tensors."""
        outside = current_tracer()
        assert outside is not None
        body = BatchedBody(tracer, outside, watched)
        with body.run_on_level():
            given = [
                *[BatchedArray(x, is_batched=True) for x in outer_carry],
                *map(BatchedArray, outer_slices, [x.array.is_batched for x in slices]),
            ]
            stand_ins = iter([Tensor(array, body) for array in given])
            c, x = (map_tree(lambda leaf: next_or_none(stand_ins, leaf), t) for t in argument_trees)
            tree = check_iteration_result(function(c, x), c)
            last, results = (lift_tensors_of_tree(part, body) for part in tree)
            outer = [c.outer_tensor for c in body.captured.values()]
            is_recorded = any(x.node is not None for x in (*carry, *slices, *outer))
            if is_recorded:
                results += [*[Tensor(x, body) for x in given[: len(carry)]], *body.hosts]
            arrays = [x.array for x in results]
            with body.run_on_outer_level():
                held = [body.with_batch_axis(x.array) for x in last]
        traced[:] = [(tree, body, is_recorded, [array.is_batched for array in arrays])]
        return held, [array.tensor for array in arrays]

    with tracer.run_on_outer_level():
        outer_init = [tracer.with_batch_axis(x.array) for x in carry]
        outer_xs = [
            move_axis(x.array.tensor, 0, 1) if x.array.is_batched else x.array.tensor
            for x in slices
        ]
        last, stacked = scan_outside(run_iteration_for_all_examples, outer_init, outer_xs)
        ((tree, body, is_recorded, flags),) = traced
        results = [
            move_axis(x, 1, 0) if flag else x for x, flag in zip(stacked, flags, strict=True)
        ]
    outputs = [
        Tensor(BatchedArray(x, flag), tracer)
        for x, flag in zip((*last, *results), (*[True] * len(carry), *flags), strict=True)
    ]
    end = len(outputs) - (len(body.hosts) if is_recorded else 0)
    return LoopOutputs(tree, outputs[:end], list(body.captured.items()), outputs[end:], is_recorded)
