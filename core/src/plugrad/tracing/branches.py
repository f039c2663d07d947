"""Traced conditionals and their gradients, and traced while loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import ArgumentError
from plugrad.graph.graph import Cond, While
from plugrad.passes.dead import has_effect
from plugrad.passes.hosts import return_host_values, return_host_values_from_branches
from plugrad.tape.nodes import CustomNode, InputGradients, Leaf, Node, Recording, ResultBundle
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.closures import bind_closure
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import map_tree
from plugrad.tracing.body import BodyTracer, CapturedValue, CaptureKey
from plugrad.tracing.carries import (
    as_tensor_leaf,
    check_alternatives,
    check_carry,
    check_flag_spec,
    make_while_gradient_error,
    next_or_none,
)
from plugrad.tracing.lines import find_user_line
from plugrad.tracing.subgraphs import (
    TracedBody,
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tracing.backend import GraphTracer


def trace_cond(
    tracer: GraphTracer, flag: Tensor, yes: Callable[..., Any], no: Callable[..., Any], args: Any
) -> Any:
    """Record a conditional between the functions `yes` and `no`, and return its results; see `plugrad.cond`."""
    flag = copy_to_backend(flag, tracer)
    given = lift_tensors_of_tree(args, tracer)
    bodies = [TracedBody(tracer, f, args, map(spec_of, given), "cond") for f in (yes, no)]
    first, second = bodies
    check_alternatives(first.tree, second.tree, first.results, second.results)
    captured = {**first.captured, **second.captured}
    operands = [*given, *[c.outer_tensor for c in captured.values()]]
    is_recorded = any(x.node is not None for x in operands)
    line, results = find_user_line(), len(first.results)
    graphs = (first.graph(captured.items()), second.graph(captured.items()))
    split = len(first.host_value_tensors) or len(return_host_values(graphs[0]).results) - results
    if is_recorded:
        graphs = return_host_values_from_branches(*graphs, line)
    outputs = make_output_tensors(tracer, [graphs[0].specs[value] for value in graphs[0].results])
    tracer.steps.append(
        Cond(flag.array.value, graphs, get_graph_values(operands), get_graph_values(outputs), line)
    )
    if is_recorded:
        hosts = [*first.host_value_tensors, *second.host_value_tensors] or outputs[results:]
        step = CondNode(
            tracer,
            flag,
            (yes, no),
            args,
            operands,
            captured,
            (hosts[:split], hosts[split:]),
        )
        record_step(outputs[:results], step)
    remaining = iter(outputs)
    return map_tree(lambda leaf: next_or_none(remaining, leaf), first.tree)


class CondNode(CustomNode):
    """A traced conditional on the tape; its gradient is a conditional between two gradients."""

    __slots__ = (
        "args",
        "bound_tensors",
        "captured",
        "flag",
        "functions",
        "hosts",
        "operands",
        "tracer",
    )

    def __init__(
        self,
        tracer: GraphTracer,
        flag: Tensor,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
        args: Any,
        operands: Sequence[Tensor],
        captured: dict[CaptureKey, CapturedValue],
        host_values: tuple[Sequence[Tensor], Sequence[Tensor]],
    ) -> None:
        """Keep the flag, the operands and the host values of both functions as arrays."""
        super().__init__(tuple([x.node for x in operands]))
        self.tracer = tracer
        self.bound_tensors = tracer.bound_tensors
        self.flag = detach_from_tape(flag)
        self.functions = tuple(map(bind_closure, functions))
        self.args = map_tree(tensor_to_placeholder, args)
        self.operands = [(x.array, x.backend) for x in operands]
        self.hosts = [[(x.array, x.backend) for x in each] for each in host_values]
        self.captured = list(captured.items())

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return the gradients of the operands, computed by the branch that was taken."""
        operands = [
            Tensor(array, backend, node if create_graph else None)
            for (array, backend), node in zip(self.operands, self.parents, strict=True)
        ]
        chosen = [
            i
            for i, node in enumerate(self.parents)
            if node is not None
            and (needs_input_grad is None or needs_input_grad[i])
            and operands[i].dtype.is_inexact
        ]
        given: list[int] = sorted(dy)

        def make_branch_gradient(branch_index: int) -> Callable[..., list[Tensor]]:
            """Return the function that computes the gradients of the operands through one branch."""
            function = self.functions[branch_index]

            def run_backward(
                operands: list[Tensor], cotangents: list[Tensor], host_values: list[list[Tensor]]
            ) -> list[Tensor]:
                tracer = current_tracer()
                assert isinstance(tracer, BodyTracer)
                leaves: dict[int, Leaf] = {i: Leaf((operands[i].node,)) for i in chosen}
                xs = [
                    Tensor(x.array, x.backend, leaves.get(i, x.node))
                    for i, x in enumerate(operands)
                ]
                count = len(xs) - len(self.captured)
                bound = [
                    (key, c, x)
                    for (key, c), x in zip(self.captured, xs[count:], strict=True)
                    if c.outer_tensor.node is not None
                ]
                with tracer.bind_captured_tensors(bound, host_values[branch_index]):
                    remaining = iter(xs[:count])
                    args = map_tree(lambda m: fill_placeholder(m, remaining), self.args)
                    with Recording(leaves.values()):
                        results: Any = function(*args)
                    tracer.bind_host_values(None)  # what runs again has host values of its own
                    found = lift_tensors_of_tree(map_tree(as_tensor_leaf, results), tracer)
                    ends = ResultBundle(tuple([found[i].node for i in given]))
                    pulled = BackwardPass(ends, list(leaves.values())).run(cotangents)
                return [zeros_if_none(g, xs[i]) for i, g in zip(leaves, pulled, strict=True)]

            return run_backward

        yes, no = map(make_branch_gradient, range(2))
        with self.tracer.using_bound_tensors(self.bound_tensors):
            hosts = [[Tensor(*kept) for kept in each] for each in self.hosts]
            args = (operands, [dy[i] for i in given], hosts)
            gradients = trace_cond(self.tracer, self.flag, yes, no, args)
        return list(zip(chosen, gradients, strict=True))


def trace_while(
    tracer: GraphTracer, go_on: Callable[..., Any], function: Callable[..., Any], init: Any
) -> Any:
    """Record a loop that runs while ``go_on(carry)`` is true, and return its final carry; see `plugrad.while_loop`."""
    carry = lift_tensors_of_tree(init, tracer)
    specs = [*map(spec_of, carry)]
    test = TracedBody(tracer, go_on, (init,), specs, "while")
    if len(test.results) != 1:
        raise ArgumentError(
            "while_loop: go_on must return one bool, or a bool tensor with one element"
        )
    check_flag_spec(Tensor(test.results[0], test.tracer), "while_loop")
    body = TracedBody(
        tracer, lambda c: check_carry("while_loop", function(c), c), (init,), specs, "while"
    )
    captured = {**test.captured, **body.captured}
    graphs = (test.graph(captured.items()), body.graph(captured.items()))
    shared = [c.outer_tensor for c in captured.values()]
    has_effects = any(map(has_effect, (*graphs[0].steps, *graphs[1].steps)))
    bound = [tracer.next_bound_host_value() for _ in specs] if has_effects else []
    outputs = [Tensor(x.array, tracer) for x in bound if x is not None]
    if not outputs:
        outputs = make_output_tensors(tracer, specs)
        tracer.steps.append(
            While(
                *graphs,
                get_graph_values(carry),
                get_graph_values(shared),
                get_graph_values(outputs),
                find_user_line(),
            )
        )
    nodes: tuple[Node | None, ...] = tuple([x.node for x in (*carry, *shared)])
    if any(nodes):
        record_step(outputs, WhileNode(nodes))
    remaining = iter(outputs)
    return map_tree(lambda leaf: next_or_none(remaining, leaf), init)


class WhileNode(CustomNode):
    """A traced while loop on the tape, which has no gradient."""

    __slots__ = ()

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Raise, because a loop of unknown length has no gradient.

        Raises:
            GradientNotFound: always.
        """
        raise make_while_gradient_error()
