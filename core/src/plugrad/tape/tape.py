"""The tape: recording calls, and the backward pass over them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from plugrad.kernels import creation
from plugrad.registry.composites import find_composite
from plugrad.registry.gradients import find_gradient
from plugrad.tape.nodes import Call, Leaf, Node, Part, Step, add
from plugrad.tape.plans import missing_gradient
from plugrad.tensor.context import active_precision, set_precision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.registry.gradients import Plan
    from plugrad.tape.nodes import Gradients
    from plugrad.tensor.tensor import Tensor


def mark(nodes: Sequence[Node | None]) -> int:
    """Return which inputs are being differentiated, one bit for each, the lowest for the first."""
    return sum([1 << i for i, node in enumerate(nodes) if node is not None])


def find_plan(
    kernel: Kernel[..., Any], differentiated: int, parents: Sequence[Node | None]
) -> Plan | None:
    """Return the plan of a call; `differentiated` is what `mark` returns."""
    gradient = find_gradient(kernel.name)
    if gradient is None:
        composite = find_composite(kernel)
        gradient = missing_gradient(kernel) if composite is None else composite.gradient
    if differentiated not in gradient.plans:
        positions = [i for i, parent in enumerate(parents) if parent is not None]
        gradient.plans[differentiated] = gradient.planner(kernel, positions)
    return gradient.plans[differentiated]


class BackwardPass:
    """The backward pass from a result to the leaves, over the nodes between them."""

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
        for node in nodes:  # it grows
            for parent in node.parents:
                if parent in found:
                    continue
                if parent.order < first:  # older than the leaves: it cannot depend on them
                    is_nested = True
                else:
                    found.add(parent)
                    nodes.append(parent)
        nodes.sort(key=_get_order)
        self.nodes: list[Call | Part | Step] = nodes
        self.is_nested = is_nested
        self.needed: set[Node | None] | None = None
        """The nodes that depend on a leaf; None for all: without nesting, a tape has no other nodes."""
        if is_nested:
            self.needed = set(leaves)
            for node in self.nodes:
                if not self.needed.isdisjoint(node.parents):
                    self.needed.add(node)
            self.nodes = [node for node in self.nodes if node in self.needed]

    def run(
        self, start: Any, on_gradient: Callable[[int, Tensor], None] | None = None
    ) -> list[Tensor | None]:
        """Return the gradient of each leaf, given that of the root; None if the root does not depend on it.

        Each node and its saved values are released once it has been processed, so a pass runs only
        once.

        Args:
            start: the gradient of the root.
            on_gradient: called with the position and the gradient of each leaf that the root depends on, as soon as
                nothing more will be added to it.
        """
        precision = active_precision()
        if precision is None:
            return self.walk(start, on_gradient)
        set_precision(None)  # a gradient has the dtype of what it is the gradient of
        try:
            return self.walk(start, on_gradient)
        finally:
            set_precision(precision)

    def walk(
        self, start: Any, on_gradient: Callable[[int, Tensor], None] | None
    ) -> list[Tensor | None]:
        """Do what `run` does, in the precision of the context."""
        nodes, leading, linked = self.nodes, self.needed, self.is_nested
        gradients: Gradients = {self.root: start}
        completed = {} if on_gradient is None else self._completed_leaves()
        self.root = wanted = None
        while nodes:
            node = nodes.pop()
            dy = gradients.pop(node, None)
            if leading is not None:
                leading.remove(node)
                wanted = [parent in leading for parent in node.parents]
            if dy is None:
                pass
            elif type(node) is Call:
                if type(dy) is dict:
                    dy = MaterializedCotangents(node, dy)
                node.plan.accumulate_vjp(gradients, node, dy, wanted, linked)
            elif type(node) is Part:
                # a gradient rule may reach an output by another part than the caller did
                add(gradients.setdefault(node.parents[0], {}), node.index, dy)
            else:
                parents = node.parents
                for index, gradient in node.pull(dy, wanted, linked):
                    if wanted is None or wanted[index]:
                        add(gradients, parents[index], gradient)
            if on_gradient is not None:
                self._report(completed.pop(node, ()), gradients, on_gradient)
        if on_gradient is not None:
            self._report(completed[None], gradients, on_gradient)
        return [gradients.get(leaf) for leaf in self.leaves]

    def _report(
        self, positions: Sequence[int], gradients: Gradients, report: Callable[[int, Tensor], None]
    ) -> None:
        """Report the gradients of the leaves at some positions, as far as the root depends on them."""
        for position in positions:
            if (gradient := gradients.get(self.leaves[position])) is not None:
                report(position, gradient)

    def _completed_leaves(self) -> dict[Node | None, list[int]]:
        """Return the positions of the leaves by the last node that adds to them; by None, those to which none does."""
        remaining: dict[Node | None, int] = {leaf: i for i, leaf in enumerate(self.leaves)}
        completed: dict[Node | None, list[int]] = {}
        for node in self.nodes:  # which are sorted, and processed from the end
            if last := [remaining.pop(parent) for parent in node.parents if parent in remaining]:
                completed[node] = last
        return {**completed, None: list(remaining.values())}


_get_order = attrgetter("order")


class MaterializedCotangents(list["Tensor"]):
    """The cotangents of all outputs of a call, with zeros for outputs that the result does not depend on."""

    __slots__ = ("absent",)

    def __init__(self, call: Call, parts: Mapping[int, Tensor]) -> None:
        """Take the cotangents that there are, by the indices of the outputs."""
        super().__init__(
            parts[i]
            if i in parts
            else creation.fill.on(call.backend, shape=spec.shape, value=0, dtype=spec.dtype)
            for i, spec in enumerate(call.specs)
        )
        self.absent: frozenset[int] = frozenset(range(len(self))) - parts.keys()
        """The indices of the outputs that the result does not depend on."""
