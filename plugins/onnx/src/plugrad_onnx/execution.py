"""Running graphs: nodes that do not depend on inputs are computed once, the others at each call."""

from __future__ import annotations

from collections import ChainMap
from contextvars import Context
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad.errors import PlugradError, UnsupportedDtype
from plugrad.extend import is_interruption
from plugrad_onnx.elements import (
    as_array,
    as_computable,
    as_tensor,
    is_array,
    is_list,
    is_stored_only,
    lacks_dtype,
)
from plugrad_onnx.errors import NodeFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from numpy.typing import NDArray

    from plugrad_onnx.graph import Graph, Node
    from plugrad_onnx.registry import Operator


class Scope:
    """The values by name during the run of a graph: arrays are on the host, tensors on the device.

    Args:
        device: Where tensors lie.
        values: Values by name, of this graph and of those around it.
        constant: The names of arrays that are the same at each call.
        copies: Constants on devices, by name, layout and device.
    """

    def __init__(
        self,
        device: str,
        values: MutableMapping[str, Any],
        constant: set[str],
        copies: dict[tuple[str, str, str], plugrad.Tensor],
    ) -> None:
        self.device = device
        self.values = values
        self.constant = constant
        self.copies = copies
        self.last: set[str] = set()
        """The names of images whose channels come last."""
        self.permuted: dict[str, plugrad.Tensor] = {}
        """Images in the other layout, as far as somebody has asked for it."""

    def make_subgraph_scope(self, values: dict[str, Any], constant_names: set[str]) -> Scope:
        """Return the scope of a subgraph, which also sees the values of this scope."""
        inner = Scope(
            self.device, ChainMap(values, self.values), self.constant | constant_names, self.copies
        )
        inner.last, inner.permuted = set(self.last), dict(self.permuted)
        return inner

    def copy_to_cpu(self, names: Sequence[str]) -> Scope:
        """Return a scope with the named values copied to the cpu; gradients pass through the copies."""
        values = {name: _move_to_device(self.values[name], "cpu") for name in names if name}
        scope = Scope("cpu", values, self.constant, self.copies)
        scope.last = self.last & values.keys()
        return scope

    def assign(self, value_name: str, value: Any, *, has_channels_last: bool = False) -> None:
        """Set a named value of the scope."""
        self.values[value_name] = value
        self.permuted.pop(value_name, None)
        (self.last.add if has_channels_last else self.last.discard)(value_name)

    def release(self, name: str) -> None:
        """Remove a named value from the scope after its last use."""
        self.values.pop(name, None)
        self.permuted.pop(name, None)
        self.last.discard(name)

    def get_argument(self, name: str, input_kind: str) -> Any:
        """Return a named value as an operator expects it: channels second, and an array or a tensor by its kind."""
        value = self.values[name] if name else None
        if value is None:
            return None
        if name in self.last:
            value = self._transpose_value(name, _channels_second)
        if input_kind == "HostArray":
            return as_array(value)
        exotic = is_array(value) and is_stored_only(value.dtype)
        if input_kind == "AnyInputValue" or (input_kind == "TensorOrHostArray" and exotic):
            return value
        if is_array(value):
            return self._copy_to_device(
                name,
                input_kind,
                _move_filter_channels_last if input_kind == "FilterTensor" else _return_unchanged,
            )
        if is_list(value):
            return [as_tensor(part, self.device) for part in value]
        return (
            _permute_filter_channels_last(self.values[name])
            if input_kind == "FilterTensor"
            else value
        )

    def get_images(self, name: str) -> Any:
        """Return a named value as images with channels last."""
        if name in self.last:
            return self.values[name]
        value = self.values[name]
        if value.ndim < 3:
            return self.get_argument(name, "Tensor")
        if is_array(value):
            return self._copy_to_device(name, "images", _move_channels_last)
        return self._transpose_value(name, channels_last)

    def align_with_images(self, name: str, rank: int) -> Any:
        """Return a named elementwise operand, transposed if needed to match images with channels last."""
        value = self.values[name] if name else None
        if value is None or value.ndim == 0 or name in self.last:
            return self.values[name] if name in self.last else self.get_argument(name, "Tensor")
        if is_array(value):
            shape = (1,) * (rank - value.ndim) + value.shape
            return self._copy_to_device(
                name, "beside", lambda a: _move_channels_last(a.reshape(shape))
            )
        if value.ndim == rank:
            return self.get_images(name)
        return channels_last(plugrad.reshape(value, (1,) * (rank - value.ndim) + value.shape))

    def _transpose_value(
        self, name: str, permute_axes: Callable[[plugrad.Tensor], plugrad.Tensor]
    ) -> plugrad.Tensor:
        """Return images in the other layout, transposed at the first use."""
        if name not in self.permuted:
            self.permuted[name] = permute_axes(self.values[name])
        return self.permuted[name]

    def _copy_to_device(
        self, name: str, layout: str, permute_axes: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> plugrad.Tensor:
        """Copy a named array to the device, permuted to the named layout; constants are copied only once."""
        array: NDArray[Any] = self.values[name]
        if name not in self.constant:
            return as_tensor(permute_axes(array), self.device)
        key = (name, layout, self.device)
        if key not in self.copies:
            # Outside of what is being traced, where the copy would be a step of the trace.
            self.copies[key] = Context().run(as_tensor, permute_axes(array), self.device)
        return self.copies[key]


def channels_last(x: plugrad.Tensor) -> plugrad.Tensor:
    """Move the channels of images from the second axis to the last one."""
    return plugrad.permute_dims(x, (0, *range(2, x.ndim), 1))


def _channels_second(x: plugrad.Tensor) -> plugrad.Tensor:
    """Move the channels of images from the last axis to the second one."""
    return plugrad.permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def _move_channels_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of images with the channels moved from the second axis to the last one."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def _move_filter_channels_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of filters with the spatial axes first, and the input and output channels last."""
    order = (*range(2, array.ndim), 1, 0)
    return np.ascontiguousarray(np.transpose(as_computable(array), order))


def _permute_filter_channels_last(x: plugrad.Tensor) -> plugrad.Tensor:
    """Return filters with the spatial axes first, and the input and output channels last."""
    return plugrad.permute_dims(x, (*range(2, x.ndim), 1, 0))


def _return_unchanged(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array unchanged."""
    return array


def run_graph(graph: Graph, scope: Scope, arguments: Sequence[Any] = ()) -> list[Any]:
    """Run a subgraph of a node and return its outputs."""
    inner = scope.make_subgraph_scope(dict(graph.constants), set(graph.constants))
    for name, argument in zip(graph.inputs, arguments, strict=False):
        inner.assign(name, argument)
    for node in graph.nodes:
        evaluate_node(node, inner)
    return [inner.get_argument(name, "AnyInputValue") for name in graph.outputs]


def evaluate_node(node: Node, scope: Scope) -> None:
    """Compute the outputs of a node, on the host if all its inputs are there.

    It is computed on the cpu, too, if the device does not have the dtype of an input or of an output.
    """
    if is_on_host(node, scope):
        results = [(result, False) for result in Context().run(_compute_on_host, node, scope)]
    elif any(
        n and lacks_dtype(scope.device, scope.values[n])
        for n in (*node.inputs, *node.captured_names)
    ):
        results = _compute_on_cpu(node, scope)
    else:
        try:
            results = compute_node(node, scope)
        except UnsupportedDtype:
            results = _compute_on_cpu(node, scope)
    for name, (result, last) in zip(node.outputs, results, strict=False):
        if name:
            scope.assign(name, result, has_channels_last=last)


def is_on_host(node: Node, scope: Scope) -> bool:
    """Whether a node can be computed on the host: it is pure, and all its inputs are arrays."""
    names = [*node.inputs, *node.captured_names]
    return node.operator.is_pure and all(_is_on_host(scope.values[n]) for n in names if n)


def _is_on_host(value: Any) -> bool:
    """Whether a value is on the host: an array, a list of arrays, or None."""
    if is_list(value):
        return all(map(_is_on_host, value))
    return value is None or is_array(value)


def _compute_on_host(node: Node, scope: Scope) -> list[Any]:
    """Return the outputs of a node as arrays."""
    host = Scope("cpu", ChainMap({}, scope.values), set(), {})
    with plugrad.use("cpu"):
        return [
            _as_arrays(_channels_second(result) if last else result)
            for result, last in compute_node(node, host)
        ]


def _compute_on_cpu(node: Node, scope: Scope) -> list[tuple[Any, bool]]:
    """Compute a node on the cpu, and move its outputs to the device if that has their dtype."""
    if scope.device.startswith("cpu"):
        return compute_node(node, scope)
    with plugrad.use("cpu"):
        results = compute_node(node, scope.copy_to_cpu([*node.inputs, *node.captured_names]))
    return [(_move_to_device(result, scope.device), last) for result, last in results]


def _move_to_device(value: Any, device: str) -> Any:
    """Copy tensors to a device; those whose dtype it lacks stay where they are."""
    if is_list(value):
        return [_move_to_device(part, device) for part in value]
    is_there = not isinstance(value, plugrad.Tensor) or lacks_dtype(device, value)
    return value if is_there else plugrad.to_device(value, device)


def _as_arrays(value: Any) -> Any:
    """Convert a tensor, or the tensors of a list, to arrays."""
    if is_list(value):
        return [_as_arrays(part) for part in value]
    return value if value is None else as_array(value)


def compute_node(node: Node, scope: Scope) -> list[tuple[Any, bool]]:
    """Compute the outputs of a node; each comes with a flag that says whether its channels are last.

    Raises:
        NodeFailed: its function raises an error that is none of plugrad's.
    """
    operator = node.operator
    try:
        keywords = _make_keywords(node, operator, scope)
        arguments, rank = _make_arguments(node, operator, scope, keywords)
        result = operator.function(*arguments, **keywords)
    except PlugradError as error:
        error.add_note(f"In {node} of the model.")
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise NodeFailed(f"{node} cannot be computed: {type(error).__name__}: {error}") from error
    results: list[Any] = [*result] if isinstance(result, tuple) else [result]
    return [(r, rank > 2 and isinstance(r, plugrad.Tensor) and r.ndim == rank) for r in results]


def _make_arguments(
    node: Node, operator: Operator, scope: Scope, keywords: dict[str, Any]
) -> tuple[list[Any], int]:
    """Return the arguments of an operator, and the rank of its outputs if their channels are last, else 0."""
    names = node.inputs
    if operator.layout == "images":
        rest = [
            scope.get_argument(name, operator.input_kind(k)) for k, name in enumerate(names) if k
        ]
        images = scope.get_images(names[0])
        return [images, *rest], images.ndim
    rank = max((scope.values[name].ndim for name in names if name in scope.last), default=0)
    if rank and operator.layout == "shape":
        shape = scope.values[names[0]].shape
        return [SimpleNamespace(shape=(shape[0], shape[-1], *shape[1:-1]))], 0
    if rank and operator.layout and _have_no_more_axes(names, scope, rank):
        if operator.layout == "axis":
            axis = keywords.get("axis", 1) % rank
            keywords["axis"] = 0 if axis == 0 else rank - 1 if axis == 1 else axis - 1
        return [scope.align_with_images(name, rank) for name in names], rank
    return [scope.get_argument(name, operator.input_kind(k)) for k, name in enumerate(names)], 0


def _have_no_more_axes(operand_names: Sequence[str], scope: Scope, rank: int) -> bool:
    """Whether all operands that are given have at most as many axes as the images."""
    return all(
        getattr(scope.values[name], "ndim", rank + 1) <= rank
        for name in operand_names
        if name and scope.values[name] is not None
    )


def _make_keywords(node: Node, operator: Operator, scope: Scope) -> dict[str, Any]:
    """Return the attributes of a node; subgraphs become functions."""
    keywords = dict(node.attributes)
    for name, graph in node.subgraphs.items():
        keywords[name] = _make_subgraph_function(graph, scope)
    known = {"output_count": len(node.outputs), "opset": node.opset, "scope": scope}
    return keywords | {name: known[name] for name in operator.supplied_parameters}


def _make_subgraph_function(graph: Graph, scope: Scope) -> Callable[..., list[Any]]:
    """Return a function that runs a subgraph of a node."""
    return lambda *arguments: run_graph(graph, scope, arguments)


def _place_output(value: Any, device: str) -> Any:
    """Move an output to the device, or to the cpu if the device lacks its dtype; keep an array if plugrad lacks it."""
    if is_list(value):
        return [_place_output(part, device) for part in value]
    if value is None or (is_array(value) and is_stored_only(value.dtype)):
        return value
    return as_tensor(value, "cpu" if lacks_dtype(device, value) else device)


class ExecutionPlan:
    """The plan of a run for inputs of one shape: precomputed constants, and the nodes that depend on the inputs."""

    def __init__(self, graph: Graph, device: str, trained: set[str]) -> None:
        self.graph = graph
        self.device = device
        self.constants: dict[str, Any] = {
            name: array for name, array in graph.constants.items() if name not in trained
        }
        self.copies: dict[tuple[str, str, str], plugrad.Tensor] = {}
        self.steps: list[tuple[Node, tuple[str, ...]]] = []
        self.recorded = False

    def run(self, inputs_and_weights: Mapping[str, Any]) -> list[Any]:
        """Compute the outputs from inputs and trainable weights by name."""
        scope = Scope(self.device, {}, set(self.constants), self.copies)
        scope.values.update(self.constants)
        scope.values.update(inputs_and_weights)
        if self.recorded:
            for node, finished in self.steps:
                evaluate_node(node, scope)
                for name in finished:
                    scope.release(name)
        else:
            self._record_dependent_nodes(scope)
        return [
            _place_output(scope.get_argument(n, "AnyInputValue"), self.device)
            for n in self.graph.outputs
        ]

    def _record_dependent_nodes(self, scope: Scope) -> None:
        """Run all nodes, and record those that depend on the inputs, which later runs must repeat.

        What has only constants as inputs is constant, and so are shapes, as a plan is for one shape.
        """
        remaining: list[Node] = []
        constants = dict(self.constants)
        for node in self.graph.nodes:
            names = [n for n in (*node.inputs, *node.captured_names) if n]
            fixed = node.operator.is_pure and all(name in constants for name in names)
            evaluate_node(node, scope)
            results = {name: scope.values[name] for name in node.outputs if name in scope.values}
            if (fixed or node.operator.name in ("Shape", "Size")) and all(
                map(_is_on_host, results.values())
            ):
                constants.update(results)
                scope.constant.update(results)
            else:
                remaining.append(node)
        used = {n for node in remaining for n in (*node.inputs, *node.captured_names)}
        used.update(self.graph.outputs)
        self.constants = {name: value for name, value in constants.items() if name in used}
        self.steps = _attach_last_uses(remaining, {*self.graph.outputs, *self.constants})
        self.recorded = True


def _attach_last_uses(
    nodes: Sequence[Node], kept_names: set[str]
) -> list[tuple[Node, tuple[str, ...]]]:
    """Return each node with the names of the values whose last use it is."""
    steps: list[tuple[Node, tuple[str, ...]]] = []
    later = set(kept_names)
    for node in reversed(nodes):
        names = {n for n in (*node.inputs, *node.captured_names, *node.outputs) if n}
        steps.append((node, tuple(sorted(names - later))))
        later |= names
    return steps[::-1]
