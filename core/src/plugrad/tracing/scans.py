"""A traced scan, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.autocast import keep_precision
from plugrad.engine.transfer import copy_to_backend
from plugrad.graph.graph import Scan
from plugrad.ops.creation import zeros_like
from plugrad.passes.hosts import return_host_values
from plugrad.tape.nodes import CustomNode, InputGradients, Leaf, OutputNode, Recording, ResultBundle
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.closures import bind_closure
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import map_tree
from plugrad.tracing.batched_scans import LoopOutputs, run_batched_loop
from plugrad.tracing.body import CapturedValue, CaptureKey, CapturingTracer
from plugrad.tracing.carries import (
    check_iteration_result,
    next_or_none,
)
from plugrad.tracing.lines import find_user_line
from plugrad.tracing.subgraphs import (
    TracedBody,
    count_placeholders,
    detach_from_tape,
    fill_placeholder,
    get_graph_values,
    lift_tensors_of_tree,
    make_output_tensors,
    record_step,
    spec_of,
    tensor_to_placeholder,
    zeros_if_none,
)
from plugrad.transforms.batches import BatchTracer
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tracing.backend import GraphTracer


def trace_scan(
    tracer: GraphTracer | BatchTracer,
    function: Callable[..., Any],
    init: Any,
    xs: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Record a scan and return its final carry and stacked results; see `plugrad.scan`."""
    carry, slices = lift_tensors_of_tree(init, tracer), lift_tensors_of_tree(xs, tracer)
    if isinstance(tracer, BatchTracer):

        def scan_outside(
            run_iteration: Callable[..., Any], outer_init: Any, outer_xs: Any
        ) -> tuple[Any, Any]:
            """Record the scan of a whole batch on the outer tracer."""
            outer: Any = tracer.outer
            return trace_scan(outer, run_iteration, outer_init, outer_xs, length, reverse)

        rounds = run_batched_loop(tracer, function, (init, xs), (carry, slices), scan_outside)
    else:
        rounds = _record_scan(tracer, function, (init, xs), (carry, slices), (length, reverse))
    outputs = rounds.outputs
    if rounds.is_recorded:
        inputs = [*carry, *slices, *[c.outer_tensor for _, c in rounds.captured]]
        step = ScanNode(tracer, function, (init, xs), (length, reverse), inputs, rounds)
        record_step(outputs, step)
    remaining = iter(outputs)
    return map_tree(lambda leaf: next_or_none(remaining, leaf), rounds.tree)


def _record_scan(
    tracer: GraphTracer,
    function: Callable[..., Any],
    argument_trees: tuple[Any, Any],
    argument_tensors: tuple[list[Tensor], list[Tensor]],
    length_and_reverse: tuple[int, bool],
) -> LoopOutputs:
    """Add a scan to the graph, and return its outputs."""
    (carry, slices), (length, reverse), count = (
        argument_tensors,
        length_and_reverse,
        len(argument_tensors[0]),
    )
    inner = [*map(spec_of, carry), *[Shaped(x.shape[1:], x.dtype) for x in slices]]
    body = TracedBody(
        tracer,
        lambda c, x: check_iteration_result(function(c, x), c),
        argument_trees,
        inner,
        "scan",
    )
    captured = list(body.captured.items())
    shared = [c.outer_tensor for _, c in captured]
    is_recorded = any(x.node is not None for x in (*carry, *slices, *shared))
    kept = [x.value for x in body.arguments[:count]] if is_recorded else []
    graph = body.graph(captured, kept)
    end = len(graph.results)
    if is_recorded:
        graph = return_host_values(graph)
    found = [graph.specs[value] for value in graph.results]
    outputs = make_output_tensors(
        tracer, [*found[:count], *[Shaped((length, *s.shape), s.dtype) for s in found[count:]]]
    )
    tracer.steps.append(
        Scan(
            graph,
            length,
            get_graph_values(carry),
            get_graph_values([*slices, *body.host_value_tensors]),
            get_graph_values(shared),
            get_graph_values(outputs),
            reverse,
            find_user_line(),
        )
    )
    hosts = [*body.host_value_tensors, *outputs[end:]]
    return LoopOutputs(body.tree, outputs[:end], captured, hosts, is_recorded)


class ScanNode(CustomNode):
    """A traced scan on the tape; its gradient is a scan in the other direction."""

    __slots__ = (
        "bound_tensors",
        "captured",
        "direction",
        "function",
        "hosts",
        "inputs",
        "outputs",
        "tracer",
        "trees",
    )

    def __init__(
        self,
        tracer: GraphTracer | BatchTracer,
        function: Callable[..., Any],
        argument_trees: tuple[Any, Any],
        direction: tuple[int, bool],
        inputs: Sequence[Tensor],
        loop_outputs: LoopOutputs,
    ) -> None:
        """Keep inputs, outputs and host values as arrays; the outputs end with the carries."""
        super().__init__(tuple([x.node for x in inputs]))
        self.tracer = tracer
        self.bound_tensors = tracer.bound_tensors
        self.function = keep_precision(bind_closure(function))
        self.trees = tuple(map_tree(tensor_to_placeholder, tree) for tree in argument_trees)
        self.direction = direction
        self.inputs = [(x.array, x.backend) for x in inputs]
        self.captured = loop_outputs.captured
        self.outputs = [(x.array, x.backend) for x in loop_outputs.outputs]
        self.hosts = [(x.array, x.backend) for x in loop_outputs.host_values]

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return the gradients by a reverse scan, which recomputes each iteration from its stored carry."""
        length, is_reversed = self.direction
        inputs = [
            Tensor(array, backend, node if create_graph else None)
            for (array, backend), node in zip(self.inputs, self.parents, strict=True)
        ]
        chosen = [
            node is not None
            and (needs_input_grad is None or needs_input_grad[i])
            and inputs[i].dtype.is_inexact
            for i, node in enumerate(self.parents)
        ]
        outputs = [
            Tensor(array, backend, OutputNode(self, i) if create_graph else None)
            for i, (array, backend) in enumerate(self.outputs)
        ]
        count, slices = map(count_placeholders, self.trees)
        end = len(outputs) - count
        carries, hosts = outputs[end:], [Tensor(*place) for place in self.hosts]
        moving = [i for i in range(count) if inputs[i].dtype.is_inexact]
        given = [i for i in range(count, end + count) if i in dy]
        sliced = [i for i in range(count, count + slices) if chosen[i]]
        shared = [i for i in range(count + slices, len(inputs)) if chosen[i]]

        def step_backward(state: Any, round_values: Any) -> Any:
            """Return the gradients of one iteration, given those of its results and the values that it had."""
            tracer = current_tracer()
            assert isinstance(tracer, CapturingTracer)
            d_carry, total = state
            now, parts, d_results, drawn = round_values
            leaves: list[Leaf] = []

            def make_leaf(x: Tensor) -> Tensor:
                """Return x as a new tensor whose tape node is a leaf, from which the iteration is differentiated."""
                leaves.append(Leaf((x.node,)))
                return Tensor(x.array, x.backend, leaves[-1])

            now = [make_leaf(x) if i in moving else x for i, x in enumerate(now)]
            parts = [make_leaf(x) if i in sliced else x for i, x in enumerate(parts, count)]
            bound: list[tuple[CaptureKey, CapturedValue, Tensor]] = []
            for i in shared:
                key, c = self.captured[i - count - slices]
                bound.append((key, c, make_leaf(copy_to_backend(inputs[i], tracer))))
            with tracer.bind_captured_tensors(bound, drawn):
                remaining = iter([*now, *parts])
                c, y = (
                    map_tree(lambda m: fill_placeholder(m, remaining), tree) for tree in self.trees
                )
                with Recording(leaves):
                    result = check_iteration_result(self.function(c, y), c)
                tracer.bind_host_values(None)  # what runs again has host values of its own
                found = [*lift_tensors_of_tree(result, tracer), *now]
                ends = tuple([found[i].node for i in (*moving, *given)])
                pulled = BackwardPass(ResultBundle(ends), leaves).run([*d_carry, *d_results])
            sources = [*[now[i] for i in moving], *[parts[i - count] for i in sliced]]
            sources += [x for _, _, x in bound]
            pulled = [zeros_if_none(g, x) for g, x in zip(pulled, sources, strict=True)]
            n, m = len(moving), len(moving) + len(sliced)
            total = [a + b for a, b in zip(total, pulled[m:], strict=True)]
            return (pulled[:n], total), pulled[n:m]

        start = [dy[i] if i in dy else zeros_like(detach_from_tape(inputs[i])) for i in moving]
        none = [zeros_like(detach_from_tape(inputs[i])) for i in shared]
        each = (carries, inputs[count : count + slices], [dy[i] for i in given], hosts)
        with self.tracer.using_bound_tensors(self.bound_tensors):
            (first, total), columns = trace_scan(
                self.tracer, step_backward, (start, none), each, length, not is_reversed
            )
        pairs = [*zip(moving, first, strict=True), *zip(sliced, columns, strict=True)]
        return [(i, g) for i, g in (*pairs, *zip(shared, total, strict=True)) if chosen[i]]
