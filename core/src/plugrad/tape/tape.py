"""The tape: how calls are recorded, and the walk back along them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from plugrad.kernels import creation
from plugrad.registry.composites import find_composite
from plugrad.registry.gradients import find_gradient
from plugrad.tape.nodes import Call, Leaf, Node, Part, Step, add
from plugrad.tape.plans import missing_gradient

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Walk:
    """The nodes between a result and the leaves, and whether an outer derivative needs them as well."""

    __slots__ = ("is_nested", "leading", "leaves", "nodes", "root")

    def __init__(self, root: Node | None, leaves: Sequence[Leaf]) -> None:
        """Find the nodes that lead from `leaves` to `root`; a leaf that is reached is not one of them."""
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
        self.leading: set[Node | None] | None = None
        """The nodes that depend on a leaf; None for all: without nesting, a tape has no other nodes."""
        if is_nested:
            nodes.sort(key=_order_of)
            self.leading = set(leaves)
            for node in self.nodes:
                if any(parent is not None and parent in self.leading for parent in node.parents):
                    self.leading.add(node)
            self.nodes = [node for node in self.nodes if node in self.leading]

    def back(self, start: Any) -> list[Tensor | None]:
        """Return the gradient of each leaf, given that of the root; None where the root does not depend on it.

        A node and its saved values are released as soon as it has been passed; a walk can be taken only
        once.
        """
        nodes, leading, linked = self.nodes, self.leading, self.is_nested
        nodes.sort(key=_order_of)
        gradients: dict[Node | None, Any] = {self.root: start}
        self.root = wanted = None
        while nodes:
            node = nodes.pop()
            dy = gradients.pop(node, None)
            if leading is not None:
                leading.remove(node)
                wanted = [parent in leading for parent in node.parents]
            if dy is None:
                continue
            if type(node) is Call:
                if type(dy) is dict:
                    dy = _filled(node, dy)
                node.plan.pull_into(gradients, node, dy, wanted, linked)
            elif type(node) is Part:
                # a gradient rule may reach an output by another part than the caller did
                add(gradients.setdefault(node.parents[0], {}), node.index, dy)
            else:
                parents = node.parents
                for index, gradient in node.pull(dy, wanted, linked):
                    if wanted is None or wanted[index]:
                        add(gradients, parents[index], gradient)
        return [gradients.get(leaf) for leaf in self.leaves]


_order_of = attrgetter("order")


class Filled(list["Tensor"]):
    """The gradients of all outputs of a call; those of absent outputs are zeros."""

    __slots__ = ("absent",)
    absent: frozenset[int]
    """The indices of the outputs that the result does not depend on."""


def _filled(call: Any, parts: dict[int, Tensor]) -> Filled:
    """Return the gradients of all outputs of a call, zeros where there is none."""
    filled = Filled(
        parts[i]
        if i in parts
        else creation.fill.on(call.backend, shape=spec.shape, value=0, dtype=spec.dtype)
        for i, spec in enumerate(call.specs)
    )
    filled.absent = frozenset(range(len(filled))) - parts.keys()
    return filled
