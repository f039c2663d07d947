"""Tracing of a function and its gradient into a graph: nodes are calls, and edges are arrays.

A watcher of the engine sees the arrays of each call. They are kept until the end, so that the identity of an
array says where it comes from.
"""

from __future__ import annotations

import gc
import inspect
import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from plugrad.engine.implementations import add_watcher, remove_watcher
from plugrad.engine.watching import Call, Watcher
from plugrad.kernels import creation
from plugrad.ops.creation import asarray, ones_like
from plugrad.tape.nodes import Node as Step, next_node_order
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_tensors, make_too_deep_error, map_tree
from plugrad.transforms.gradients import vjp
from plugrad.transforms.variable import Variable
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from plugrad.tensor.backend import Backend


@dataclass
class Node:
    """A box in the picture."""

    kind: str
    """"kernel", "argument", "constant", "variable", "result", "start" (of the gradient) or "gradient"."""
    title: str
    """The first line in the box."""
    lines: list[str]
    """The lines below the title: dtypes and shapes."""
    details: list[str] = field(default_factory=list[str])
    """The further lines of the tooltip."""
    is_backward: bool = False
    """Whether the call belongs to the gradient."""
    owner: int | None = None
    """The node whose gradient this one computes."""


class Edge(NamedTuple):
    """An array that flows between two nodes, given by index."""

    source: int
    """The index of the node from which the array comes."""
    target: int
    """The index of the node that takes the array."""


class _RecordedCall(NamedTuple):
    """A call of a kernel, with the steps of the tape that tell where it belongs."""

    call: Call
    """The call as the engine reports it."""
    is_backward: bool
    """Whether the call belongs to the gradient."""
    differentiated_order: int | None
    """The order of the tape's step whose gradient is being computed."""
    next_tape_order: int
    """Steps of the tape that were recorded before the call have a smaller order."""


class _Recorder:
    """A watcher that records the calls of a function and of its gradient."""

    def __init__(self) -> None:
        self.events: list[_RecordedCall] = []
        self.is_pulling = False
        """Whether the function has returned, and its gradient is being computed."""
        self._thread = get_ident()

    def record_call(self, call: Call) -> None:
        """Record a call if it runs in this thread."""
        if get_ident() != self._thread:
            return
        step = _differentiated_step()
        if step is not None or not self.is_pulling:  # otherwise it prepares the gradient
            order = None if step is None else step.order
            self.events.append(_RecordedCall(call, step is not None, order, next_node_order()))


def _differentiated_step() -> Step | None:
    """Return the step of the tape whose gradient is being computed, or None.

    The stack says it. To note it where gradients are computed would slow down every program.
    """
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code is BackwardPass.run.__code__:
            return frame.f_locals["node"]
        frame = frame.f_back
    return None


GraphElements = tuple[list[Node], list[Edge]]
"""The nodes and the edges of a graph."""


def trace_graph(function: Callable[..., Any], args: Sequence[Any]) -> GraphElements:
    """Run a function and its gradient, and return the graph of their kernel calls."""
    names: list[str] = []
    given: list[Tensor] = []
    differentiated: list[int] = []
    for name, arg in zip(_parameter_names(function, len(args)), args, strict=True):
        for path, leaf in _named_leaves(arg, name):
            if isinstance(leaf, Tensor | np.ndarray | np.generic | float | complex):
                x = asarray(leaf)
                if x.dtype.is_inexact:
                    differentiated.append(len(given))
                names.append(path)
                given.append(x)

    kept: list[Any] = []

    def run(*leaves: Tensor) -> list[Tensor]:
        """Call the function with its arguments, some of which have been replaced by leaves of the tape."""
        tensors = list(given)
        for position, leaf in zip(differentiated, leaves, strict=True):
            tensors[position] = leaf
        remaining = iter(tensors)

        def replace_leaf(leaf: Any) -> Any:
            is_given = isinstance(leaf, Tensor | np.ndarray | np.generic | float | complex)
            return next(remaining) if is_given else leaf

        result = function(*(map_tree(replace_leaf, arg) for arg in args))
        kept.append(result)
        return [y for y in iter_tensors(result) if y.node is not None]

    variables = _live_variables()
    recorder = _Recorder()
    watcher = Watcher(recorder.record_call, False)
    starts: list[Tensor] = []
    gradients: Sequence[Tensor] = ()
    add_watcher(watcher)
    try:
        values, pull = vjp(run, *(given[i] for i in differentiated))
        recorder.is_pulling = True
        if values and not any(event.is_backward for event in recorder.events):
            starts = [ones_like(y) for y in values]
            gradients = pull(starts)
    finally:
        remove_watcher(watcher)

    picture = _GraphBuilder(recorder.events)
    for name, x in zip(names, given, strict=True):
        picture.add_source("argument", name, x.array)
    for name, array in variables:
        picture.named[id(array)] = name
    for start in starts:
        picture.add_source("start", "ones", start.array)
    picture.add_calls()
    for path, leaf in _named_leaves(kept[0], "result"):
        if isinstance(leaf, Tensor):
            picture.add_sink("result", path, leaf.array)
    for position, gradient in zip(differentiated, gradients, strict=bool(gradients)):
        picture.add_sink("gradient", f"gradient of {names[position]}", gradient.array)
    return picture.build()


def _parameter_names(function: Callable[..., Any], argument_count: int) -> list[str]:
    """Return a name for each positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a compiled function, or one with a wrong signature
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (names + [f"argument {i}" for i in range(len(names), argument_count)])[:argument_count]


def _named_leaves(tree: Any, root_path: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a tree in order, with paths such as ``weights['k0']``.

    Raises:
        ArgumentError: the tree contains itself, or has too many levels.
    """
    try:
        yield from _iter_named_leaves(tree, root_path)
    except RecursionError:
        raise make_too_deep_error() from None


def _iter_named_leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a tree with their paths, without a check of its depth."""
    if isinstance(tree, dict):
        for key, part in cast("dict[Any, Any]", tree).items():
            yield from _iter_named_leaves(part, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for i, part in enumerate(cast("Sequence[Any]", tree)):
            yield from _iter_named_leaves(part, f"{path}[{i}]")
    else:
        yield path, tree


def _live_variables() -> list[tuple[str, Any]]:
    """Return the names and arrays of all live variables, by asking the garbage collector."""
    referrers = filter(Variable.__instancecheck__, gc.get_referrers(Variable))
    live = cast("list[Variable]", list(referrers))
    return [(v.name or "variable", v.array) for v in live if not v.is_disposed]


class _GraphBuilder:
    """Builds the graph from the recorded calls."""

    def __init__(self, events: list[_RecordedCall]) -> None:
        self.events = events
        self.nodes: list[Node] = []
        self.edges: dict[Edge, None] = {}
        self.makers: dict[int, int] = {}
        """The node that made an array, by the array's identity."""
        self.named: dict[int, str] = {}
        """The names of variables by the identities of their arrays."""
        self._coefficients: dict[tuple[int, int], int] = {}

    def add_source(self, kind: str, title: str, array: Any) -> None:
        """Add a node that produces an array."""
        self.makers[id(array)] = len(self.nodes)
        self.nodes.append(Node(kind, title, [describe_array(array)], is_backward=kind == "start"))

    def add_sink(self, kind: str, title: str, array: Any) -> None:
        """Add a node that consumes an array; a gradient that no call has computed is zero and not drawn."""
        maker = self.makers.get(id(array))
        if maker is None:
            return
        is_backward = kind == "gradient" or self.nodes[maker].is_backward
        self.edges[Edge(maker, len(self.nodes))] = None
        self.nodes.append(Node(kind, title, [describe_array(array)], is_backward=is_backward))

    def add_calls(self) -> None:
        """Add the calls in the order of time."""
        positions: list[int] = []
        orders = [event.next_tape_order for event in self.events]
        for event in self.events:
            call = event.call
            inputs = [x for x in call.arrays if x is not None and x is not call.backend]
            several = isinstance(call.result, list | tuple)
            outputs: list[Any] = list(call.result) if several else [call.result]
            sources = [self._find_or_add_source(x, call.backend) for x in inputs]
            # The tape's step of a call was recorded right after it.
            before = (
                -1
                if event.differentiated_order is None
                else bisect_right(orders, event.differentiated_order) - 1
            )
            owner = positions[before] if before >= 0 else None
            here = len(self.nodes)
            positions.append(here)
            lines = [describe_array(x) for x in outputs]
            self.nodes.append(
                Node(
                    "kernel",
                    call.kernel_name,
                    [*lines[:3], f"and {len(lines) - 3} more"] if len(lines) > 4 else lines,
                    [
                        *(f"input: {describe_array(x)}" for x in inputs),
                        *(f"{name}: {_short_text(value)}" for name, value in call.attrs.items()),
                        f"device: {call.backend.label}",
                    ],
                    event.is_backward,
                    owner,
                )
            )
            for source in sources:
                self.edges[Edge(source, here)] = None
            for x in outputs:
                self.makers[id(x)] = here

    def _find_or_add_source(self, array: Any, backend: Backend) -> int:
        """Return the node that produces an array on a backend; one is added if no call has produced it."""
        known = self.makers.get(id(array))
        if known is not None:
            return known
        here = len(self.nodes)
        name = self.named.get(id(array))
        is_number = name is None and array.shape == ()
        title = str(backend.to_numpy(array)) if is_number else name or "constant"
        self.nodes.append(Node("variable" if name else "constant", title, [describe_array(array)]))
        if not is_number:  # numbers are drawn beside each call that takes them
            self.makers[id(array)] = here
        return here

    def build(self) -> GraphElements:
        """Return the graph, with nodes that only gradients use assigned to the gradients."""
        takers: dict[int, list[int]] = {}
        for source, target in self.edges:
            takers.setdefault(source, []).append(target)
        sources = {target for _, target in self.edges}
        for i in reversed(range(len(self.nodes))):
            node = self.nodes[i]
            # `grad` begins with ones in the shape of the result, which is no part of the function.
            begins = i not in sources or node.title == creation.ones_like.name
            begins = begins and node.kind != "argument"
            if begins and i in takers and all(self.nodes[t].is_backward for t in takers[i]):
                node.is_backward = True
        return self.nodes, list(self.edges)


def describe_array(array: Any) -> str:
    """Return the dtype and the shape of an array, such as ``float32 2×3``."""
    return f"{as_dtype(array.dtype)} {'×'.join(map(str, array.shape)) or '()'}"


def _short_text(value: Any) -> str:
    """Return the text of a value, cut off after 57 characters if it is long."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
