"""Containers that apply layers and functions one after the other."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import plugrad
from plugrad.extend import ArgumentError, ShapeError
from plugrad_nn.arguments import check_function
from plugrad_nn.layer import INFERENCE, Child, Layer, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.parameters import Params

SequentialStep: TypeAlias = "Layer | Callable[[Tensor], Tensor]"
"""A layer, or a function without parameters, such as `plugrad.relu`."""


@dataclass(frozen=True, repr=False, init=False)
class Sequential(Layer):
    """Layers applied one after another; functions such as `plugrad.relu` may stand among them.

    >>> model = nn.Sequential(nn.Dense(8), plugrad.relu, nn.Dense(2))
    >>> params = model.init(0, (3,))
    >>> params["dense_1"]["kernel"].shape
    (8, 2)

    Parameters: those of each layer that has any, under the name of its class in lower case; further
    layers of that class are numbered from 1 on.

    Args:
        layers: layers, and functions of one tensor.

    Raises:
        ArgumentError: one is neither.
    """

    layers: tuple[SequentialStep, ...]

    def __init__(self, *layers: SequentialStep) -> None:
        """Check and store the layers."""
        if len(layers) == 1 and isinstance(layers[0], list | tuple):
            raise ArgumentError("Sequential: give the layers one by one, as in Sequential(*layers)")
        for step in layers:
            check_function(type(self).__name__, "a layer", step)
        object.__setattr__(self, "layers", layers)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the layers in the parameters."""
        counts: Counter[str] = Counter()
        found: list[str] = []
        for step in self.layers:
            name = snake_case(type(step).__name__ if isinstance(step, Layer) else "function")
            found.append(f"{name}_{counts[name]}" if counts[name] else name)
            counts[name] += 1
        return tuple(found)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the layers, each made for the output shape of the one before it."""
        params: Params = {}
        for name, step in zip(self.names, self.layers, strict=True):
            if isinstance(step, Layer):
                own = step.build(generator, shape, dtype)
                if own:
                    params[name] = own
            shape = _step_output_shape(step, params.get(name, {}), shape)
        return params

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        for name, step in zip(self.names, self.layers, strict=True):
            shape = _step_output_shape(step, params.get(name, {}), shape)
        return shape

    def children(self, params: Params, shape: Any) -> list[Child]:
        """Return the layers in their order."""
        found: list[Child] = []
        for name, step in zip(self.names, self.layers, strict=True):
            own = params.get(name, {})
            result = _step_output_shape(step, own, shape)
            found.append(Child(name, step, own, shape, result))
            shape = result
        return found

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result of the last layer."""
        if not isinstance(params, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"{type(self).__name__}: params must be what init returned, and not {params!r:.80}"
            )
        self.check_mode(mode)
        y = plugrad.asarray(x)
        for name, step in zip(self.names, self.layers, strict=True):
            y = step(params.get(name, {}), y, mode[name]) if isinstance(step, Layer) else step(y)
        return y

    def __repr__(self) -> str:
        """Return the call that makes the layers."""
        parts = (
            step.__repr__() if isinstance(step, Layer) else step.__name__ for step in self.layers
        )
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False, init=False)
class Residual(Sequential):
    """The input plus the result of layers applied to it in sequence (He et al., 2016).

    >>> block = nn.Residual(nn.LayerNorm(), nn.Dense(4))
    >>> params = block.init(0, (4,))
    >>> block(params, plugrad.ones((1, 4)))  # LayerNorm of equal numbers is 0
    tensor([[1., 1., 1., 1.]], dtype=float32)

    Parameters, arguments and errors are as for `Sequential`.

    Raises:
        ShapeError: the layers change the shape.
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the sum, of the shape of x."""
        x = plugrad.asarray(x)
        y = super().__call__(params, x, mode)
        if y.shape != x.shape:
            raise ShapeError(
                f"Residual: the layers make {y.shape} of the shape {x.shape}; both must be equal to add them"
            )
        return x + y


def _step_output_shape(
    layer_or_function: SequentialStep, params: Params, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the output shape of a layer or a function for one example."""
    if isinstance(layer_or_function, Layer):
        return layer_or_function.output_shape(params, shape)
    return layer_or_function(plugrad.zeros((0, *shape))).shape[1:]


def snake_case(name: str) -> str:
    """Convert a class name to lower case with underscores between words.

    >>> from plugrad_nn.sequential import snake_case
    >>> snake_case("DepthwiseConv2D"), snake_case("LSTM")
    ('depthwise_conv2d', 'lstm')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()
