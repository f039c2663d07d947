"""Layers that compute one parameter of another layer from trainable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_function, check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode, Training

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.parameters import Params

NORM_EPSILON = 1e-12
"""The number that is added to norms before vectors are divided by them."""


class _Reparametrized(Layer):
    """A layer around another one, of which it computes a parameter."""

    layer: Layer
    name: str

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if not isinstance(self.layer, Layer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"{owner}: layer={self.layer!r:.80} must be a layer, such as Dense(8)"
            )
        if not isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"{owner}: name={self.name!r:.80} must be the name of a parameter")

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the layer."""
        params = self.layer.build(generator, shape, dtype)
        if self.name not in params:
            raise ArgumentError(
                f"{type(self).__name__}: {self.layer!r:.80} has no parameter {self.name!r}, but {list(params)}"
            )
        return params

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return self.layer.output_shape(self._own_parameters(params), shape)

    def call(self, params: Params, value: Tensor, x: Any, mode: Mode) -> Tensor:
        """Call the layer with another value of the parameter."""
        return self.layer({**self._own_parameters(params), self.name: value}, x, mode)

    def _own_parameters(self, params: Params) -> Params:
        """Return the parameters of the inner layer."""
        return params


@dataclass(frozen=True, repr=False)
class Parametrized(_Reparametrized):
    """A layer with one parameter computed by a function from trainable values.

    >>> layer = nn.Parametrized(nn.Dense(2), lambda kernel: plugrad.triu(kernel))
    >>> params = layer.init(0, (2,))
    >>> layer(params, plugrad.asarray([[0.0, 1.0]])).tolist()[0][0]
    0.0

    Parameters: those of the layer.

    Args:
        layer: a layer.
        function: a function from the trained parameter to the one of the same shape that the layer uses.
        name: the name of the parameter.

    Raises:
        ArgumentError: an argument is none of the above, or the layer does not have the parameter.
    """

    layer: Layer
    function: Callable[[Tensor], Tensor]
    name: str = "kernel"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_function("Parametrized", "function", self.function)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result of the layer."""
        return self.call(params, self.function(self.parameter(params, self.name)), x, mode)


@dataclass(frozen=True, repr=False)
class WeightNorm(_Reparametrized):
    """A layer whose kernel is trained as a length and a direction (Salimans and Kingma, 2016).

    The kernel is ``length * direction / norm(direction)``, with a norm and a length for each output channel, the
    last axis.

    >>> layer = nn.WeightNorm(nn.Dense(2))
    >>> {name: value.shape for name, value in layer.init(0, (3,)).items()}
    {'bias': (2,), 'kernel_direction': (3, 2), 'kernel_length': (2,)}

    At first the kernel is the one that the layer initializes.

    Args:
        layer: a layer.
        name: the name of the parameter.

    Raises:
        ArgumentError: an argument is none of the above, or the layer does not have the parameter.
    """

    layer: Layer
    name: str = "kernel"

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the layer, with length and direction instead of the kernel."""
        params = super().build(generator, shape, dtype)
        direction = params.pop(self.name)
        params[f"{self.name}_direction"] = direction
        params[f"{self.name}_length"] = _channel_norms(direction)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result of the layer."""
        direction = self.parameter(params, f"{self.name}_direction")
        length = self.parameter(params, f"{self.name}_length")
        return self.call(params, direction * (length / _channel_norms(direction)), x, mode)

    def _own_parameters(self, params: Params) -> Params:
        extra = {f"{self.name}_direction", f"{self.name}_length"}
        direction = self.parameter(params, f"{self.name}_direction")
        return {self.name: direction} | {k: v for k, v in params.items() if k not in extra}


@dataclass(frozen=True, repr=False)
class SpectralNorm(_Reparametrized):
    """A layer with its kernel divided by its largest singular value (Miyato et al., 2018).

    The kernel counts as a matrix whose columns are the output channels, the last axis. The singular value is found
    by iteration: in training, each call improves it and puts the vector aside for `Training.commit`.

    >>> layer = nn.SpectralNorm(nn.Dense(2))
    >>> params = layer.init(0, (3,))
    >>> params["kernel_vector"].shape
    (2,)

    Parameters: those of the layer, and "kernel_vector", of shape (channels,), which is not trainable.

    Args:
        layer: a layer.
        name: the name of the parameter.
        iterations: the number of iterations in a call in training.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above, or the layer does not have the parameter.
    """

    layer: Layer
    name: str = "kernel"
    iterations: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("SpectralNorm", "iterations", self.iterations, 1)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the layer, and the estimated singular vector."""
        params = super().build(generator, shape, dtype)
        kernel = params[self.name]
        vector = generator.normal((kernel.shape[-1],), dtype=dtype)
        for _ in range(15):  # so that inference before any training divides by a singular value
            vector = _iterate_power_method(_as_matrix(kernel), vector)[1]
        params[f"{self.name}_vector"] = plugrad.Variable(vector, trainable=False)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result of the layer."""
        kernel = self.parameter(params, self.name)
        right = self.parameter(params, f"{self.name}_vector")
        matrix = plugrad.stop_gradient(_as_matrix(kernel))
        right = plugrad.stop_gradient(right)
        left = _normalize_vector(matrix @ right)
        if isinstance(mode, Training):
            for _ in range(self.iterations):
                left, right = _iterate_power_method(matrix, right)
            mode.update(**{f"{self.name}_vector": right})
        largest = plugrad.sum(left * (_as_matrix(kernel) @ right))
        return self.call(params, kernel / largest, x, mode)

    def _own_parameters(self, params: Params) -> Params:
        return {k: v for k, v in params.items() if k != f"{self.name}_vector"}


def _as_matrix(kernel: Tensor) -> Tensor:
    """Return a kernel as a matrix with a column for each output channel."""
    return plugrad.reshape(kernel, (-1, kernel.shape[-1]))


def _normalize_vector(vector: Tensor) -> Tensor:
    """Return a vector divided by its norm."""
    return vector / (plugrad.linalg.vector_norm(vector) + NORM_EPSILON)


def _iterate_power_method(matrix: Tensor, right_vector: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left and the right singular vector after another power iteration."""
    left = _normalize_vector(matrix @ right_vector)
    return left, _normalize_vector(matrix.T @ left)


def _channel_norms(kernel: Tensor) -> Tensor:
    """Return the norm of each output channel, along the last axis."""
    return plugrad.sqrt(plugrad.sum(plugrad.square(_as_matrix(kernel)), axis=0))
