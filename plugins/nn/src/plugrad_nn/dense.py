"""Dense layers, embeddings, flattening and PReLU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, DTypeError, ShapeError
from plugrad_nn import initializers
from plugrad_nn.arguments import check_choice, check_flag, check_function, check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.initializers import Initializer
    from plugrad_nn.parameters import Params

PRELU_INITIAL_SLOPE: Final = initializers.Constant(0.25)
"""The initial slope of each channel in `PReLU`."""


@dataclass(frozen=True, repr=False)
class Dense(Layer):
    """A matrix product along the last axis plus a bias: ``activation(x @ kernel + bias)``.

    >>> layer = nn.Dense(2)
    >>> params = layer.init(0, (3,))
    >>> layer(params, plugrad.ones((5, 3))).shape
    (5, 2)

    Parameters: "kernel" of shape (features, units) and "bias" of shape (units,). Inputs have any axes
    before their features.

    Args:
        units: the size of the last axis of the result.
        activation: a function of the result, such as `plugrad.relu`.
        use_bias: whether there is a bias.
        kernel_initializer: see `plugrad_nn.initializers`.
        bias_initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input does not have the features that the kernel takes.
    """

    units: int
    activation: Callable[[Tensor], Tensor] | None = None
    use_bias: bool = True
    kernel_initializer: Initializer = initializers.glorot_uniform
    bias_initializer: Initializer = initializers.zeros

    def __post_init__(self) -> None:
        check_integer("Dense", "units", self.units, 1)
        check_activation(self)
        check_flag("Dense", "use_bias", self.use_bias)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial kernel and bias."""
        self.check_axes(shape, 0, "(…, features)")
        params: Params = {
            "kernel": self.kernel_initializer(generator, (shape[-1], self.units), dtype)
        }
        if self.use_bias:
            params["bias"] = self.bias_initializer(generator, (self.units,), dtype)
        return params

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of shape (…, units)."""
        kernel = self.parameter(params, "kernel")
        x = plugrad.asarray(x)
        if x.ndim < 2 or x.shape[-1] != kernel.shape[0]:
            raise ShapeError(
                f"Dense: x has shape {x.shape}; it must be (batch, …, {kernel.shape[0]}), because the "
                f"kernel has shape {kernel.shape}"
            )
        y = x @ kernel
        if self.use_bias:
            y = self.add_bias(y, self.parameter(params, "bias"))
        return y if self.activation is None else self.activation(y)


@dataclass(frozen=True, repr=False)
class Embedding(Layer):
    """A trainable vector for each integer, looked up in a table.

    >>> layer = nn.Embedding(10, 4)
    >>> params = layer.init(0, ())
    >>> layer(params, plugrad.asarray([[1, 2, 3]])).shape
    (1, 3, 4)

    Parameters: "embeddings" of shape (input_dim, output_dim).

    Args:
        input_dim: the number of rows. Inputs are integers from 0 up to but without it.
        output_dim: the size of a row.
        embeddings_initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        DTypeError: in a call, the input does not hold integers.
    """

    input_dim: int
    output_dim: int
    embeddings_initializer: Initializer = initializers.uniform

    def __post_init__(self) -> None:
        check_integer("Embedding", "input_dim", self.input_dim, 1)
        check_integer("Embedding", "output_dim", self.output_dim, 1)
        check_function("Embedding", "embeddings_initializer", self.embeddings_initializer)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters: a table of random embeddings, a row for each token."""
        size = (self.input_dim, self.output_dim)
        return {"embeddings": self.embeddings_initializer(generator, size, dtype)}

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return (*shape, self.output_dim)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the rows, along a new last axis."""
        x = plugrad.asarray(x)
        if not plugrad.isdtype(x.dtype, "integral"):
            raise DTypeError(f"Embedding: x is {x.dtype}; it must hold integers, such as int32")
        return plugrad.take(self.parameter(params, "embeddings"), x, axis=0)


@dataclass(frozen=True, repr=False)
class PositionEmbedding(Layer):
    """The input plus a trainable vector for each position along the second last axis.

    >>> layer = nn.PositionEmbedding(8)
    >>> params = layer.init(0, (8, 4))
    >>> layer(params, plugrad.zeros((1, 5, 4))).shape
    (1, 5, 4)

    Parameters: "embeddings" of shape (sequence_length, features).

    Args:
        sequence_length: the largest number of positions; inputs may have fewer.
        initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: the input has more positions, or fewer than three axes.
    """

    sequence_length: int
    initializer: Initializer = initializers.glorot_uniform

    def __post_init__(self) -> None:
        check_integer("PositionEmbedding", "sequence_length", self.sequence_length, 1)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial parameters: a random vector for each position."""
        self.check_axes(shape, 2, "(length, features)")
        size = (self.sequence_length, shape[-1])
        return {"embeddings": self.initializer(generator, size, dtype)}

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the sum, of the shape of x."""
        x = plugrad.asarray(x)
        embeddings = self.parameter(params, "embeddings")
        if x.ndim < 3 or x.shape[-2] > self.sequence_length or x.shape[-1] != embeddings.shape[1]:
            raise ShapeError(
                f"PositionEmbedding: x has shape {x.shape}; it must be (batch, length, "
                f"{embeddings.shape[1]}), with a length of at most {self.sequence_length}"
            )
        return x + embeddings[: x.shape[-2]]


@dataclass(frozen=True, repr=False)
class Flatten(Layer):
    """The elements of each example as one vector.

    >>> nn.Flatten()({}, plugrad.ones((5, 2, 3))).shape
    (5, 6)
    """

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return x in the shape (batch, elements)."""
        x = plugrad.asarray(x)
        if not x.ndim:
            raise ShapeError("Flatten: x must have the axis of the batch; it is 0-d")
        return plugrad.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@dataclass(frozen=True, repr=False)
class EmbeddingBag(Layer):
    """The sum, mean or maximum of the table rows at each list of indices.

    >>> layer = nn.EmbeddingBag(10, 4)
    >>> params = layer.init(0, (3,))
    >>> layer(params, plugrad.asarray([[1, 2, 3], [4, -1, -1]])).shape
    (2, 4)

    Parameters: "embeddings" of shape (input_dim, output_dim). A negative integer names no row, so lists of different
    lengths are filled with -1. Of a list without rows the result is 0.

    Args:
        input_dim: the number of rows. Inputs are integers below it.
        output_dim: the size of a row.
        combiner: "mean", "sum" or "max".
        embeddings_initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        DTypeError: in a call, the input does not hold integers.
        ShapeError: in a call, the input is not (batch, …, length).
    """

    input_dim: int
    output_dim: int
    combiner: str = "mean"
    embeddings_initializer: Initializer = initializers.uniform

    def __post_init__(self) -> None:
        check_integer("EmbeddingBag", "input_dim", self.input_dim, 1)
        check_integer("EmbeddingBag", "output_dim", self.output_dim, 1)
        check_choice("EmbeddingBag", "combiner", self.combiner, ("mean", "sum", "max"))
        check_function("EmbeddingBag", "embeddings_initializer", self.embeddings_initializer)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial parameters: a table of random embeddings, a row for each index."""
        size = (self.input_dim, self.output_dim)
        return {"embeddings": self.embeddings_initializer(generator, size, dtype)}

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return (*shape[:-1], self.output_dim)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return one row for each list, along a new last axis."""
        x = plugrad.asarray(x)
        if not plugrad.isdtype(x.dtype, "integral"):
            raise DTypeError(f"EmbeddingBag: x is {x.dtype}; it must hold integers, such as int32")
        if x.ndim < 2:
            raise ShapeError(f"EmbeddingBag: x has shape {x.shape}; it must be (batch, …, length)")
        table = self.parameter(params, "embeddings")
        rows = plugrad.take(table, plugrad.maximum(x, 0), axis=0)
        present = plugrad.expand_dims(x >= 0, axis=-1)
        if self.combiner == "max":
            lowest = float(plugrad.finfo(rows.dtype).min)
            largest = plugrad.max(plugrad.where(present, rows, lowest), axis=-2)
            return plugrad.where(plugrad.any(present, axis=-2), largest, 0.0)
        total = plugrad.sum(plugrad.where(present, rows, 0.0), axis=-2)
        if self.combiner == "sum":
            return total
        count = plugrad.sum(plugrad.astype(present, rows.dtype), axis=-2)
        return total / plugrad.maximum(count, 1.0)


@dataclass(frozen=True, repr=False)
class PReLU(Layer):
    """Each element, multiplied by a trainable slope of its channel where it is negative (He et al., 2015).

    >>> layer = nn.PReLU()
    >>> layer(layer.init(0, (2,)), plugrad.asarray([[-4.0, 4.0]]))
    tensor([[-1.,  4.]], dtype=float32)

    Parameter: "alpha" of shape (channels,), the slopes.

    Args:
        alpha_initializer: see `plugrad_nn.initializers`; slopes begin with 0.25.

    Raises:
        ArgumentError: the initializer is not a function.
        ShapeError: in a call, the input does not have the channels of the parameter.
    """

    alpha_initializer: Initializer = PRELU_INITIAL_SLOPE

    def __post_init__(self) -> None:
        check_function("PReLU", "alpha_initializer", self.alpha_initializer)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial slopes, one for each channel."""
        self.check_axes(shape, 0, "(…, channels)")
        return {"alpha": self.alpha_initializer(generator, shape[-1:], dtype)}

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        x, alpha = plugrad.asarray(x), self.parameter(params, "alpha")
        if x.ndim < 2 or x.shape[-1:] != alpha.shape:
            raise ShapeError(
                f"PReLU: x has shape {x.shape}; it must be (batch, …, {alpha.size}), because the parameter is for as "
                "many channels"
            )
        return plugrad.prelu(x, alpha)


def check_activation(layer: Any) -> None:
    """Raise unless the activation of a layer and its initializers are functions.

    Raises:
        ArgumentError: one is not.
    """
    name = type(layer).__name__
    if isinstance(layer.activation, int):
        raise ArgumentError(
            f"{name}: activation={layer.activation} must be a function; the size of the input comes from the shape "
            "that init is given"
        )
    if layer.activation is not None:
        check_function(name, "activation", layer.activation)
    check_function(name, "kernel_initializer", layer.kernel_initializer)
    check_function(name, "bias_initializer", layer.bias_initializer)
