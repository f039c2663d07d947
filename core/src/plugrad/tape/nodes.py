"""The nodes of the tape: the steps from the differentiated tensors to a result.

The tape is not a list but a graph that hangs on the tensors: a tensor that is being differentiated
carries the `Node` of the call that made it, and a node keeps its inputs' nodes and only what its
gradient rules need. So nothing is recorded for tensors that are not differentiated, threads do
not share a tape, an error leaves nothing behind, and memory is freed with the last tensor. Nodes
hold arrays, never tensors, so there are no reference cycles.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count
from operator import attrgetter
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, cast, final

from plugrad.errors import ShapeError
from plugrad.garbage import restore_full_collections
from plugrad.kernels import movement, reduction
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype
from plugrad.types.shapes import broadcast, broadcast_axes
from plugrad.types.specs import Shaped, TensorArray

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from plugrad.registry.gradients import VjpPlan
    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape

InputGradients = list[tuple[int, Tensor | None]]
"""The position of each input that needs a gradient, with its gradient."""
GradientOfNode = dict[Any, Any]
"""The sum of the gradients that have reached each node; for a call with several outputs, a dict of sums by output."""
next_node_order: Final = count().__next__
"""Return the next number in the order in which nodes are made."""


class Node:
    """One step of the tape. `order` increases with time, so a node's parents always have a smaller one.

    The parents are the nodes of the step's inputs, None for an input that is not being differentiated.
    """

    __slots__ = ("order", "parents")

    def __init__(self, parents: Sequence[Node | None]) -> None:
        """Record a step whose inputs have these nodes."""
        self.order: int = next_node_order()
        self.parents = parents

    def is_being_differentiated(self) -> bool:
        """Whether the node depends on an input of a function that is being differentiated now.

        Arguments of a function with its own gradient are constants inside it.
        """
        opened = min([leaf.order for leaf in tuple(open_leaves)], default=self.order + 1)
        first = max(opened, constants_before_order.get())
        nodes: list[Node] = [self] if self.order >= first else []
        add_ancestors(nodes, {self}, first)
        return not open_leaves.isdisjoint(nodes)


@final
class Call(Node):
    """A kernel call on the tape, with the values that its gradient plan needs; other slots stay empty.

    The engine sets them all, without calling a constructor, which would take as long as all of that.
    """

    __slots__ = (
        "attrs",
        "backend",
        "dtypes",
        "gradient_plan",
        "outputs",
        "saved",
        "shapes",
        "specs",
    )
    attrs: Mapping[str, Any]
    backend: Backend
    dtypes: Sequence[Any]
    """The dtypes of the inputs."""
    outputs: Any
    """The array of the output, or the list of those of several outputs."""
    gradient_plan: VjpPlan
    saved: Sequence[Any]
    """The arrays of the inputs that the plan needs."""
    shapes: Sequence[Shape | None]
    """The shapes of the inputs, None for an absent one."""
    specs: Sequence[Shaped]
    """The shapes and dtypes of several outputs."""

    def split_outputs(self, outputs: Sequence[Tensor]) -> None:
        """Give each of several outputs a node of its own."""
        self.specs = [Shaped(x.shape, x.dtype) for x in outputs]
        for index, x in enumerate(outputs):
            x.node = OutputNode(self, index)

    def save_values(self, arrays: Sequence[Any], output: Any) -> None:
        """Save the inputs, dtypes and outputs that the gradient plan needs for the backward pass."""
        plan = self.gradient_plan
        if saved := plan.saved_inputs:
            self.saved = arrays if len(saved) >= len(arrays) else [arrays[i] for i in saved]
        if plan.needs_dtypes:
            self.dtypes = [None if x is None else x.dtype for x in arrays]
        if plan.needs_output:
            tensors = cast("list[Tensor]", output)
            self.outputs = [x.array for x in tensors] if type(output) is list else output.array

    def output_tensors(self, create_graph: bool) -> Tensor | list[Tensor]:
        """Return the saved output, or the list of outputs, as tensors."""
        if type(self.outputs) is list:
            arrays = cast("list[Any]", self.outputs)  # pyright: ignore[reportUnknownMemberType]
            return [
                Tensor(a, self.backend, OutputNode(self, i) if create_graph else None)
                for i, a in enumerate(arrays)
            ]
        return Tensor(self.outputs, self.backend, self if create_graph else None)

    def spec(self, input_position: int) -> Shaped | None:
        """Return the shape and dtype of an input, or None if it was absent."""
        shape = self.shapes[input_position]
        return None if shape is None else Shaped(shape, as_dtype(self.dtypes[input_position]))

    def fit_to_input(self, input_position: int, gradient: Tensor | None) -> Tensor | None:
        """Return a gradient summed to the shape of its input, if the shapes differ."""
        shape = self.shapes[input_position]
        if gradient is None or shape is None or gradient.array.shape == shape:
            return gradient
        try:
            return sum_to_shape(gradient, shape)
        except ShapeError:
            raise ShapeError(
                f"the gradient of {self.gradient_plan.kernel.name} for input "
                f"{self.gradient_plan.kernel.input_name(input_position)!r} has shape {gradient.shape}; the input has "
                f"shape {shape}"
            ) from None


@final
class OutputNode(Node):
    """One of several outputs of a call; `BackwardPass.run` collects their gradients for the call."""

    __slots__ = ("index",)

    def __init__(self, call: Node, index: int) -> None:
        """Create the node of output `index` of a call."""
        super().__init__((call,))
        self.index: int = index


class CustomNode(Node):
    """A node that is not a kernel call; it computes its own vector-Jacobian product."""

    __slots__ = ()

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return (position, gradient) pairs for the inputs that need one (None: all), given the output's gradient `dy`.

        If `create_graph`, saved tensors keep their nodes, so that the result can be differentiated
        again.
        """
        raise NotImplementedError


class Leaf(CustomNode):
    """A node at which differentiation begins: an argument of the differentiated function."""

    __slots__ = ("origin",)

    def __init__(self, parents: tuple[Node | None, ...]) -> None:
        """Begin; the parent is the node of the argument."""
        self.order = next_node_order()  # as in `Node`, in half of the time
        self.parents = parents
        self.origin: object = LEAF_REFERENCE_COUNTER

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return the gradient unchanged, as that of the argument."""
        return [(0, dy)]


LEAF_REFERENCE_COUNTER: Final = object()
"""An object to which only leaves refer, so that its reference count tells how many of them are alive."""


_REFERENCE_COUNT_WITHOUT_LEAVES: Final = getrefcount(LEAF_REFERENCE_COUNTER)
"""The reference count of `LEAF_REFERENCE_COUNTER` when no leaf is alive."""


def count_live_leaves() -> int:
    """Return the number of live leaves in all threads."""
    return getrefcount(LEAF_REFERENCE_COUNTER) - _REFERENCE_COUNT_WITHOUT_LEAVES


open_leaves: Final[set[Node]] = set()
"""The leaves of the functions that are running, in all threads: what depends on them is being differentiated."""
constants_before_order: Final[ContextVar[int]] = ContextVar("plugrad_constants_before", default=0)
"""The node order below which nodes are constants: within a function with a custom gradient, the order of its call."""


def end_recording(leaves: Collection[Leaf]) -> None:
    """Mark the functions that are differentiated by these leaves as finished."""
    open_leaves.difference_update(leaves)
    if not open_leaves:
        restore_full_collections()


class Recording:
    """A block in which the functions that are differentiated by some leaves are marked as running."""

    __slots__ = ("leaves",)

    def __init__(self, leaves: Collection[Leaf]) -> None:
        """Note the leaves."""
        self.leaves = leaves

    def __enter__(self) -> None:
        """Mark the functions as running."""
        open_leaves.update(self.leaves)

    def __exit__(self, *_: object) -> None:
        """Mark them as finished."""
        end_recording(self.leaves)


class ResultBundle(CustomNode):
    """Several results as one root, whose gradient is the list of their gradients."""

    __slots__ = ()

    def vjp(
        self, dy: Any, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return the gradient of each result."""
        return list(enumerate(dy))


def add_ancestors(nodes: list[Node], known_nodes: set[Node | None], first_order: int) -> bool:
    """Extend `nodes` by their ancestors, except known nodes and those with an order below `first_order`.

    Returns:
        Whether something older was left out.
    """
    has_older = False
    for node in nodes:  # it grows
        for parent in node.parents:
            if parent is None or parent in known_nodes:
                continue
            if parent.order < first_order:
                has_older = True
            else:
                known_nodes.add(parent)
                nodes.append(parent)
    return has_older


def differentiation_depth(x: Tensor) -> int:
    """Return how many times at most a tensor is being differentiated: by how many nested functions.

    >>> import plugrad
    >>> from plugrad.extend import differentiation_depth
    >>> plugrad.grad(plugrad.grad(lambda x: x**3 * differentiation_depth(x)))(1.0)
    tensor(12., dtype=float32)
    """
    outside = differentiation_depth(x.array.tensor) if isinstance(x.array, TensorArray) else 0
    nodes: list[Node] = [] if x.node is None else [x.node]
    add_ancestors(nodes, {None, *nodes}, 0)
    depths: dict[Node | None, int] = {None: 0}
    for node in sorted(nodes, key=attrgetter("order")):
        depths[node] = max([depths[parent] for parent in node.parents], default=0)
        depths[node] += node in open_leaves
    return depths[x.node] + outside


def accumulate_gradient(gradients: GradientOfNode, key: Any, gradient: Tensor | None) -> None:
    """Add a gradient to that of a node or output, the key; do nothing if the gradient or the key is None."""
    if gradient is not None and key is not None:
        known = gradients.get(key)
        gradients[key] = gradient if known is None else known + gradient


def sum_to_shape(x: Tensor, shape: Shape) -> Tensor:
    """Return `x` summed over the axes along which broadcasting repeats a tensor of `shape` to x's shape.

    Raises:
        ShapeError: `shape` does not broadcast to x's shape.
    """
    if x.shape == shape:
        return x
    broadcast(x.shape, shape)
    axes = broadcast_axes(shape, x.shape)
    total = reduction.sum(x, axis=axes, keep_dims=False)
    return total if total.shape == shape else movement.reshape(total, shape=shape)
