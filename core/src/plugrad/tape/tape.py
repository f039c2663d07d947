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
    try:
        return gradient.plans[differentiated]
    except KeyError:
        positions = [i for i, parent in enumerate(parents) if parent is not None]
        plan = gradient.plans[differentiated] = gradient.planner(kernel, positions)
        return plan


class BackwardPass:
    """The backward pass from a result to the leaves, over the nodes between them."""

    __slots__ = ("is_nested", "leaves", "needed", "nodes", "root")

    def __init__(self, root: Node | None, leaves: Sequence[Leaf]) -> None:
        """Find the nodes on paths from `leaves` to `root`, without the leaves themselves."""
        self.root = root
        self.leaves = leaves
        first = leaves[0].order if leaves else 0  # leaves are listed in the order they were made
        is_nested = is_older = root is not None and root.order < first
        for leaf in leaves:
            if leaf.parents[0] is not None:
                is_nested = True
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
        self.nodes: list[Call | Part | Step] = nodes
        self.is_nested = is_nested
        self.needed: set[Node | None] | None = None
        """The nodes that depend on a leaf; None for all: without nesting, a tape has no other nodes."""
        if is_nested:
            nodes.sort(key=_get_order)
            self.needed = set(leaves)
            for node in self.nodes:
                if any(parent is not None and parent in self.needed for parent in node.parents):
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
        nodes.sort(key=_get_order)
        gradients: dict[Node | None, Any] = {self.root: start}
        completions = None if on_gradient is None else _Completions(self, gradients, on_gradient)
        self.root = wanted = None
        while nodes:
            node = nodes.pop()
            if completions is not None:
                completions.reach(node)
            dy = gradients.pop(node, None)
            if leading is not None:
                leading.remove(node)
                wanted = [parent in leading for parent in node.parents]
            if dy is None:
                continue
            if type(node) is Call:
                if type(dy) is dict:
                    dy = _materialize_cotangents(node, dy)
                node.plan.accumulate_vjp(gradients, node, dy, wanted, linked)
            elif type(node) is Part:
                # a gradient rule may reach an output by another part than the caller did
                add(gradients.setdefault(node.parents[0], {}), node.index, dy)
            else:
                parents = node.parents
                for index, gradient in node.pull(dy, wanted, linked):
                    if wanted is None or wanted[index]:
                        add(gradients, parents[index], gradient)
        if completions is not None:
            completions.reach(None)
        return [gradients.get(leaf) for leaf in self.leaves]


_get_order = attrgetter("order")


class _Completions:
    """Reports the gradient of each leaf once the last node that adds to it has been processed."""

    __slots__ = ("after", "gradients", "leaves", "previous", "report")

    def __init__(
        self,
        walk: BackwardPass,
        gradients: Mapping[Node | None, Any],
        report: Callable[[int, Tensor], None],
    ) -> None:
        """Find the last node that adds to each leaf; the nodes are sorted, and are processed from the end."""
        self.report = report
        self.gradients = gradients
        self.leaves = walk.leaves
        positions: dict[Node | None, int] = {leaf: i for i, leaf in enumerate(walk.leaves)}
        self.after: dict[Node | None, list[int]] = {}
        """The positions of the leaves that are complete after a node; after None, those that are the root."""
        for node in walk.nodes:
            last = [positions.pop(parent) for parent in node.parents if parent in positions]
            if last:
                self.after[node] = last
        self.after[None] = list(positions.values())
        self.previous: Node | None = None

    def reach(self, node: Node | None) -> None:
        """Report what is complete before a node, or None for the end, is processed."""
        for position in self.after.pop(self.previous, ()):
            gradient = self.gradients.get(self.leaves[position])
            if gradient is not None:
                self.report(position, gradient)
        self.previous = node


class MaterializedCotangents(list["Tensor"]):
    """The cotangents of all outputs of a call, with zeros for outputs that the result does not depend on."""

    __slots__ = ("absent",)
    absent: frozenset[int]
    """The indices of the outputs that the result does not depend on."""


def _materialize_cotangents(call: Any, parts: dict[int, Tensor]) -> MaterializedCotangents:
    """Return the cotangents of all outputs of a call, with zeros for those that are missing."""
    cotangents = MaterializedCotangents(
        parts[i]
        if i in parts
        else creation.fill.on(call.backend, shape=spec.shape, value=0, dtype=spec.dtype)
        for i, spec in enumerate(call.specs)
    )
    cotangents.absent = frozenset(range(len(cotangents))) - parts.keys()
    return cotangents
