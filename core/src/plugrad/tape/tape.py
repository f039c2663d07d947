"""The tape: how calls are recorded, and the walk back along them."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from plugrad.kernels import creation
from plugrad.registry.gradients import gradients
from plugrad.tape.nodes import Call, Leaf, Node, Part
from plugrad.tape.plans import missing_gradient
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor


def record(
    kernel: Kernel[..., Any],
    parents: Sequence[Node | None],
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
    output: Any,
) -> None:
    """Put a kernel call on the tape: give its output, one tensor or a list of them, the node of the call.

    `parents` are the nodes of the inputs, None for an input that is not being differentiated.
    """
    gradient = gradients.get(kernel.name) or missing_gradient(kernel)
    differentiated = 0  # one bit for each input, the lowest for the last one
    for parent in parents:
        differentiated += differentiated + (parent is not None)
    try:
        plan = gradient.plans[differentiated]
    except KeyError:
        plan = gradient.plans[differentiated] = gradient.planner(
            kernel, [i for i, p in enumerate(parents) if p is not None]
        )
    if plan is None:
        return
    shapes = [None if x is None else x.shape for x in arrays]
    if type(output) is not list:
        call = output.node = Call(plan, tuple(parents), shapes, attrs, output.backend)
    elif output:
        tensors = cast("list[Tensor]", output)
        call = Call(plan, tuple(parents), shapes, attrs, tensors[0].backend)
        call.specs = [Shaped(t.shape, t.dtype) for t in tensors]
        for index, tensor in enumerate(tensors):
            tensor.node = Part(call, index)
    else:
        return
    if plan.keeps_something:
        call.keep(arrays, output)


class Walk:
    """The nodes between a result and the leaves, and whether someone further out differentiates them as well."""

    def __init__(self, root: Node | None, leaves: Sequence[Leaf]) -> None:
        """Find the nodes that lead from `leaves` to `root`."""
        self.root = root
        self.leaves = leaves
        first = min((leaf.order for leaf in leaves), default=0)
        is_older = root is not None and root.order < first
        self.is_nested = is_older or any(leaf.parents[0] is not None for leaf in leaves)
        self.nodes: list[Node] = []
        ends: set[Node | None] = {None, *leaves}
        found: set[Node | None] = {None, root}
        stack = [] if root is None or is_older else [root]
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            if node in ends:
                continue
            for parent in node.parents:
                if parent not in found:
                    assert parent is not None
                    if parent.order < first:  # older than the leaves: it cannot depend on them
                        self.is_nested = True
                    else:
                        found.add(parent)
                        stack.append(parent)
        self.nodes.sort(key=_order_of)
        self.leading: set[Node | None] | None = None
        """The nodes that depend on a leaf; None for all: without nesting, nothing else puts nodes on a tape."""
        if self.is_nested:
            self.leading = set(leaves)
            for node in self.nodes:
                if any(parent is not None and parent in self.leading for parent in node.parents):
                    self.leading.add(node)
            self.nodes = [node for node in self.nodes if node in self.leading]

    def back(self, start: Any) -> list[Tensor | None]:
        """Return the gradient of each leaf, given that of the root; None where the root does not depend on it.

        A node is let go as soon as it has been passed, and what it saved with it; a walk is taken
        once.
        """
        nodes, leading, linked = self.nodes, self.leading, self.is_nested
        gradients: dict[Node | None, Any] = {self.root: start}
        finished: dict[Node, Tensor | None] = dict.fromkeys(self.leaves)
        self.root = wanted = None
        while nodes:
            node = nodes.pop()
            dy = gradients.pop(node, None)
            if leading is not None:
                leading.remove(node)
                wanted = [parent in leading for parent in node.parents]
            if dy is None:
                continue
            parents = node.parents
            if node in finished:
                finished[node] = dy
            elif type(node) is Part:
                # a gradient rule that looks at an output reaches it by another part than the caller did
                parts = gradients.setdefault(parents[0], {})
                known = parts.get(node.index)
                parts[node.index] = dy if known is None else known + dy
            else:
                if type(dy) is dict:
                    dy = _filled(node, dy)
                for index, gradient in node.pull(dy, wanted, linked):
                    parent = parents[index]
                    if (
                        gradient is not None
                        and parent is not None
                        and (wanted is None or wanted[index])
                    ):
                        known = gradients.get(parent)
                        gradients[parent] = gradient if known is None else known + gradient
        return list(finished.values())


_order_of = attrgetter("order")


def _filled(call: Any, parts: dict[int, Tensor]) -> list[Tensor]:
    """Return the gradients of all outputs of a call, zeros where there is none."""
    return [
        parts[i]
        if i in parts
        else creation.fill.on(call.backend, shape=spec.shape, value=0, dtype=spec.dtype)
        for i, spec in enumerate(call.specs)
    ]
