"""The tape: calls that lead from the differentiated tensors to a result, and the walk back along them.

The tape is not a list but a graph that hangs on the tensors: a tensor that is being differentiated carries the `Node`
of the call that made it, and a node keeps its inputs' nodes and just what its gradient rules ask for. So nothing is
recorded for tensors that nobody differentiates, threads do not share a tape, an error leaves nothing behind, and memory
goes when the last tensor does. Nodes hold arrays, never tensors, so there are no reference cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from plugrad import registry
from plugrad.dtype import as_dtype
from plugrad.errors import GradientNotFound, ShapeError
from plugrad.shapes import broadcast, stretched_axes
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from plugrad.backend import Backend
    from plugrad.gradient import Plan
    from plugrad.kernel import Kernel, Shape

Pulled = Iterable[tuple[int, Tensor | None]]
_next_order = count().__next__


class Node:
    """One step of the tape. `order` grows with time, so a node's parents always have a smaller one."""

    __slots__ = ("order", "parents")

    def __init__(self, parents: tuple[Node | None, ...]) -> None:
        """Record a step whose inputs have these nodes; None for an input that is not being differentiated."""
        self.order: int = _next_order()
        self.parents = parents

    def pull(self, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Return (position, gradient) for the wanted inputs, given the gradient `dy` of the output.

        If `linked`, saved tensors still know where they came from, so that the result can be differentiated again.
        """
        raise NotImplementedError


class Leaf(Node):
    """Where differentiation begins: an argument of the differentiated function under a new name."""

    __slots__ = ()

    def pull(self, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Pass the gradient on to the tensor behind the new name."""
        return [(0, dy)]


class Part(Node):
    """One of several outputs of a call; `walk_back` collects the parts' gradients for the whole call."""

    __slots__ = ("index",)

    def __init__(self, whole: Node, index: int) -> None:
        """Name output `index` of the call `whole`."""
        super().__init__((whole,))
        self.index = index


class Call(Node):
    """A kernel call, with what its gradient's plan asks for: input arrays, outputs, shapes."""

    __slots__ = ("attrs", "backend", "dtypes", "kernel", "outputs", "plan", "saved", "shapes")

    def __init__(
        self, kernel: Kernel[..., Any], plan: Plan | None, parents: tuple[Node | None, ...], arrays: Sequence[Any],
        attrs: Mapping[str, Any], backend: Backend,
    ) -> None:
        """Record a call; a `plan` of None means that the kernel has no gradient, which matters only if one is asked for."""
        self.order = _next_order()
        self.parents = parents
        self.kernel = kernel
        self.plan = plan
        self.attrs = attrs
        self.backend = backend
        self.shapes: list[Shape | None] = [None if a is None else a.shape for a in arrays]
        self.dtypes: list[Any] = [None if a is None else a.dtype for a in arrays]
        self.saved: Sequence[Any] = [arrays[i] for i in plan.saved_inputs] if plan is not None else ()
        self.outputs: Any = None

    def pull(self, dy: Any, wanted: Sequence[bool], linked: bool) -> Pulled:
        """Evaluate the rules of the wanted inputs and sum each gradient to its input's shape."""
        if self.plan is None:
            raise GradientNotFound(
                f"kernel {self.kernel.name!r} lies between the result and a differentiated input but has no gradient; "
                "declare one with register_gradient, or cut the path with stop_gradient"
            )
        for index, gradient in self.plan.pull(self, dy, wanted, linked):
            if gradient is not None:
                gradient = self._fitted(index, gradient)
            yield index, gradient

    def saved_tensors(self, linked: bool) -> list[Tensor]:
        """Return the saved inputs as tensors."""
        assert self.plan is not None
        nodes = self.parents
        return [
            Tensor(a, self.backend, nodes[i] if linked else None)
            for i, a in zip(self.plan.saved_inputs, self.saved, strict=True)
        ]

    def output_tensors(self, linked: bool) -> Tensor | list[Tensor]:
        """Return the saved outputs as tensors."""
        if type(self.outputs) is list:
            return [Tensor(a, self.backend, Part(self, i) if linked else None) for i, a in enumerate(self.outputs)]
        return Tensor(self.outputs, self.backend, self if linked else None)

    def _fitted(self, index: int, gradient: Tensor) -> Tensor:
        """Return the gradient summed to the input's shape, or raise if it is none of this input."""
        shape = self.shapes[index]
        if gradient.shape != shape:
            assert shape is not None
            try:
                gradient = sum_to(gradient, shape)
            except ShapeError:
                raise ShapeError(
                    f"the gradient of {self.kernel.name} for input {self._name(index)!r} has shape {gradient.shape}; "
                    f"the input has shape {shape}"
                ) from None
        if gradient.array.dtype != self.dtypes[index]:
            raise registry.RegistrationError(
                f"the gradient of {self.kernel.name} for input {self._name(index)!r} has dtype {gradient.dtype}; "
                f"the input has dtype {as_dtype(self.dtypes[index])}"
            )
        return gradient

    def _name(self, index: int) -> str:
        names = self.kernel.inputs
        return f"{names[0]}[{index}]" if self.kernel.is_variadic else names[index]


def record(kernel: Kernel[..., Any], inputs: Sequence[Tensor | None], arrays: Sequence[Any], attrs: Mapping[str, Any],
           output: Any) -> None:
    """Put a kernel call on the tape: give its output, one tensor or a list of them, the node of the call."""
    parents = tuple([None if x is None else x.node for x in inputs])
    gradient = registry.get_gradient(kernel.name)
    plan = None
    if gradient is not None:
        if gradient.is_zero:
            return
        plan = gradient.plan(kernel, parents)
    if type(output) is not list:
        call = Call(kernel, plan, parents, arrays, attrs, output.backend)
        if plan is not None and plan.needs_output:
            call.outputs = output.array
        output.node = call
        return
    if not output:
        return
    call = Call(kernel, plan, parents, arrays, attrs, output[0].backend)
    needs_output = plan is not None and plan.needs_output
    call.outputs = [t.array if needs_output else Shaped(t.shape, t.dtype) for t in output]
    for index, tensor in enumerate(output):
        tensor.node = Part(call, index)


class Walk:
    """The nodes between a result and the leaves, and whether someone further out differentiates them as well."""

    def __init__(self, root: Node | None, leaves: Sequence[Leaf]) -> None:
        """Find the nodes that lead from `leaves` to `root`."""
        self.root = root
        self.leaves = leaves
        self.is_nested = any(leaf.parents[0] is not None for leaf in leaves)
        first = min((leaf.order for leaf in leaves), default=0)
        self.leading: set[Node] = set(leaves)
        self.nodes: list[Node] = []
        found = {root}
        stack = [root] if root is not None and root.order >= first else []
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            if node in self.leading:
                continue
            for parent in node.parents:
                if parent is None or parent in found:
                    continue
                if parent.order < first:  # older than the leaves: it cannot depend on them
                    self.is_nested = True
                    continue
                found.add(parent)
                stack.append(parent)
        self.nodes.sort(key=_order_of)
        for node in self.nodes:
            for parent in node.parents:
                if parent in self.leading and node not in self.leading:
                    self.leading.add(node)

    def back(self, dy: Tensor) -> list[Tensor | None]:
        """Return the gradient of each leaf, None where the result does not depend on it.

        A node is let go as soon as it has been passed, and what it saved with it; a walk is taken once.
        """
        gradients: dict[Node, Any] = {} if self.root is None else {self.root: dy}
        finished: dict[Node, Tensor] = {}
        self.root = None
        while self.nodes:
            node = self.nodes.pop()
            dy = gradients.pop(node, None)
            if dy is None or node not in self.leading:
                continue
            if node in self.leaves:
                finished[node] = dy
                continue
            self.leading.remove(node)
            if type(node) is Part:
                whole = node.parents[0]
                assert whole is not None
                gradients.setdefault(whole, {})[node.index] = dy
                continue
            if type(dy) is dict:
                dy = _filled(node, dy)
            wanted = [parent in self.leading for parent in node.parents]
            for index, gradient in node.pull(dy, wanted, self.is_nested):
                parent = node.parents[index]
                if gradient is not None and wanted[index] and parent is not None:
                    known = gradients.get(parent)
                    gradients[parent] = gradient if known is None else known + gradient
        return [finished.get(leaf) for leaf in self.leaves]


def _order_of(node: Node) -> int:
    return node.order


def _filled(call: Any, parts: dict[int, Tensor]) -> list[Tensor]:
    """Return the gradients of all outputs of a call, zeros where there is none."""
    return [parts[i] if i in parts else _zeros(output, call.backend) for i, output in enumerate(call.outputs)]


def _zeros(like: Any, backend: Backend) -> Tensor:
    return engine.create(creation.fill, backend, {"shape": like.shape, "value": 0, "dtype": as_dtype(like.dtype)})


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


# Gradients are summed with kernels, and kernels run on the engine, which records on the tape: the names below come last.
from plugrad import engine  # noqa: E402
from plugrad.kernel import Shaped  # noqa: E402
from plugrad.kernels import creation, movement, reduction  # noqa: E402
