"""Weights of PyTorch's modules for layers of plugrad-nn, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

import plugrad
from plugrad.extend import ArgumentError, DTypeError, PlugradError, ShapeError
from plugrad_nn.arguments import check_flag
from plugrad_nn.convert.folders import read_folder as read_folder
from plugrad_nn.convert.names import Renaming as Names, as_rename_function, join_name
from plugrad_nn.convert.places import find_layers
from plugrad_nn.convert.rules import Array, ParameterConversion, conversions_of_layer
from plugrad_nn.layer import Layer
from plugrad_nn.parameters import Params, assign_named, named_leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from plugrad_nn.convert.places import LayerLocation

__all__ = ["Converted", "read_folder", "state_dict", "to_state_dict"]

MAX_NAMES_IN_MESSAGE = 8
"""The largest number of names in a line of a message."""
LayerConversions: TypeAlias = "Iterator[tuple[LayerLocation, ParameterConversion]]"
"""Pairs of a layer and a conversion of some of its parameters."""


@dataclass(frozen=True)
class Converted:
    """The parameters that `state_dict` has made, which print as a table."""

    params: Params
    """The parameters of the model."""
    names: dict[str, str]
    """The names in the tensors by the names that PyTorch's modules would give; see `to_state_dict`."""
    missing: tuple[str, ...]
    """The names that the tensors lack; their parameters have their initial values."""
    unused: tuple[str, ...]
    """The tensors that no layer took."""
    left_out: tuple[str, ...]
    """The tensors that `names` left out."""

    def __str__(self) -> str:
        """Return how many tensors were taken, and the names of the others."""
        size = sum(variable.size for _, variable in named_leaves(self.params))
        lines = [f"{len(self.names)} tensors for {size:,} parameters"]
        for title in ("missing", "unused", "left_out"):
            names: tuple[str, ...] = getattr(self, title)
            if names:
                lines.append(f"{title.replace('_', ' ')}: {_list_names(names)}")
        return "\n".join(lines)


def state_dict(
    tensors: Mapping[str, Any],
    model: Layer,
    shape: Any,
    *,
    names: Names | None = None,
    allow_missing: bool = False,
    allow_unused: bool = False,
    dtype: Any = None,
) -> Converted:
    """The parameters of a model, taken from the weights of a PyTorch model with the same layers.

    >>> tensors = {
    ...     "fc1.weight": np.ones((8, 3)),  # (outputs, inputs), as PyTorch has them
    ...     "fc1.bias": np.zeros(8),
    ...     "fc2.weight": np.ones((2, 8)),
    ...     "fc2.bias": np.zeros(2),
    ... }
    >>> model = nn.Sequential(nn.Dense(8), plugrad.relu, nn.Dense(2))
    >>> converted = nn.convert.state_dict(tensors, model, (3,), names={"fc1": "0", "fc2": "2"})
    >>> print(converted)
    4 tensors for 50 parameters
    >>> model(converted.params, plugrad.ones((1, 3)))
    tensor([[24., 24.]], dtype=float32)

    Each layer takes the tensors that the module of PyTorch has under its name, such as "weight", "running_mean" or
    "weight_ih_l0", transposed and with its gates in our order. The name of a layer is its number in a `Sequential`, and
    its name in a `plugrad_nn.Graph` or a layer of your own. A transformer block has the layers "self_attn",
    "multihead_attn", "linear1", "linear2", "norm1", "norm2" and "norm3". Attention takes "in_proj_weight" or, if there
    are, "q_proj.weight", "k_proj.weight" and "v_proj.weight". `Dense` layers after `Flatten`, and those before a
    `Reshape` to images, get their features in our order: in PyTorch, the pixels of a channel follow each other. A layer
    that PyTorch does not have takes its parameters by their own names.

    Args:
        tensors: arrays by name: a module's ``state_dict()``, what `plugrad.load` reads from a file of safetensors, or
            what `read_folder` returns.
        model: a layer.
        shape: the shape of one input, as for `Layer.init`.
        names: how the names in `tensors` differ from those of the layers. A mapping of words between dots to others,
            such as ``{"encoder.layer": "blocks", "output.dense": "linear2"}``: the first place of each is replaced, in
            this order. None in the place of words leaves tensors out, and an empty string only the words. Or a function
            that takes a name, and returns one or None.
        allow_missing: whether a parameter for which there is no tensor keeps its first value.
        allow_unused: whether there may be tensors that no layer takes.
        dtype: the dtype of the parameters; by default float32.

    Raises:
        ArgumentError: `model` is no layer, tensors are missing or left over, two get one name, or an argument is none
            of the above.
        ShapeError: a tensor does not have the shape that its layer needs.
        DTypeError: a tensor does not hold real numbers.
    """
    function = "convert.state_dict"
    renamed, left_out = _map_new_to_old_names(function, tensors, names)
    check_flag(function, "allow_missing", allow_missing)
    check_flag(function, "allow_unused", allow_unused)
    params = _check_model(function, model).init(0, shape, dtype)
    shapes = {
        name: _shape_of_tensor(function, given, tensors[given]) for name, given in renamed.items()
    }
    values: Params = {}
    taken: dict[str, str] = {}
    missing: list[str] = []
    for place, conversion in _iter_layer_conversions(model, params, shape, shapes):
        wanted = [join_name(place.torch_name, name) for name in conversion.torch_names]
        absent = [name for name in wanted if name not in renamed]
        if absent:
            missing += absent if conversion.parameter_names else []
            continue
        _check_tensor_shapes(function, place, conversion, wanted, shapes, renamed)
        taken |= {name: renamed[name] for name in wanted}
        arrays = [_as_array(function, renamed[name], tensors[renamed[name]]) for name in wanted]
        for name, value in zip(
            conversion.parameter_names, conversion.from_torch(*arrays), strict=True
        ):
            _set_by_dotted_name(values, join_name(place.plugrad_name, name), value)
    unused = [given for name, given in renamed.items() if name not in taken]
    if (missing and not allow_missing) or (unused and not allow_unused):
        raise ArgumentError(
            _describe_mismatch(function, missing, unused, renamed, allow_missing, allow_unused)
        )
    assign_named(function, params, values)
    return Converted(params, taken, tuple(missing), tuple(unused), tuple(left_out))


def to_state_dict(
    model: Layer, params: Params, shape: Any, *, names: Names | None = None
) -> dict[str, Array]:
    """The parameters of a model as NumPy arrays with PyTorch's names and axes.

    >>> model = nn.Sequential(nn.Dense(8), plugrad.relu, nn.Dense(2))
    >>> params = model.init(0, (3,))
    >>> arrays = nn.convert.to_state_dict(model, params, (3,), names={"0": "fc1", "2": "fc2"})
    >>> {name: array.shape for name, array in arrays.items()}
    {'fc1.weight': (8, 3), 'fc1.bias': (8,), 'fc2.weight': (2, 8), 'fc2.bias': (2,)}

    It is the inverse of `state_dict`. Where PyTorch has two biases and a layer their sum, the second one is 0.

    Args:
        model: a layer.
        params: its parameters, as `init` returned them, or `state_dict`.
        shape: the shape of one input, as for `Layer.init`.
        names: as for `state_dict`, from the names that PyTorch's modules would have; ``converted.names`` gives each
            tensor the name that it had.

    Raises:
        ArgumentError: the parameters are not those of the model, two tensors get one name, or an argument is none of
            the above.
    """
    function = "convert.to_state_dict"
    rename = as_rename_function(function, names)
    # Whether attention is packed is told by the names of what was read.
    shapes: dict[str, tuple[int, ...]] = {}
    if isinstance(names, Mapping):
        shapes = dict.fromkeys(cast("Mapping[str, Any]", names), (0,))
    result: dict[str, Array] = {}
    _check_model(function, model)
    for place, conversion in _iter_layer_conversions(model, params, shape, shapes):
        own = dict(named_leaves(place.params))
        arrays = conversion.to_torch(
            *(np.asarray(own[name]) for name in conversion.parameter_names)
        )
        for name, array in zip(conversion.torch_names, arrays, strict=True):
            new = rename(join_name(place.torch_name, name))
            if new in result:
                raise ArgumentError(f"{function}: names gives two tensors the name {new!r}")
            if new is not None:
                result[new] = np.ascontiguousarray(array) if np.ndim(array) else array
    return result


def _check_model(function_name: str, model: Any) -> Layer:
    """Return a model, checked to be a layer."""
    if not isinstance(model, Layer):
        raise ArgumentError(
            f"{function_name}: model={model!r:.80} must be a layer, such as Dense(8)"
        )
    return model


def _map_new_to_old_names(
    function_name: str, tensors: Any, names: Names | None
) -> tuple[dict[str, str], list[str]]:
    """Return old names by new names, and the names that were dropped."""
    if not isinstance(tensors, Mapping):
        raise ArgumentError(
            f"{function_name}: tensors={tensors!r:.80} must be a mapping of names to arrays, such as a module's "
            "state_dict()"
        )
    rename = as_rename_function(function_name, names)
    renamed: dict[str, str] = {}
    left_out: list[str] = []
    for name in cast("Mapping[Any, Any]", tensors):
        if not isinstance(name, str):
            raise ArgumentError(
                f"{function_name}: the tensors have the name {name!r:.80}, no string"
            )
        new = rename(name)
        if new is None:
            left_out.append(name)
        elif new in renamed:
            raise ArgumentError(
                f"{function_name}: names gives {renamed[new]!r} and {name!r} the same name {new!r}"
            )
        else:
            renamed[new] = name
    return renamed, left_out


def _iter_layer_conversions(
    model: Layer, params: Params, shape: Any, tensor_shapes: Mapping[str, tuple[int, ...]]
) -> LayerConversions:
    """Yield each layer of a model with the conversions of its parameters."""
    for location in find_layers(model, params, shape):
        if isinstance(location.layer_or_function, Layer):
            prefix = f"{location.torch_name}." if location.torch_name else ""
            start = len(prefix)
            own = {name[start:]: s for name, s in tensor_shapes.items() if name.startswith(prefix)}
            for conversion in conversions_of_layer(
                location.layer_or_function, location.params, own, location.feature_order
            ):
                yield location, conversion


def _check_tensor_shapes(
    function_name: str,
    location: LayerLocation,
    conversion: ParameterConversion,
    torch_names: list[str],
    tensor_shapes: Mapping[str, tuple[int, ...]],
    old_names: Mapping[str, str],
) -> None:
    """Raise unless the tensors of a conversion have the shapes that the layer expects."""
    own = dict(named_leaves(location.params))
    empty = [np.broadcast_to(np.float32(0), own[name].shape) for name in conversion.parameter_names]
    for name, array in zip(torch_names, conversion.to_torch(*empty), strict=True):
        if tensor_shapes[name] != np.shape(array):
            raise ShapeError(
                f"{function_name}: {old_names[name]!r} has shape {tensor_shapes[name]}; "
                f"{location.layer_or_function!r:.80}, called {location.plugrad_name or 'the model'!r}, "
                f"needs {np.shape(array)}"
            )


def _shape_of_tensor(function_name: str, name: str, value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor of any library."""
    try:
        return tuple(int(size) for size in getattr(value, "shape", None) or np.shape(value))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{function_name}: {name!r} is no array: {error}") from None


def _as_array(function_name: str, name: str, value: Any) -> Array:
    """Return a tensor of any library as an array of NumPy."""
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value  # NumPy lacks it
    try:
        array = np.asarray(value if isinstance(value, np.ndarray) else plugrad.asarray(value))
    except PlugradError as error:
        raise DTypeError(f"{function_name}: {name!r}: {error}") from None
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{function_name}: {name!r} is {array.dtype}; it must hold real numbers")
    return array


def _set_by_dotted_name(tree: Params, name: str, value: Array) -> None:
    """Put a value into nested dicts under a dotted name."""
    *path, last = name.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
    tree[last] = value


def _describe_mismatch(
    function_name: str,
    missing: list[str],
    unused: list[str],
    old_names: Mapping[str, str],
    allow_missing: bool,
    allow_unused: bool,
) -> str:
    """Return a message about missing and unused tensors, with remedies."""
    names = {given: name for name, given in old_names.items()}
    rest = [names[given] for given in unused]
    lines: list[str] = []
    if missing and not allow_missing:
        lines.append(f"the layers need {_list_names(missing)}, which the tensors do not have")
    if unused and not allow_unused:
        lines.append(f"no layer takes {_list_names(unused)}")
    close = get_close_matches(missing[0], rest, 1, 0.0) if missing else []
    if close and rest:
        lines.append(
            f'names={{"{close[0]}": "{missing[0]}"}} would join the first of each, and names={{"{close[0]}": None}} '
            "would leave a tensor out"
        )
    elif missing:
        lines.append("allow_missing=True keeps their first values")
    else:
        lines.append(f'names={{"{rest[0]}": None}} leaves one out, and allow_unused=True all')
    return f"{function_name}: {'; '.join(lines)}"


def _list_names(names: Iterable[str]) -> str:
    """Return the first of some names as text, and the number of the others."""
    names = list(names)
    rest = (
        f" and {len(names) - MAX_NAMES_IN_MESSAGE} others"
        if len(names) > MAX_NAMES_IN_MESSAGE
        else ""
    )
    return ", ".join(names[:MAX_NAMES_IN_MESSAGE]) + rest
