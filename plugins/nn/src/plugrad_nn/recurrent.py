"""Recurrent layers, which read sequences one element after the other."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import plugrad
from plugrad.extend import ArgumentError, DTypeError, ShapeError, active_precision, bool_
from plugrad.kernels import recurrent
from plugrad_nn import initializers
from plugrad_nn.arguments import (
    SizeOrSizes,
    check_choice,
    check_flag,
    check_function,
    check_integer,
    check_sizes,
)
from plugrad_nn.layer import INFERENCE, Layer, Mode
from plugrad_nn.merging import check_several

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
    from plugrad_nn.initializers import Initializer
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Recurrent(Layer):
    """The fields of recurrent layers, and the loop over time."""

    units: int
    return_sequences: bool = False
    kernel_initializer: Initializer = initializers.glorot_uniform
    recurrent_initializer: Initializer = initializers.orthogonal
    activation: Callable[[Tensor], Tensor] = plugrad.tanh
    use_bias: bool = True

    gate_count: ClassVar[int]
    state_count: ClassVar[int]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_integer(name, "units", self.units, 1)
        check_flag(name, "return_sequences", self.return_sequences)
        check_function(name, "kernel_initializer", self.kernel_initializer)
        check_function(name, "recurrent_initializer", self.recurrent_initializer)
        check_function(name, "activation", self.activation)
        check_flag(name, "use_bias", self.use_bias)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernels and the bias."""
        self.check_axes(shape, 2, "(time, features)")
        columns = self.gate_count * self.units
        params: Params = {
            "kernel": self.kernel_initializer(generator, (shape[-1], columns), dtype),
            "recurrent_kernel": self.recurrent_initializer(generator, (self.units, columns), dtype),
        }
        if self.use_bias:
            params["bias"] = self.initial_bias(dtype)
        return params

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return (*shape[:-1], self.units) if self.return_sequences else (self.units,)

    def initial_state(self, params: Params, batch: int) -> tuple[Tensor, ...]:
        """Return the initial state: zeros, each of shape (batch, units)."""
        dtype = self.parameter(params, "kernel").dtype
        if dtype == plugrad.float32:  # inside of an autocast block, gates are halves
            dtype = active_precision() or dtype
        return tuple(
            plugrad.zeros((batch, self.units), dtype=dtype) for _ in range(self.state_count)
        )

    def step(self, params: Params, x: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the state after one time step of shape (batch, features); its first tensor is the output.

        Raises:
            ShapeError: the element does not have the features that the kernel takes.
        """
        x = plugrad.asarray(x)
        self._check_features(params, x, 2)
        return self.advance(params, self.project_input(params, x), state)

    def __call__(
        self, params: Params, x: Any, mode: Mode = INFERENCE, *, mask: Any = None
    ) -> Tensor:
        """Return the last output, of shape (batch, units), or all of them, of shape (batch, time, units).

        Args:
            params: what `init` returned.
            x: the sequences, of shape (batch, time, features).
            mode: `INFERENCE`, or a `Training`.
            mask: bools of shape (batch, time) that are False where a sequence has no element. There the state and
                the output remain what they were.
        """
        x = plugrad.asarray(x)
        self._check_features(params, x, 3)
        present = None if mask is None else check_mask(type(self).__name__, mask, x)
        if present is not None:  # the gradient would multiply the NaN of an absent element by 0
            x = plugrad.where(plugrad.permute_dims(present, (1, 0, 2)), x, 0)

        def advance(
            state: tuple[Tensor, ...], part: tuple[Tensor, Tensor | None]
        ) -> tuple[tuple[Tensor, ...], Tensor | None]:
            """Return the next state and the output, given one element of the sequence."""
            inputs, is_present = part
            new = tuple(
                a.astype(b.dtype)  # an activation may be one that computes in float32
                for a, b in zip(self.advance(params, inputs, state), state, strict=True)
            )
            if is_present is not None:
                new = tuple(
                    plugrad.where(is_present, a, b) for a, b in zip(new, state, strict=True)
                )
            return new, new[0] if self.return_sequences else None

        # One product for all elements: only the recurrent one depends on the order.
        parts = plugrad.permute_dims(self.project_input(params, x), (1, 0, 2))
        state, outputs = plugrad.scan(
            advance, self.initial_state(params, x.shape[0]), (parts, present)
        )
        return plugrad.permute_dims(outputs, (1, 0, 2)) if self.return_sequences else state[0]

    @abstractmethod
    def initial_bias(self, dtype: DType) -> Tensor:
        """Return the initial bias."""

    def project_input(self, params: Params, x: Tensor) -> Tensor:
        """Return the part of the gates that depends only on the input."""
        y = x @ params["kernel"]
        return self.add_bias(y, self.parameter(params, "bias")) if self.use_bias else y

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
    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``; other functions may take the places
    of tanh and sigmoid.

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
        activation: what stands in the place of tanh.
        use_bias: whether there is a bias.
        recurrent_activation: what stands in the place of sigmoid.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input is not (batch, time, features).
    """

    recurrent_activation: Callable[[Tensor], Tensor] = plugrad.sigmoid

    gate_count: ClassVar[int] = 4
    state_count: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_function("LSTM", "recurrent_activation", self.recurrent_activation)

    def initial_bias(self, dtype: DType) -> Tensor:
        """Return zeros, with ones for the forget gate."""
        parts = [plugrad.full((self.units,), float(gate == 1), dtype=dtype) for gate in range(4)]
        return plugrad.concat(parts)

    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next (h, c), given the projected input."""
        h, c = state
        gates = inputs + h @ self.parameter(params, "recurrent_kernel")
        return _advance_lstm(gates, c, self.activation, self.recurrent_activation)


@dataclass(frozen=True, repr=False)
class GRU(_Recurrent):
    """A gated recurrent unit (Cho et al., 2014), with the reset gate after or before the recurrent product.

    With ``z, r, g`` the three parts of ``x @ kernel + bias[0]``, and ``z', r', g'`` those of
    ``h @ recurrent_kernel + bias[1]``, the update gate is ``z = sigmoid(z + z')``, the candidate
    ``tanh(g + sigmoid(r + r') * g')`` and ``h = z * h + (1 - z) * candidate``. With ``reset_after=False``, as in the
    paper, there is one bias, and ``g'`` is the product of ``sigmoid(r + r') * h`` with its part of the kernel.

    >>> layer = nn.GRU(4)
    >>> params = layer.init(0, (10, 3))
    >>> layer(params, plugrad.ones((2, 10, 3))).shape
    (2, 4)

    Parameters: "kernel" of shape (features, 3 * units), "recurrent_kernel" of shape (units, 3 * units)
    and "bias" of shape (2, 3 * units), or (3 * units,) with ``reset_after=False``. Other arguments and errors are as
    for `LSTM`; the state is ``(h,)``.

    Args:
        reset_after: whether the reset gate acts after the recurrent product.
    """

    recurrent_activation: Callable[[Tensor], Tensor] = plugrad.sigmoid
    reset_after: bool = True

    gate_count: ClassVar[int] = 3
    state_count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_function("GRU", "recurrent_activation", self.recurrent_activation)
        check_flag("GRU", "reset_after", self.reset_after)

    def initial_bias(self, dtype: DType) -> Tensor:
        """Return zeros."""
        rows = (2,) if self.reset_after else ()
        return plugrad.zeros((*rows, 3 * self.units), dtype=dtype)

    def project_input(self, params: Params, x: Tensor) -> Tensor:
        """Return the part of the gates that depends only on the input."""
        y = x @ params["kernel"]
        if not self.use_bias:
            return y
        bias = self.parameter(params, "bias")
        return self.add_bias(y, bias[0] if self.reset_after else bias)

    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next state, a tuple of the hidden vectors alone."""
        (h,) = state
        kernel = self.parameter(params, "recurrent_kernel")
        if self.reset_after:
            from_state = h @ kernel
            if self.use_bias:
                from_state = self.add_bias(from_state, params["bias"][1])
            if (
                self.activation is plugrad.tanh
                and self.recurrent_activation is plugrad.sigmoid
                and inputs.dtype == from_state.dtype == h.dtype
                and inputs.shape == from_state.shape
            ):
                return (recurrent.gru_cell(inputs, from_state, h),)
            z, r, g = plugrad.split(inputs, 3, axis=-1)
            z_state, r_state, g_state = plugrad.split(from_state, 3, axis=-1)
            candidate = g + self.recurrent_activation(r + r_state) * g_state
        else:
            z, r, g = plugrad.split(inputs, 3, axis=-1)
            gates = h @ kernel[:, : 2 * self.units]
            z_state, r_state = plugrad.split(gates, 2, axis=-1)
            reset = self.recurrent_activation(r + r_state) * h
            candidate = g + reset @ kernel[:, 2 * self.units :]
        z = self.recurrent_activation(z + z_state)
        return (z * h + (1 - z) * self.activation(candidate),)


@dataclass(frozen=True, repr=False)
class SimpleRNN(_Recurrent):
    """A recurrent layer without gates (Elman, 1990): ``h = tanh(x @ kernel + h @ recurrent_kernel + bias)``.

    >>> layer = nn.SimpleRNN(4)
    >>> params = layer.init(0, (10, 3))
    >>> layer(params, plugrad.ones((2, 10, 3))).shape
    (2, 4)

    Parameters: "kernel" of shape (features, units), "recurrent_kernel" of shape (units, units) and "bias" of shape
    (units,). Arguments and errors are as for `LSTM`; the state is ``(h,)``.
    """

    gate_count: ClassVar[int] = 1
    state_count: ClassVar[int] = 1

    def initial_bias(self, dtype: DType) -> Tensor:
        """Return zeros."""
        return plugrad.zeros((self.units,), dtype=dtype)

    def advance(
        self, params: Params, inputs: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the next state, a tuple of the hidden vectors alone."""
        return (self.activation(inputs + state[0] @ self.parameter(params, "recurrent_kernel")),)


@dataclass(frozen=True, repr=False)
class ConvLSTM2D(Layer):
    """An `LSTM` over sequences of images that uses convolutions instead of products (Shi et al., 2015).

    >>> layer = nn.ConvLSTM2D(4, 3)
    >>> params = layer.init(0, (10, 8, 8, 2))
    >>> layer(params, plugrad.ones((1, 10, 8, 8, 2))).shape
    (1, 6, 6, 4)

    Parameters: "kernel" of shape (height, width, channels, 4 * filters), "recurrent_kernel" of shape (height, width,
    filters, 4 * filters) and "bias" of shape (4 * filters,), which is 1 for the forget gate. The convolution of the
    state keeps its size.

    Args:
        filters: the number of output channels.
        kernel_size: the size of a filter, one number or (height, width).
        strides: the distance between neighbouring positions of a filter on the images, likewise.
        padding: "valid" or "same".
        return_sequences: whether the result has the outputs of all elements, and not only the last.
        kernel_initializer: see `plugrad_nn.initializers`.
        recurrent_initializer: see `plugrad_nn.initializers`.
        activation: what stands in the place of tanh.
        recurrent_activation: what stands in the place of sigmoid.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input is not (batch, time, height, width, channels).
    """

    filters: int
    kernel_size: SizeOrSizes
    strides: SizeOrSizes = 1
    padding: str = "valid"
    return_sequences: bool = False
    kernel_initializer: Initializer = initializers.glorot_uniform
    recurrent_initializer: Initializer = initializers.orthogonal
    activation: Callable[[Tensor], Tensor] = plugrad.tanh
    recurrent_activation: Callable[[Tensor], Tensor] = plugrad.sigmoid

    def __post_init__(self) -> None:
        check_integer("ConvLSTM2D", "filters", self.filters, 1)
        check_sizes("ConvLSTM2D", "kernel_size", self.kernel_size, 2)
        check_sizes("ConvLSTM2D", "strides", self.strides, 2)
        check_choice("ConvLSTM2D", "padding", self.padding, ("valid", "same"))
        check_flag("ConvLSTM2D", "return_sequences", self.return_sequences)
        check_function("ConvLSTM2D", "kernel_initializer", self.kernel_initializer)
        check_function("ConvLSTM2D", "recurrent_initializer", self.recurrent_initializer)
        check_function("ConvLSTM2D", "activation", self.activation)
        check_function("ConvLSTM2D", "recurrent_activation", self.recurrent_activation)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the kernels and the bias."""
        self.check_axes(shape, 4, "(time, height, width, channels)")
        size = check_sizes("", "kernel_size", self.kernel_size, 2)
        columns = 4 * self.filters
        ones = plugrad.ones((self.filters,), dtype=dtype)
        return {
            "kernel": self.kernel_initializer(generator, (*size, shape[-1], columns), dtype),
            "recurrent_kernel": self.recurrent_initializer(
                generator, (*size, self.filters, columns), dtype
            ),
            "bias": plugrad.concat(
                [ones * 0, ones, plugrad.zeros((2 * self.filters,), dtype=dtype)]
            ),
        }

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the last output, or all of them along the axis of time."""
        x = plugrad.asarray(x)
        kernel, bias = self.parameter(params, "kernel"), self.parameter(params, "bias")
        recurrent = self.parameter(params, "recurrent_kernel")
        if x.ndim != 5 or x.shape[-1] != kernel.shape[2]:
            raise ShapeError(
                f"ConvLSTM2D: x has shape {x.shape}; it must be (batch, time, height, width, {kernel.shape[2]}), "
                f"because the kernel has shape {kernel.shape}"
            )
        batch, time = x.shape[:2]
        images = plugrad.reshape(x, (batch * time, *x.shape[2:]))
        strides = check_sizes("", "strides", self.strides, 2)
        padding: Any = self.padding
        projected = self.add_bias(plugrad.conv2d(images, kernel, strides, padding), bias)
        parts = plugrad.reshape(projected, (batch, time, *projected.shape[1:]))
        zeros = plugrad.zeros((batch, *projected.shape[1:3], self.filters), dtype=projected.dtype)

        def advance(
            state: tuple[Tensor, Tensor], part: Tensor
        ) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
            """Return the next state and the output, given one element of the sequence."""
            gates = part + plugrad.conv2d(state[0], recurrent, 1, "same")
            new = _advance_lstm(gates, state[1], self.activation, self.recurrent_activation)
            return new, new[0] if self.return_sequences else None

        state, outputs = plugrad.scan(
            advance, (zeros, zeros), plugrad.permute_dims(parts, (1, 0, 2, 3, 4))
        )
        if self.return_sequences:
            return plugrad.permute_dims(outputs, (1, 0, 2, 3, 4))
        return state[0]


@dataclass(frozen=True, repr=False)
class Bidirectional(Layer):
    """A recurrent layer that reads sequences forwards, and one that reads them backwards (Schuster and Paliwal, 1997).

    >>> layer = nn.Bidirectional(nn.GRU(4, return_sequences=True))
    >>> params = layer.init(0, (10, 3))
    >>> layer(params, plugrad.ones((2, 10, 3))).shape
    (2, 10, 8)

    Parameters: those of the layer, under "forward" and "backward". With ``return_sequences=True`` both outputs of an
    element stand at its place.

    Args:
        layer: a recurrent layer.
        merge: how both results become one: "concat" along the last axis, "sum", "multiply" or "average".

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input is not (batch, time, features).
    """

    layer: _Recurrent
    merge: str = "concat"

    def __post_init__(self) -> None:
        if not isinstance(self.layer, _Recurrent):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"Bidirectional: layer={self.layer!r:.80} must be a recurrent layer, such as LSTM(8)"
            )
        check_choice("Bidirectional", "merge", self.merge, _MERGE_FUNCTIONS)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of both directions."""
        return {name: self.layer.build(generator, shape, dtype) for name in ("forward", "backward")}

    def __call__(
        self, params: Params, x: Any, mode: Mode = INFERENCE, *, mask: Any = None
    ) -> Tensor:
        """Return both results in one; `mask` is as for `LSTM`."""
        x = plugrad.asarray(x)
        there = self.layer(self.parameter(params, "forward"), x, mode["forward"], mask=mask)
        turned = None if mask is None else plugrad.flip(plugrad.asarray(mask), axis=1)
        back = self.layer(
            self.parameter(params, "backward"),
            plugrad.flip(x, axis=1),
            mode["backward"],
            mask=turned,
        )
        if self.layer.return_sequences:
            back = plugrad.flip(back, axis=1)
        return _MERGE_FUNCTIONS[self.merge](there, back)


_MERGE_FUNCTIONS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "concat": lambda a, b: plugrad.concat([a, b], axis=-1),
    "sum": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "average": lambda a, b: (a + b) / 2,
}


@dataclass(frozen=True, repr=False)
class Masked(Layer):
    """A recurrent layer with a second input, the mask; for use in a `plugrad_nn.Graph`, for example.

    >>> model = nn.Graph(
    ...     "words",
    ...     {
    ...         "present": (lambda words: words != 0, "words"),
    ...         "vectors": (nn.Embedding(10, 4), "words"),
    ...         "state": (nn.Masked(nn.LSTM(3)), "vectors", "present"),
    ...     },
    ...     "state",
    ... )
    >>> params = model.init(0, (5,))
    >>> model(params, plugrad.asarray([[1, 2, 3, 0, 0]])).shape
    (1, 3)

    Parameters: those of the layer. The mask is as for `LSTM`; it may hold numbers, of which 0 counts as False.

    Args:
        layer: a recurrent layer, or a `Bidirectional`.

    Raises:
        ArgumentError: it is something else, or in a call, there are not two inputs.
        ShapeError: in a call, the mask is not (batch, time).
    """

    layer: _Recurrent | Bidirectional

    def __post_init__(self) -> None:
        if not isinstance(self.layer, _Recurrent | Bidirectional):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"Masked: layer={self.layer!r:.80} must be a recurrent layer, such as LSTM(8)"
            )

    def build(self, generator: Generator, shape: Any, dtype: DType) -> Params:
        """Return the parameters of the layer."""
        return self.layer.build(generator, shape[0], dtype)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the layer's result for the sequences x[0] with the mask x[1]."""
        sequences, *masks = check_several(self, x)
        if len(masks) != 1:
            raise ArgumentError(f"Masked: x must be a list of two tensors, and not of {len(x)}")
        return self.layer(params, sequences, mode, mask=plugrad.astype(masks[0], bool_))


@dataclass(frozen=True, repr=False)
class TimeDistributed(Layer):
    """A layer applied to each element of sequences, with the same parameters.

    >>> layer = nn.TimeDistributed(nn.Conv2D(4, 3))
    >>> params = layer.init(0, (10, 8, 8, 3))
    >>> layer(params, plugrad.ones((2, 10, 8, 8, 3))).shape
    (2, 10, 6, 6, 4)

    Parameters: those of the layer.

    Args:
        layer: a layer.

    Raises:
        ArgumentError: it is something else.
        ShapeError: in a call, the input has no axis of time.
    """

    layer: Layer

    def __post_init__(self) -> None:
        if not isinstance(self.layer, Layer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"TimeDistributed: layer={self.layer!r:.80} must be a layer, such as Dense(8)"
            )

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the layer."""
        if not shape:
            raise ShapeError("TimeDistributed: one input must have the axes (time, …); it is 0-d")
        return self.layer.build(generator, shape[1:], dtype)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the results, of shape (batch, time, …)."""
        x = plugrad.asarray(x)
        if x.ndim < 2:
            raise ShapeError(f"TimeDistributed: x has shape {x.shape}; it must be (batch, time, …)")
        y = self.layer(params, plugrad.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])), mode)
        return plugrad.reshape(y, (*x.shape[:2], *y.shape[1:]))


def _advance_lstm(
    gates: Tensor,
    c: Tensor,
    activation: Callable[[Tensor], Tensor],
    recurrent_activation: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the next (h, c), given the gates i, f, g and o along the last axis."""
    if (
        activation is plugrad.tanh
        and recurrent_activation is plugrad.sigmoid
        and gates.dtype == c.dtype
        and gates.shape == (*c.shape[:-1], 4 * c.shape[-1])
    ):
        h, c = recurrent.lstm_cell(gates, c)
        return h, c
    i, f, g, o = plugrad.split(gates, 4, axis=-1)
    c = recurrent_activation(f) * c + recurrent_activation(i) * activation(g)
    return recurrent_activation(o) * activation(c), c


def check_mask(name: str, mask: Any, x: Tensor) -> Tensor:
    """Return a mask of sequences with time as the first axis and a last axis of size 1.

    Raises:
        DTypeError: it does not hold bools.
        ShapeError: it is not (batch, time).
    """
    mask = plugrad.asarray(mask)
    if mask.dtype != bool_:
        raise DTypeError(f"{name}: mask is {mask.dtype}; it must hold bools")
    if mask.shape != x.shape[:2]:
        raise ShapeError(
            f"{name}: mask has shape {mask.shape}; it must be (batch, time), which is {x.shape[:2]}"
        )
    return plugrad.expand_dims(mask.T, axis=-1)
