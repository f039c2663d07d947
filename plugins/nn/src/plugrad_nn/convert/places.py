"""The layers of a model, each with the names of its parameters in plugrad and in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import ArgumentError
from plugrad_nn.attention import MultiHeadAttention
from plugrad_nn.convert.names import join_name
from plugrad_nn.convert.rules import TORCH_NAMES_OF_PARTS, Array, FeatureOrder
from plugrad_nn.convolution import _Convolution  # pyright: ignore[reportPrivateUsage]
from plugrad_nn.dense import Dense, Embedding, Flatten, PReLU
from plugrad_nn.graph import Graph
from plugrad_nn.layer import Child, Layer
from plugrad_nn.normalization import _Normalization  # pyright: ignore[reportPrivateUsage]
from plugrad_nn.recurrent import Bidirectional, Masked, TimeDistributed, _Recurrent  # pyright: ignore[reportPrivateUsage]
from plugrad_nn.sequential import Residual, Sequential
from plugrad_nn.shapes import Reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_nn.parameters import Params


SAME_FEATURE_ORDER = FeatureOrder()
"""The order of features that plugrad and PyTorch share."""


@dataclass
class LayerLocation:
    """A layer, or a function used as one, with its names in plugrad and in PyTorch."""

    layer_or_function: Any
    """A layer, or a function in the place of one."""
    params: Params
    input_shape: Any
    result_shape: Any
    """The shape of one result; None for parts of a layer, which no other layer follows."""
    plugrad_name: str
    torch_name: str
    source_indices: tuple[int, ...]
    """The indices of the locations whose results the layer takes; none for parts of a layer."""
    feature_order: FeatureOrder = SAME_FEATURE_ORDER
    is_junction: bool = False
    """Whether the layer consists of other layers; `params` has only its own parameters."""

    def locate(
        self, child: Child, torch_name: str, source_indices: tuple[int, ...]
    ) -> LayerLocation:
        """Return the location of a layer in this one, given its name in PyTorch and the indices of its inputs."""
        return LayerLocation(
            child.step,
            child.params,
            child.shape,
            child.result,
            join_name(self.plugrad_name, child.name),
            join_name(self.torch_name, torch_name),
            source_indices,
        )


def find_layers(model: Layer, params: Params, shape: Any) -> list[LayerLocation]:
    """Return the innermost layers of a model, with the order of their features.

    A layer is called by its number in a `Sequential`, as in PyTorch, and by its name elsewhere.

    Raises:
        ArgumentError: it cannot be seen which features of flattened images a layer takes.
    """
    locations: list[LayerLocation] = []
    _add_layer(locations, LayerLocation(model, params, shape, None, "", "", ()))
    _set_order_after_flatten(locations)
    for location in locations:
        if isinstance(location.layer_or_function, Reshape):
            _set_order_before_reshape(locations, location)
    return locations


def _add_layer(locations: list[LayerLocation], location: LayerLocation) -> tuple[int, ...]:
    """Add the layers that a layer consists of, and return the indices of those that compute its result."""
    layer, params, shape = location.layer_or_function, location.params, location.input_shape
    while isinstance(layer, TimeDistributed | Masked):
        shape = shape[1:] if isinstance(layer, TimeDistributed) else shape[0]
        layer = layer.layer
    location = replace(location, layer_or_function=layer, input_shape=shape)
    if isinstance(layer, Sequential):
        sources = location.source_indices
        for number, child in enumerate(layer.children(params, shape)):
            sources = _add_layer(locations, location.locate(child, str(number), sources))
        if not isinstance(layer, Residual):
            return sources
        sources = (*location.source_indices, *sources)
        return _append(
            locations, replace(location, params={}, source_indices=sources, is_junction=True)
        )
    if isinstance(layer, Graph):
        found: dict[str, tuple[int, ...]] = dict.fromkeys(layer.inputs, ())
        children = layer.children(params, shape)
        for child, (name, node) in zip(children, layer.nodes, strict=True):
            sources = tuple(index for source in node[1:] for index in found[source])
            found[name] = _add_layer(locations, location.locate(child, name, sources))
        return found[layer.outputs] if isinstance(layer.outputs, str) else ()
    parts = layer.parts(shape) if isinstance(layer, Layer) else {}
    if not parts or isinstance(layer, MultiHeadAttention):
        return _append(locations, location)
    own = {name: value for name, value in params.items() if name not in parts}
    added = _append(locations, replace(location, params=own, is_junction=True))
    torch_names = TORCH_NAMES_OF_PARTS.get(type(layer), {})
    for name, (part, part_shape) in parts.items():
        child = Child(name, part, params[name], part_shape, None)
        _add_layer(locations, location.locate(child, torch_names.get(name, name), ()))
    return added


def _append(locations: list[LayerLocation], location: LayerLocation) -> tuple[int, ...]:
    """Append a location, and return its index as a tuple."""
    locations.append(location)
    return (len(locations) - 1,)


def _keeps_features(location: LayerLocation) -> bool:
    """Return whether a layer keeps the order of the features."""
    if (
        location.is_junction
        or isinstance(location.layer_or_function, Flatten | Reshape)
        or location.input_shape != location.result_shape
    ):
        return False
    return not location.params or isinstance(location.layer_or_function, _Normalization | PReLU)


def _set_order_after_flatten(locations: list[LayerLocation]) -> None:
    """Record the order of features after each `Flatten`, up to the next `Dense`."""
    for location in locations:
        known = [locations[number].feature_order.output_order for number in location.source_indices]
        before = known[0] if len(known) == 1 else None
        if isinstance(location.layer_or_function, Flatten):
            location.feature_order = FeatureOrder(None, _flatten_order(locations, location))
        elif before is not None and _keeps_features(location):
            location.feature_order = FeatureOrder(before, before)
        elif before is not None and isinstance(location.layer_or_function, Dense):
            location.feature_order = FeatureOrder(before, None)
        elif any(order is not None for order in known) and (
            location.params or location.is_junction or len(known) > 1
        ):
            raise ArgumentError(
                f"state_dict: {location.plugrad_name or location.layer_or_function!r:.80} takes flattened images, "
                "whose pixels and channels PyTorch has in another order; "
                "only Dense layers, normalizations and functions may follow "
                "Flatten"
            )


def _set_order_before_reshape(locations: list[LayerLocation], location: LayerLocation) -> None:
    """Record the order of features before a `Reshape` to images, back to the preceding `Dense` layer."""
    if (
        location.result_shape is None
        or len(location.input_shape) != 1
        or len(location.result_shape) < 3
    ):
        return
    order = _channels_first_order(location.result_shape)
    while order is not None and len(location.source_indices) == 1:
        location = locations[location.source_indices[0]]
        if isinstance(location.layer_or_function, Dense):
            location.feature_order = FeatureOrder(location.feature_order.input_order, order)
            return
        if not _keeps_features(location):
            return
        location.feature_order = FeatureOrder(order, order)


def _flatten_order(locations: Sequence[LayerLocation], location: LayerLocation) -> Array | None:
    """Return the order of features of flattened images, or None for sequences, which PyTorch flattens alike."""
    if len(location.input_shape) == 2:
        source = location
        while len(source.source_indices) == 1:
            source = locations[source.source_indices[0]]
            if isinstance(source.layer_or_function, _Convolution):
                return _channels_first_order(location.input_shape)
            if isinstance(
                source.layer_or_function,
                _Recurrent | Bidirectional | Embedding | MultiHeadAttention,
            ):
                return None
        return None
    return _channels_first_order(location.input_shape)


def _channels_first_order(shape: tuple[int, ...]) -> Array | None:
    """Return the index of each element of (pixels …, channels) in (channels, pixels …)."""
    if len(shape) < 2:
        return None
    channels = shape[-1]
    pixels = int(np.prod(shape[:-1]))
    if min(channels, pixels) <= 1:
        return None
    return np.arange(channels * pixels).reshape(channels, pixels).T.reshape(-1)
