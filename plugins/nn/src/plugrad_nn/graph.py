"""Graphs of layers with several inputs, outputs and shared layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_integers
from plugrad_nn.layer import INFERENCE, Child, Layer, Mode, example_shape, make_empty_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.parameters import Params

GraphNode: TypeAlias = "tuple[Layer | Callable[..., Tensor] | str, *tuple[str, ...]]"
"""A layer, a function, or the name of the node whose layer it shares; and the names of its inputs."""


@dataclass(frozen=True, repr=False, init=False)
class Graph(Layer):
    """Layers whose inputs are the results of other layers, by name.

    >>> model = nn.Graph(
    ...     ["left", "right"],
    ...     {
    ...         "a": (nn.Dense(4, plugrad.relu), "left"),
    ...         "b": ("a", "right"),  # the layer of a, with the same parameters
    ...         "both": (nn.Concatenate(), "a", "b"),
    ...         "score": (nn.Dense(1), "both"),
    ...     },
    ...     "score",
    ... )
    >>> params = model.init(0, {"left": (3,), "right": (3,)})
    >>> (
    ...     list(params),
    ...     model(params, {"left": plugrad.ones((2, 3)), "right": plugrad.ones((2, 3))}).shape,
    ... )
    (['a', 'score'], (2, 1))

    A node is a tuple: a layer, and the names of nodes before it or of inputs. A function such as `plugrad.relu` may
    stand for a layer; it is called with all its inputs, and a layer that has several gets them as a list. A string
    in the place of the layer names a node whose layer and parameters are shared. Parameters: those of each layer
    that has any, under the name of its node.

    Args:
        inputs: the name of the input, or the names of several. With one input, `init` takes one shape and a call one
            tensor; with several, dicts by name or tuples in this order.
        nodes: the nodes by name, each after those that it takes.
        outputs: the name of the result; or a list of names, which gives a tuple of tensors.

    Raises:
        ArgumentError: an argument is none of the above, a name occurs twice, or a node takes what is not before it.
    """

    inputs: tuple[str, ...]
    nodes: tuple[tuple[str, GraphNode], ...]
    outputs: str | tuple[str, ...]

    def __init__(
        self,
        inputs: str | Sequence[str],
        nodes: Mapping[str, GraphNode],
        outputs: str | Sequence[str],
    ) -> None:
        """Check and store the nodes."""
        names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        wanted = outputs if isinstance(outputs, str) else tuple(outputs)
        known = set(names)
        if len(known) != len(names) or not names:
            raise ArgumentError(f"Graph: inputs={names} must be one name or more, each once")
        own: dict[str, Layer | Callable[..., Tensor] | str] = {}
        for name, node in nodes.items():
            step, *taken = node
            if name in known:
                raise ArgumentError(f"Graph: {name!r} is the name of an input and of a node")
            _check_node(name, step, own)
            for other in taken:
                if other not in known:
                    raise ArgumentError(
                        f"Graph: node {name!r} takes {other!r}, which is neither an input nor a node before it; "
                        f"there are {', '.join(sorted(known))}"
                    )
            if not taken:
                raise ArgumentError(
                    f"Graph: node {name!r} has no input; write ({step!r:.40}, 'name')"
                )
            known.add(name)
            own[name] = step
        for name in (wanted,) if isinstance(wanted, str) else wanted:
            if name not in known:
                raise ArgumentError(
                    f"Graph: the output {name!r} is no node; there are {', '.join(sorted(known))}"
                )
        object.__setattr__(self, "inputs", names)
        object.__setattr__(
            self, "nodes", tuple((name, tuple(node)) for name, node in nodes.items())
        )
        object.__setattr__(self, "outputs", wanted)

    def check_shape(self, shape: Any) -> Any:
        """Return the shape of the only input, or a dict of the shapes of all inputs."""
        if len(self.inputs) == 1 and not isinstance(shape, Mapping):
            return {self.inputs[0]: check_integers("Graph.init", "shape", shape)}
        given = self._by_name(shape, "init")
        return {
            name: check_integers("Graph.init", f"shape[{name!r}]", part)
            for name, part in given.items()
        }

    def build(self, generator: Generator, shape: Any, dtype: DType) -> Params:
        """Return the parameters of the layers, each made for the shapes of its inputs."""
        params: Params = {}
        for name, step, owner, shapes in self.walk(params, shape):
            if isinstance(step, Layer) and owner == name:
                given: Any = shapes[0] if len(shapes) == 1 else shapes
                own = step.build(generator, given, dtype)
                if own:
                    params[name] = own
        return params

    def output_shape(self, params: Params, shape: Any) -> Any:
        """Return the output shape for one example, or a tuple for several outputs."""
        found = dict(self.check_shape(shape))
        for _ in self.walk(params, found):
            pass
        return self._select(found)

    def children(self, params: Params, shape: Any) -> list[Child]:
        """Return the nodes in their order; a node that shares a layer has no parameters of its own."""
        found = dict(self.check_shape(shape))
        steps = list(self.walk(params, found))
        return [
            Child(
                name,
                step if owner == name else f"{step!r}, shared with {owner}",
                params.get(name, {}) if owner == name else {},
                shapes[0] if len(shapes) == 1 else shapes,
                found[name],
            )
            for name, step, owner, shapes in steps
        ]

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Any:
        """Return the result, or a tuple of all."""
        self.check_mode(mode)
        if len(self.inputs) == 1 and not isinstance(x, Mapping):
            values: dict[str, Any] = {self.inputs[0]: plugrad.asarray(x)}
        else:
            given = self._by_name(x, "a call")
            values = {name: plugrad.asarray(part) for name, part in given.items()}
        owners: dict[str, str] = {}
        steps: dict[str, Any] = {}
        for name, (step, *taken) in self.nodes:
            owner = owners[name] = owners[step] if isinstance(step, str) else name
            layer = steps[owner] = steps[owner] if isinstance(step, str) else step
            found = [values[other] for other in taken]
            values[name] = (
                layer(params.get(owner, {}), found[0] if len(found) == 1 else found, mode[owner])
                if isinstance(layer, Layer)
                else layer(*found)
            )
        return self._select(values)

    def walk(
        self, params: Params, shapes: dict[str, Any]
    ) -> Iterator[tuple[str, Any, str, list[Any]]]:
        """Yield the nodes with their input shapes, and add the shape of each result to `shapes`."""
        owners: dict[str, str] = {}
        steps: dict[str, Any] = {}
        for name, (step, *taken) in self.nodes:
            owner = owners[name] = owners[step] if isinstance(step, str) else name
            layer = steps[owner] = steps[owner] if isinstance(step, str) else step
            given = [shapes[other] for other in taken]
            yield name, layer, owner, given
            own = params.get(owner, {})
            if isinstance(layer, Layer):
                taken_shapes: Any = given[0] if len(given) == 1 else given
                shapes[name] = layer.output_shape(own, taken_shapes)
            else:
                shapes[name] = example_shape(layer(*map(make_empty_batch, given)))

    def _by_name(self, values: Any, purpose: str) -> dict[str, Any]:
        """Return the given values by input name."""
        if isinstance(values, Mapping):
            found = dict(cast("Mapping[str, Any]", values))
        elif isinstance(values, tuple | list) and len(values) == len(self.inputs):  # pyright: ignore[reportUnknownArgumentType]
            found = dict(zip(self.inputs, cast("list[Any]", values), strict=True))
        else:
            found = {}
        if found.keys() != set(self.inputs):
            shown = list(found) or type(values).__name__
            raise ArgumentError(
                f"Graph: {purpose} needs a dict with the inputs {', '.join(self.inputs)}, or a tuple in this order, "
                f"and not {shown}"
            )
        return found

    def _select(self, values: Mapping[str, Any]) -> Any:
        """Return the values of the outputs: a single one, or a tuple."""
        if isinstance(self.outputs, str):
            return values[self.outputs]
        return tuple(values[name] for name in self.outputs)

    def __repr__(self) -> str:
        """Return the names of the inputs, nodes and outputs."""
        nodes = ", ".join(
            f"{name}={getattr(node[0], '__name__', None) or repr(node[0])}"
            for name, node in self.nodes
        )
        return f"Graph({list(self.inputs)}, {nodes}, outputs={self.outputs!r})"


def _check_node(name: str, layer_or_name: Any, earlier_nodes: Mapping[str, Any]) -> None:
    """Raise unless a node is a layer, a function, or the name of an earlier node."""
    if isinstance(layer_or_name, str):
        if layer_or_name not in earlier_nodes:
            raise ArgumentError(
                f"Graph: node {name!r} shares the layer of {layer_or_name!r}, which is no node before it"
            )
    elif not callable(layer_or_name):
        raise ArgumentError(
            f"Graph: node {name!r} must begin with a layer or a function, and not {layer_or_name!r:.80}"
        )
