"""The tape: calls that lead from the differentiated tensors to a result, and the walk back along them.

The tape is not a list but a graph that hangs on the tensors: a tensor that is being differentiated
carries the `Node` of the call that made it, and a node keeps its inputs' nodes and just what its
gradient rules ask for. So nothing is recorded for tensors that nobody differentiates, threads do
not share a tape, an error leaves nothing behind, and memory goes when the last tensor does. Nodes
hold arrays, never tensors, so there are no reference cycles.
"""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from plugrad.dtype import as_dtype
from plugrad.errors import ShapeError
from plugrad.registry import gradients
from plugrad.shapes import broadcast, stretched_axes
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.backend import Backend
    from plugrad.kernel import Kernel, Shape
    from plugrad.plan import Plan

Pulled = list[tuple[int, Tensor | None]]
_next_order = count().__next__


class Node:
    """One step of the tape. `order` grows with time, so a node's parents always have a smaller one."""

    __slots__ = ("order", "parents")

    def __init__(self, parents: tuple[Node | None, ...]) -> None:
        """Record a step whose inputs have these nodes; None for an input that is not being differentiated."""
        self.order: int = _next_order()
        self.parents = parents

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Return (position, gradient) for the wanted inputs (None: all), given the gradient `dy` of the output.

        If `linked`, saved tensors still know where they came from, so that the result can be
        differentiated again.
        """
        raise NotImplementedError


class Leaf(Node):
    """Where differentiation begins: an argument of the differentiated function under a new name."""

    __slots__ = ()

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Pass the gradient on to the tensor behind the new name."""
        return [(0, dy)]


class Bundle(Node):
    """Several results as one root: its gradient is the list of theirs."""

    __slots__ = ()

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Hand each result its gradient."""
        return list(enumerate(dy))


class Part(Node):
    """One of several outputs of a call; `walk_back` collects the parts' gradients for the whole call."""

    __slots__ = ("index",)

    def __init__(self, whole: Node, index: int) -> None:
        """Name output `index` of the call `whole`."""
        super().__init__((whole,))
        self.index = index


class Call(Node):
    """A kernel call, with what its gradient's plan asks for; the slots of what it does not stay empty."""

    __slots__ = ("attrs", "backend", "dtypes", "outputs", "plan", "saved", "shapes", "specs")

    def __init__(
        self,
        plan: Plan,
        parents: tuple[Node | None, ...],
        shapes: Sequence[Shape | None],
        attrs: Mapping[str, Any],
        backend: Backend,
    ) -> None:
        """Record a call."""
        self.order = _next_order()
        self.parents = parents
        self.plan = plan
        self.shapes = shapes
        self.attrs = attrs
        self.backend = backend

    def keep(self, arrays: Sequence[Any], output: Any) -> None:
        """Keep what the plan asks for."""
        plan = self.plan
        if plan.saved_inputs:
            whole = len(plan.saved_inputs) >= len(arrays)
            self.saved: Sequence[Any] = arrays if whole else [arrays[i] for i in plan.saved_inputs]
        if plan.needs_dtypes:
            self.dtypes: Sequence[Any] = [None if a is None else a.dtype for a in arrays]
        if plan.needs_output:
            tensors = cast("list[Tensor]", output if type(output) is list else [output])
            arrays_out = [t.array for t in tensors]
            self.outputs: Any = arrays_out if type(output) is list else arrays_out[0]

    def output(self, linked: bool) -> Tensor | list[Tensor]:
        """Return the saved output, or the list of outputs, as tensors."""
        if type(self.outputs) is list:
            arrays = cast("list[Any]", self.outputs)  # pyright: ignore[reportUnknownMemberType]
            return [
                Tensor(a, self.backend, Part(self, i) if linked else None)
                for i, a in enumerate(arrays)
            ]
        return Tensor(self.outputs, self.backend, self if linked else None)

    def spec(self, position: int) -> Shaped | None:
        """Return the shape and dtype of an input, or None if it was absent."""
        shape = self.shapes[position]
        if shape is None:
            return None
        return Shaped(shape, as_dtype(self.dtypes[position]))

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Apply the rules of the wanted inputs, and sum each gradient to its input's shape."""
        pulled = self.plan.pull(self, dy, wanted, linked)
        shapes = self.shapes
        for index, gradient in pulled:
            if gradient is not None and gradient.array.shape != shapes[index]:
                return [(i, g if g is None else self._summed(i, g)) for i, g in pulled]
        return pulled

    def _summed(self, index: int, gradient: Tensor) -> Tensor:
        """Return a gradient summed to the shape of its input."""
        shape = self.shapes[index]
        assert shape is not None
        try:
            return sum_to(gradient, shape)
        except ShapeError:
            raise ShapeError(
                f"the gradient of {self.plan.kernel.name} for input {self.plan.kernel.input_name(index)!r} "
                f"has shape {gradient.shape}; the input has shape {shape}"
            ) from None


def record(
    kernel: Kernel[..., Any],
    parents: tuple[Node | None, ...],
    differentiated: int,
    arrays: Sequence[Any],
    shapes: Sequence[Shape | None],
    attrs: Mapping[str, Any],
    output: Any,
) -> None:
    """Put a kernel call on the tape: give its output, one tensor or a list of them, the node of the call.

    `differentiated` has one bit for each input, the last input's lowest: whether it has a parent.
    """
    gradient = gradients.get(kernel.name) or missing_gradient(kernel)
    try:
        plan = gradient.plans[differentiated]
    except KeyError:
        plan = gradient.plans[differentiated] = gradient.planner(
            kernel, [i for i, p in enumerate(parents) if p is not None]
        )
    if plan is None:
        return
    if type(output) is not list:
        call = output.node = Call(plan, parents, shapes, attrs, output.backend)
    elif output:
        tensors = cast("list[Tensor]", output)
        call = Call(plan, parents, shapes, attrs, tensors[0].backend)
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
        parts[i] if i in parts else _zeros(spec, call.backend) for i, spec in enumerate(call.specs)
    ]


def _zeros(spec: Shaped, backend: Backend) -> Tensor:
    return engine.create(
        creation.fill, backend, {"shape": spec.shape, "value": 0, "dtype": spec.dtype}
    )


def sum_to(x: Tensor, shape: Shape) -> Tensor:
    """Return `x` summed over the axes along which a tensor of `shape` is repeated to have x's shape.

    Raises:
        ShapeError: `shape` does not broadcast to x's shape.
    """
    if x.shape == shape:
        return x
    broadcast(x.shape, shape)
    axes = stretched_axes(shape, x.shape)
    return movement.reshape(reduction.sum(x, axis=axes, keep_dims=False), shape=shape)


# Gradients are summed with kernels, and kernels run on the engine, which records on the tape: the
# names below come last.
from plugrad import engine  # noqa: E402
from plugrad.kernel import Shaped  # noqa: E402
from plugrad.kernels import creation, movement, reduction  # noqa: E402
from plugrad.plan import missing_gradient  # noqa: E402
