"""Recurrent layers, which read sequences one element after the other."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn import initializers
from plugrad_nn.arguments import check_flag, check_function, check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.initializers import Initializer
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Recurrent(Layer):
    units: int
    return_sequences: bool = False
    kernel_initializer: Initializer = initializers.glorot_uniform
    recurrent_initializer: Initializer = initializers.orthogonal

    gates: ClassVar[int]
    states: ClassVar[int]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_integer(name, "units", self.units, 1)
        check_flag(name, "return_sequences", self.return_sequences)
        check_function(name, "kernel_initializer", self.kernel_initializer)
        check_function(name, "recurrent_initializer", self.recurrent_initializer)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernels and the bias."""
        self.check_axes(shape, 2, "(time, features)")
        columns = self.gates * self.units
        return {
            "kernel": self.kernel_initializer(generator, (shape[-1], columns), dtype),
            "recurrent_kernel": self.recurrent_initializer(generator, (self.units, columns), dtype),
            "bias": self.initial_bias(dtype),
        }

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one result."""
        return (*shape[:-1], self.units) if self.return_sequences else (self.units,)

    def initial_state(self, params: Params, batch: int) -> tuple[Tensor, ...]:
        """Return the state before the first element: zeros, each of shape (batch, units)."""
        dtype = self.parameter(params, "kernel").dtype
        return tuple(plugrad.zeros((batch, self.units), dtype=dtype) for _ in range(self.states))

    def step(self, params: Params, x: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the state after one more element of shape (batch, features); its first tensor is the output.

        Raises:
            ShapeError: the element does not have the features that the kernel takes.
        """
        x = plugrad.asarray(x)
        self._check_features(params, x, 2)
        return self.advance(params, self.project_input(params, x), state)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the last output, of shape (batch, units), or all of them, of shape (batch, time, units)."""
        x = plugrad.asarray(x)
        self._check_features(params, x, 3)

        def advance(
            state: tuple[Tensor, ...], part: Tensor
        ) -> tuple[tuple[Tensor, ...], Tensor | None]:
            state = self.advance(params, part, state)
            return state, state[0] if self.return_sequences else None

        # One product for all elements: only the recurrent one depends on the order.
        parts = plugrad.permute_dims(self.project_input(params, x), (1, 0, 2))
        state, outputs = plugrad.scan(advance, self.initial_state(params, x.shape[0]), parts)
        return plugrad.permute_dims(outputs, (1, 0, 2)) if self.return_sequences else state[0]

    @abstractmethod
    def initial_bias(self, dtype: DType) -> Tensor:
        """Return the first value of the bias."""

    @abstractmethod
    def project_input(self, params: Params, x: Tensor) -> Tensor:
        """Return the part of the gates that depends on the input alone."""

    @abstractmethod
    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next state, given the projected input."""

    def _check_features(self, params: Params, x: Tensor, axes: int) -> None:
        kernel = self.parameter(params, "kernel")
        if x.ndim != axes or x.shape[-1] != kernel.shape[0]:
            names = "batch, time" if axes == 3 else "batch"
            raise ShapeError(
                f"{type(self).__name__}: x has shape {x.shape}; it must be ({names}, "
                f"{kernel.shape[0]}), because the kernel has shape {kernel.shape}"
            )


@dataclass(frozen=True, repr=False)
class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with the forget gate of Gers et al. (2000).

    With ``i, f, g, o = x @ kernel + h @ recurrent_kernel + bias``, split into four along the columns,
    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    >>> layer = nn.LSTM(4, return_sequences=True)
    >>> params = layer.init(0, (10, 3))
    >>> layer(params, plugrad.ones((2, 10, 3))).shape
    (2, 10, 4)
    >>> h, c = layer.step(params, plugrad.ones((2, 3)), layer.initial_state(params, 2))

    Parameters: "kernel" of shape (features, 4 * units), "recurrent_kernel" of shape (units, 4 * units)
    and "bias" of shape (4 * units,), which is 1 for the forget gate (Jozefowicz et al., 2015).

    Args:
        units: the size of the state.
        return_sequences: whether the result has the outputs of all elements, and not only the last.
        kernel_initializer: see `plugrad_nn.initializers`.
        recurrent_initializer: see `plugrad_nn.initializers`.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input is not (batch, time, features).
    """

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def initial_bias(self, dtype: DType) -> Tensor:
        """Return zeros, and ones for the forget gate."""
        parts = [plugrad.full((self.units,), float(gate == 1), dtype=dtype) for gate in range(4)]
        return plugrad.concat(parts)

    def project_input(self, params: Params, x: Tensor) -> Tensor:
        """Return the part of the gates that depends on the input alone."""
        return x @ params["kernel"] + self.parameter(params, "bias")

    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next (h, c)."""
        h, c = state
        gates = inputs + h @ self.parameter(params, "recurrent_kernel")
        i, f, g, o = plugrad.split(gates, 4, axis=-1)
        c = plugrad.sigmoid(f) * c + plugrad.sigmoid(i) * plugrad.tanh(g)
        return plugrad.sigmoid(o) * plugrad.tanh(c), c


@dataclass(frozen=True, repr=False)
class GRU(_Recurrent):
    """A gated recurrent unit (Cho et al., 2014), whose reset gate acts after the recurrent product.

    With ``z, r, g`` the three parts of ``x @ kernel + bias[0]``, and ``z', r', g'`` those of
    ``h @ recurrent_kernel + bias[1]``, the update gate is ``z = sigmoid(z + z')``, the candidate
    ``tanh(g + sigmoid(r + r') * g')`` and ``h = z * h + (1 - z) * candidate``.

    >>> layer = nn.GRU(4)
    >>> params = layer.init(0, (10, 3))
    >>> layer(params, plugrad.ones((2, 10, 3))).shape
    (2, 4)

    Parameters: "kernel" of shape (features, 3 * units), "recurrent_kernel" of shape (units, 3 * units)
    and "bias" of shape (2, 3 * units). Arguments and errors are as for `LSTM`; the state is ``(h,)``.
    """

    gates: ClassVar[int] = 3
    states: ClassVar[int] = 1

    def initial_bias(self, dtype: DType) -> Tensor:
        """Return zeros."""
        return plugrad.zeros((2, 3 * self.units), dtype=dtype)

    def project_input(self, params: Params, x: Tensor) -> Tensor:
        """Return the part of the gates that depends on the input alone."""
        return x @ params["kernel"] + self.parameter(params, "bias")[0]

    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next (h,)."""
        (h,) = state
        from_state = h @ self.parameter(params, "recurrent_kernel") + params["bias"][1]
        z, r, g = plugrad.split(inputs, 3, axis=-1)
        z_state, r_state, g_state = plugrad.split(from_state, 3, axis=-1)
        z = plugrad.sigmoid(z + z_state)
        candidate = plugrad.tanh(g + plugrad.sigmoid(r + r_state) * g_state)
        return (z * h + (1 - z) * candidate,)
