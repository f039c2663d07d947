"""The tape: recording calls, and the backward pass over them."""

from __future__ import annotations

from contextlib import nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from plugrad.kernels import creation
from plugrad.registry.composites import find_composite
from plugrad.registry.gradients import find_gradient
from plugrad.tape.nodes import (
    Call,
    CustomNode,
    Leaf,
    Node,
    OutputNode,
    accumulate_gradient,
    add_ancestors,
)
from plugrad.tape.plans import make_missing_gradient
from plugrad.tensor.context import active_precision, use_precision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.registry.gradients import VjpPlan
    from plugrad.tape.nodes import GradientOfNode
    from plugrad.tensor.tensor import Tensor

    GradientListener: TypeAlias = Callable[[int, Tensor], None]
    """A function that is called with the position of a leaf and the leaf's gradient."""


def find_gradient_plan(kernel: Kernel[..., Any], differentiated: int) -> VjpPlan | None:
    """Return the gradient plan of a call; `differentiated` has one bit for each input, the lowest for the first."""
    gradient = find_gradient(kernel.name)
    if gradient is None:
        composite = find_composite(kernel)
        gradient = make_missing_gradient(kernel) if composite is None else composite.gradient
    if differentiated not in gradient.plans:
        positions = [i for i in range(differentiated.bit_length()) if differentiated >> i & 1]
        gradient.plans[differentiated] = gradient.planner(kernel, positions)
    return gradient.plans[differentiated]


class BackwardPass:
    """The backward pass from a result to the leaves, over all nodes between them."""

    __slots__ = ("is_nested", "leaves", "needed", "nodes", "root")

    def __init__(self, root: Node | None, leaves: Sequence[Leaf]) -> None:
        """Find the nodes on paths from `leaves` to `root`, without the leaves themselves."""
        self.root = root
        self.leaves = leaves
        first = leaves[0].order if leaves else 0  # leaves are listed in the order they were made
        is_older = root is not None and root.order < first
        is_nested = is_older or bool([x for x in leaves if x.parents[0] is not None])
        found: set[Node | None] = {None, *leaves}
        nodes: list[Any] = [] if root in found or is_older else [root]
        # what is older than the leaves cannot depend on them
        self.is_nested = add_ancestors(nodes, found, first) or is_nested
        nodes.sort(key=attrgetter("order"))
        self.nodes: list[Call | OutputNode | CustomNode] = nodes
        self.needed: set[Node | None] | None = None
        """The nodes that depend on a leaf; None for all: without nesting, a tape has no other nodes."""
        if self.is_nested:
            self.needed = set(leaves)
            for node in self.nodes:
                if not self.needed.isdisjoint(node.parents):
                    self.needed.add(node)
            self.nodes = [node for node in self.nodes if node in self.needed]

    def run(
        self, root_gradient: Any, on_gradient: GradientListener | None = None
    ) -> list[Tensor | None]:
        """Return the gradient of each leaf, given that of the root; None if the root does not depend on it.

        Each node and its saved values are released once it has been processed, so a pass runs only
        once.

        Args:
            root_gradient: the gradient of the root.
            on_gradient: called with the position and the gradient of each leaf that the root depends on, as soon as
                nothing more will be added to it.
        """
        # a gradient has the dtype of what it is the gradient of
        with nullcontext() if active_precision() is None else use_precision(None):
            nodes, leading, create_graph = self.nodes, self.needed, self.is_nested
            gradients: GradientOfNode = {self.root: root_gradient}
            completed = {} if on_gradient is None else self._completed_leaves()
            self.root = needs_input_grad = None
            while nodes:
                node = nodes.pop()
                dy = gradients.pop(node, None)
                if leading is not None:
                    leading.remove(node)
                    needs_input_grad = [parent in leading for parent in node.parents]
                if dy is None:
                    pass
                elif type(node) is Call:
                    if type(dy) is dict:
                        dy = MaterializedCotangents(node, dy)
                    node.gradient_plan.accumulate_vjp(
                        gradients, node, dy, needs_input_grad, create_graph
                    )
                elif type(node) is OutputNode:
                    # a gradient rule may reach an output by another part than the caller did
                    accumulate_gradient(gradients.setdefault(node.parents[0], {}), node.index, dy)
                else:
                    for index, gradient in node.vjp(dy, needs_input_grad, create_graph):
                        if needs_input_grad is None or needs_input_grad[index]:
                            accumulate_gradient(gradients, node.parents[index], gradient)
                if on_gradient is not None:
                    self._report_gradients(completed.pop(node, ()), gradients, on_gradient)
            if on_gradient is not None:
                self._report_gradients(completed[None], gradients, on_gradient)
            return [gradients.get(leaf) for leaf in self.leaves]

    def _report_gradients(
        self,
        leaf_positions: Sequence[int],
        gradients: GradientOfNode,
        on_gradient: GradientListener,
    ) -> None:
        """Call `on_gradient` for those leaves at the given positions on which the root depends."""
        for position in leaf_positions:
            if (gradient := gradients.get(self.leaves[position])) is not None:
                on_gradient(position, gradient)

    def _completed_leaves(self) -> dict[Node | None, list[int]]:
        """Return leaf positions by the node that contributes to them last; under None, leaves without contributions."""
        remaining: dict[Node | None, int] = {leaf: i for i, leaf in enumerate(self.leaves)}
        completed: dict[Node | None, list[int]] = {}
        for node in self.nodes:  # which are sorted, and processed from the end
            if last := [remaining.pop(parent) for parent in node.parents if parent in remaining]:
                completed[node] = last
        return {**completed, None: list(remaining.values())}


class MaterializedCotangents(list["Tensor"]):
    """The cotangents of all outputs of a call; outputs that the result does not depend on have zeros."""

    __slots__ = ("absent",)

    def __init__(self, call: Call, known_cotangents: Mapping[int, Tensor]) -> None:
        """Store the known cotangents, given by output index, and zeros for the other outputs."""
        super().__init__(
            known_cotangents[i]
            if i in known_cotangents
            else creation.fill.on(call.backend, shape=spec.shape, value=0, dtype=spec.dtype)
            for i, spec in enumerate(call.specs)
        )
        self.absent: frozenset[int] = frozenset(range(len(self))) - known_cotangents.keys()
        """The indices of the outputs that the result does not depend on."""
