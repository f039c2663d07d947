"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.errors import UnsupportedModel
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators import activation
from plugrad_onnx.operators.common import number_like
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from plugrad import Tensor

ActivationFunction = Callable[..., Any]
"""A function of a tensor that returns a tensor of its shape."""
ACTIVATIONS_BY_NAME: dict[str, tuple[ActivationFunction, tuple[str, ...], tuple[float, ...]]] = {
    "Affine": (
        lambda x, *, alpha, beta: x * alpha + beta,
        ("alpha", "beta"),
        (1.0, 0.0),
    ),
    "Elu": (activation.elu, ("alpha",), (1.0,)),
    "HardSigmoid": (activation.hard_sigmoid, ("alpha", "beta"), (0.2, 0.5)),
    "LeakyRelu": (activation.leaky_relu, ("alpha",), (0.01,)),
    "Relu": (plugrad.relu, (), ()),
    "ScaledTanh": (
        lambda x, *, alpha, beta: plugrad.tanh(x * beta) * alpha,
        ("alpha", "beta"),
        (1.0, 1.0),
    ),
    "Sigmoid": (plugrad.sigmoid, (), ()),
    "Softplus": (plugrad.softplus, (), ()),
    "Softsign": (activation.softsign, (), ()),
    "Tanh": (plugrad.tanh, (), ()),
    "ThresholdedRelu": (activation.thresholded_relu, ("alpha",), (1.0,)),
}
"""The activations by name: the function, the names of its parameters, and their defaults."""


@dataclass(frozen=True)
class DirectionCell:
    """The weights and activations of one direction of a recurrent network."""

    input_weights: Tensor
    """The matrix by which inputs are multiplied."""
    hidden_weights: Tensor
    """The matrix by which hidden states are multiplied."""
    bias: Tensor | None
    """The bias of the product with the inputs."""
    hidden_bias: Tensor | None
    """The bias of the product with the hidden states."""
    peepholes: Tensor | None
    """The weights by which an LSTM's gates see its cell state."""
    hidden_size: int
    """The number of elements of a hidden state."""
    activations: Sequence[ActivationFunction]
    """The activation functions in ONNX's order."""
    clip: float | None
    """The magnitude to which inputs of activations are clipped."""
    variant_flag: bool
    """The attribute `linear_before_reset` of GRU, or `input_forget` of LSTM."""

    def clip_input(self, x: Tensor) -> Tensor:
        """Clip the input of an activation if the node has the attribute `clip`."""
        return x if self.clip is None else plugrad.clip(x, -self.clip, self.clip)


CellState = tuple["Tensor", ...]
"""The tensors in the state of a cell."""
StepFunction = Callable[[DirectionCell, "Tensor", CellState], CellState]
"""A function of a cell, its projected input and its state that returns the next state."""


@operator("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    initial_hidden: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Run a simple recurrent network over sequences (RNN)."""
    chosen = _choose_activations(
        activations or ["Tanh"] * w.shape[0], activation_alpha, activation_beta
    )
    states = [_with_directions_first(initial_hidden, layout)]
    cells = _make_cells(w, r, b, None, hidden_size, chosen, clip, False)
    return _run_directions(_rnn_step, cells, x, sequence_lengths, states, direction, layout)


@operator("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    initial_hidden: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Run a gated recurrent unit over sequences (GRU)."""
    names = activations or ["Sigmoid", "Tanh"] * w.shape[0]
    chosen = _choose_activations(names, activation_alpha, activation_beta)
    states = [_with_directions_first(initial_hidden, layout)]
    cells = _make_cells(w, r, b, None, hidden_size, chosen, clip, bool(linear_before_reset))
    return _run_directions(_gru_step, cells, x, sequence_lengths, states, direction, layout)


@operator("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lengths: Tensor | None = None,
    initial_hidden: Tensor | None = None,
    initial_cell: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Run a long short-term memory over sequences (LSTM)."""
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * w.shape[0]
    chosen = _choose_activations(names, activation_alpha, activation_beta)
    states = [
        _with_directions_first(initial_hidden, layout),
        _with_directions_first(initial_cell, layout),
    ]
    cells = _make_cells(w, r, b, peepholes, hidden_size, chosen, clip, bool(input_forget))
    return _run_directions(_lstm_step, cells, x, sequence_lengths, states, direction, layout)


def _rnn_step(cell: DirectionCell, x: Tensor, state: CellState) -> CellState:
    """Return the next state of a simple recurrent network."""
    total = _add_bias(x + plugrad.matmul(state[0], cell.hidden_weights), cell.hidden_bias)
    return (cell.activations[0](cell.clip_input(total)),)


def _gru_step(cell: DirectionCell, x: Tensor, state: CellState) -> CellState:
    """Return the next state; the order of gates is update, reset, hidden."""
    size, (hidden,) = cell.hidden_size, state
    weights, bias = cell.hidden_weights, cell.hidden_bias
    gates = x[:, : 2 * size] + plugrad.matmul(hidden, weights[:, : 2 * size])
    gates = _add_bias(gates, None if bias is None else bias[: 2 * size])
    gates = cell.activations[0](cell.clip_input(gates))
    update, reset = gates[:, :size], gates[:, size:]
    last = None if bias is None else bias[2 * size :]
    if cell.variant_flag:
        inner = reset * _add_bias(plugrad.matmul(hidden, weights[:, 2 * size :]), last)
    else:
        inner = _add_bias(plugrad.matmul(reset * hidden, weights[:, 2 * size :]), last)
    new = cell.activations[1](cell.clip_input(x[:, 2 * size :] + inner))
    return ((1 - update) * new + update * hidden,)


def _lstm_step(cell: DirectionCell, x: Tensor, state: CellState) -> CellState:
    """Return the next state; the order of gates is input, output, forget, cell."""
    size, (hidden, memory) = cell.hidden_size, state
    gates = _add_bias(x + plugrad.matmul(hidden, cell.hidden_weights), cell.hidden_bias)
    enter, out, forget, new = plugrad.split(gates, (size,) * 4, 1)
    seen = cell.peepholes
    if seen is not None:
        enter = enter + seen[:size] * memory
        forget = forget + seen[2 * size :] * memory
    gate, inner, outer = cell.activations
    enter = gate(cell.clip_input(enter))
    forget = 1 - enter if cell.variant_flag else gate(cell.clip_input(forget))
    memory = forget * memory + enter * inner(cell.clip_input(new))
    if seen is not None:
        out = out + seen[size : 2 * size] * memory
    return gate(cell.clip_input(out)) * outer(memory), memory


def _add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """Return x plus the bias, if there is one."""
    return x if bias is None else x + bias


def _with_directions_first(initial_state: Tensor | None, layout: int) -> Tensor | None:
    """Return an initial state with its directions first."""
    return (
        plugrad.moveaxis(initial_state, 0, 1)
        if layout and initial_state is not None
        else initial_state
    )


def _choose_activations(
    activation_names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[ActivationFunction]:
    """Return the activation functions; each takes as many of the alphas and betas as it needs."""
    rest = {"alpha": list(alphas), "beta": list(betas)}
    chosen: list[ActivationFunction] = []
    for name in activation_names:
        known = {key.lower(): key for key in ACTIVATIONS_BY_NAME}.get(name.lower())
        if known is None:
            raise UnsupportedModel(
                f"Activation {name!r} of a recurrent network is not known; "
                f"{', '.join(ACTIVATIONS_BY_NAME)} are."
            )
        function, parameters, defaults = ACTIVATIONS_BY_NAME[known]
        values = {
            key: rest[key].pop(0) if rest[key] else default
            for key, default in zip(parameters, defaults, strict=True)
        }
        chosen.append(lambda x, f=function, v=values: f(x, **v))
    return chosen


def _make_cells(
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    peepholes: Tensor | None,
    hidden_size: int,
    activations: Sequence[ActivationFunction],
    clip: float | None,
    variant_flag: bool,
) -> list[DirectionCell]:
    """Return one cell for each direction."""
    count = len(activations) // w.shape[0]
    half = w.shape[1]
    return [
        DirectionCell(
            plugrad.matrix_transpose(w[d]),
            plugrad.matrix_transpose(r[d]),
            None if b is None else b[d][:half],
            None if b is None else b[d][half:],
            None if peepholes is None else peepholes[d],
            hidden_size,
            activations[d * count : (d + 1) * count],
            clip,
            variant_flag,
        )
        for d in range(w.shape[0])
    ]


def _run_directions(
    compute_next_state: StepFunction,
    cells: Sequence[DirectionCell],
    x: Tensor,
    sequence_lengths: Tensor | None,
    initial_state: Sequence[Tensor | None],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Return the outputs at all steps and the final states, for all directions."""
    size = cells[0].hidden_size
    for first in initial_state:
        if first is not None and first.shape[-1] != size:
            raise InvalidModel(
                f"An initial state has shape {first.shape}; its last axis must have hidden_size={size} elements. "
                "PyTorch writes such a wrong node for an LSTM with proj_size, because ONNX lacks the projection."
            )
    x = plugrad.moveaxis(x, 0, 1) if layout else x
    ends = None if sequence_lengths is None else plugrad.reshape(sequence_lengths, (-1, 1))
    outputs: list[Tensor] = []
    last: list[CellState] = []
    for place, cell in enumerate(cells):
        backwards = direction == "reverse" or place == 1
        zeros = plugrad.zeros((x.shape[1], cell.hidden_size), dtype=x.dtype, device=x.device)
        state = tuple(zeros if first is None else first[place] for first in initial_state)
        output, state = _run_direction(compute_next_state, cell, x, ends, state, backwards)
        outputs.append(output)
        last.append(state)
    result = plugrad.stack(outputs, axis=1)
    states = [plugrad.stack(list(parts)) for parts in zip(*last, strict=True)]
    if layout:
        result = plugrad.permute_dims(result, (2, 0, 1, 3))
        states = [plugrad.moveaxis(state, 0, 1) for state in states]
    return result, *states


def _run_direction(
    compute_next_state: StepFunction,
    cell: DirectionCell,
    x: Tensor,
    sequence_lengths: Tensor | None,
    state: CellState,
    is_backwards: bool,
) -> tuple[Tensor, CellState]:
    """Return the outputs at all steps and the final state; after its end, a sequence keeps its state."""
    inputs = _add_bias(plugrad.matmul(x, cell.input_weights), cell.bias)
    count = x.shape[0]
    outputs: list[Any] = [None] * count
    for t in range(count - 1, -1, -1) if is_backwards else range(count):
        new = compute_next_state(cell, inputs[t], state)
        outputs[t] = new[0]
        if sequence_lengths is not None:
            live = plugrad.less(number_like(t, sequence_lengths), sequence_lengths)
            outputs[t] = plugrad.where(live, new[0], number_like(0, new[0]))
            new = tuple(plugrad.where(live, n, old) for n, old in zip(new, state, strict=True))
        state = new
    return plugrad.stack(outputs), state
