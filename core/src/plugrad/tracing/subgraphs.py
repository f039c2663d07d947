"""Functions that are traced as a part of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.transfer import copy_to_backend
from plugrad.ops.creation import zeros_like
from plugrad.passes.dead import remove_dead_steps
from plugrad.tape.nodes import CustomNode, OutputNode
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_leaves, iter_tensors, map_tree
from plugrad.tracing.body import BodyTracer, CapturedValue, CaptureKey, SubgraphKind
from plugrad.tracing.carries import (
    TENSOR_PLACEHOLDER,
    as_tensor_leaf,
    next_or_none,
)
from plugrad.tracing.program import trace_with
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from plugrad.graph.graph import Graph
    from plugrad.tensor.tracer import Tracer
    from plugrad.tracing.backend import GraphTracer


class TracedBody:
    """A function of nested tensors, traced as a subgraph."""

    def __init__(
        self,
        tracer: GraphTracer,
        function: Callable[..., Any],
        trees: Sequence[Any],
        specs: Iterable[Shaped],
        kind: SubgraphKind,
    ) -> None:
        """Trace the function for arguments of the structures and specs."""
        self.tracer = body = BodyTracer(tracer, kind)
        self.arguments = [body.new_value(spec) for spec in specs]
        with trace_with(body):
            remaining = iter([Tensor(array, body) for array in self.arguments])
            given = [map_tree(lambda leaf: next_or_none(remaining, leaf), tree) for tree in trees]
            self.tree = map_tree(lambda x: as_traced_result(x, body), function(*given))
        self.results = [x.array for x in iter_tensors(self.tree)]

    @property
    def captured(self) -> dict[CaptureKey, CapturedValue]:
        """The values of the enclosing trace that the function closes over."""
        return self.tracer.captured

    @property
    def host_value_tensors(self) -> list[Tensor]:
        """The traced tensors that replace the body's host values, such as random keys."""
        return self.tracer.drawn

    def graph(
        self,
        captured: Iterable[tuple[CaptureKey, CapturedValue]],
        extra_results: Sequence[int] = (),
    ) -> Graph:
        """Return the graph of the arguments, slices of host values and captured values, with extra results last."""
        body = self.tracer
        inner = [
            (
                body.captured[key].inner_array
                if key in body.captured
                else body.new_value(spec_of(c.outer_tensor))
            ).value
            for key, c in captured
        ]
        arguments = [*[x.value for x in (*self.arguments, *body.slices)], *inner]
        results = [*[x.value for x in self.results], *extra_results]
        return remove_dead_steps(body.finish(arguments, results))


def as_traced_result(x: Any, tracer: GraphTracer) -> Any:
    """Convert a result of a traced body to a tensor of its tracer that is not on the tape; None stays None."""
    if x is None:
        return None
    y = copy_to_backend(as_tensor_leaf(x), tracer)
    return Tensor(y.array, tracer)


def spec_of(x: Tensor) -> Shaped:
    """Return the shape and dtype of a tensor."""
    return Shaped(x.shape, x.dtype)


def lift_tensors_of_tree(tree: Any, tracer: Tracer) -> list[Tensor]:
    """Return the tensors of a tree, on the tracer."""
    return [copy_to_backend(x, tracer) for x in iter_tensors(tree)]


def make_output_tensors(tracer: GraphTracer, specs: Iterable[Shaped]) -> list[Tensor]:
    """Return tensors for the outputs of a new step."""
    return [Tensor(tracer.new_value(spec), tracer) for spec in specs]


def get_graph_values(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Return the numbers of the graph's values that traced tensors hold."""
    return tuple([x.array.value for x in tensors])


def record_step(outputs: Sequence[Tensor], step: CustomNode) -> None:
    """Record a step on the tape as the origin of those of its outputs that have an inexact dtype."""
    for index, x in enumerate(outputs):
        if x.dtype.is_inexact:
            x.node = OutputNode(step, index)


def detach_from_tape(x: Tensor) -> Tensor:
    """Return a tensor with the same array, off the tape."""
    return Tensor(x.array, x.backend)


def zeros_if_none(gradient: Tensor | None, x: Tensor) -> Tensor:
    """Return the gradient, or zeros like `x` if it is None."""
    return zeros_like(detach_from_tape(x)) if gradient is None else gradient


def tensor_to_placeholder(leaf: Any) -> Any:
    """Replace a tensor leaf by a placeholder; None stays None."""
    return None if leaf is None else TENSOR_PLACEHOLDER


def count_placeholders(tree: Any) -> int:
    """Return the number of placeholders in a structure."""
    return sum(leaf is TENSOR_PLACEHOLDER for leaf in iter_leaves(tree))


def fill_placeholder(leaf: Any, tensors: Iterator[Tensor]) -> Any:
    """Replace a placeholder by the next tensor of a list; return any other leaf unchanged."""
    return next(tensors) if leaf is TENSOR_PLACEHOLDER else leaf
