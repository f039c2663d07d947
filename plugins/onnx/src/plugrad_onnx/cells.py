"""Recurrent networks as plugrad computes them, which have nodes of their own in ONNX.

The exporter looks for these loops in a trace. The importer runs them where it finds what the exporter
has written, so that a network comes back with the same roundings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad_onnx.recorded_calls import PLUGRAD_DOMAIN
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor

CellState = tuple["Tensor", ...]
"""The tensors in the state of a recurrent cell."""


@dataclass(frozen=True)
class RecurrentCell:
    """A kind of recurrent cell, such as an LSTM: its ONNX operator, gate order, state and step function."""

    onnx_operator: str
    """The name of ONNX's operator."""
    onnx_gate_positions: tuple[int, ...]
    """The positions of ONNX's gates among the columns of plugrad's kernels."""
    state_tensor_count: int
    """The number of tensors in the state."""
    compute_next_state: Callable[[Tensor, CellState, Tensor, Tensor], CellState]
    """A function of projected input, state, recurrent kernel and bias that returns the next state."""
    has_two_biases: bool = False
    """Whether the recurrent product has a bias of its own, in the second row of the bias."""


def run_recurrent(
    cell: RecurrentCell,
    x: Tensor,
    kernel: Tensor,
    bias: Tensor,
    recurrent_kernel: Tensor,
    *initial_state: Tensor,
    returns_sequences: bool,
) -> list[Tensor]:
    """Return the last state, and if asked for all outputs, of shape (time, batch, units).

    Args:
        cell: The kind of network.
        x: Sequences, of shape (batch, time, features).
        kernel: The matrix by which the input is multiplied.
        bias: One row, or two, that are added.
        recurrent_kernel: The matrix by which the state is multiplied.
        *initial_state: The first state.
        returns_sequences: Whether all outputs are asked for.
    """
    projected = x @ kernel + (bias[0] if cell.has_two_biases else bias)
    parts = plugrad.permute_dims(projected, (1, 0, 2))

    def step_in_time(state: CellState, projected_input: Tensor) -> tuple[CellState, Tensor | None]:
        """Return the next state, and the output if all outputs are asked for."""
        new = cell.compute_next_state(projected_input, state, recurrent_kernel, bias)
        return new, new[0] if returns_sequences else None

    state, outputs = plugrad.scan(step_in_time, tuple(initial_state), parts)
    return [*state, outputs] if returns_sequences else [*state]


def _lstm_step(
    projected_input: Tensor, state: CellState, recurrent_kernel: Tensor, bias: Tensor
) -> CellState:
    """Return the next state of an LSTM."""
    h, c = state
    i, f, g, o = plugrad.split(projected_input + h @ recurrent_kernel, 4, axis=-1)
    c = plugrad.sigmoid(f) * c + plugrad.sigmoid(i) * plugrad.tanh(g)
    return plugrad.sigmoid(o) * plugrad.tanh(c), c


def _gru_step(
    projected_input: Tensor, state: CellState, recurrent_kernel: Tensor, bias: Tensor
) -> CellState:
    """Return the next state of a GRU."""
    (h,) = state
    own = h @ recurrent_kernel + bias[1]
    z, r, g = plugrad.split(projected_input, 3, axis=-1)
    own_z, own_r, own_g = plugrad.split(own, 3, axis=-1)
    z = plugrad.sigmoid(z + own_z)
    candidate = plugrad.tanh(g + plugrad.sigmoid(r + own_r) * own_g)
    return (z * h + (1 - z) * candidate,)


def _simple_rnn_step(
    projected_input: Tensor, state: CellState, recurrent_kernel: Tensor, bias: Tensor
) -> CellState:
    """Return the next state of a simple RNN."""
    return (plugrad.tanh(projected_input + state[0] @ recurrent_kernel),)


CELLS_BY_NAME: Final = {
    "LSTM": RecurrentCell("LSTM", (0, 3, 1, 2), 2, _lstm_step),
    "GRU": RecurrentCell("GRU", (0, 1, 2), 1, _gru_step, has_two_biases=True),
    "SimpleRNN": RecurrentCell("RNN", (0,), 1, _simple_rnn_step),
}
"""The cells by the name under which a model records them. plugrad's gates are i, f, g, o and z, r, g."""


def _declare_cell_operator(operator_name: str, cell: RecurrentCell) -> None:
    """Register an operator that runs the loop of a cell."""

    @operator(operator_name, domain=PLUGRAD_DOMAIN)
    def run_cell(*inputs: Tensor, returns_sequences: bool) -> Any:
        x, kernel, bias, recurrent, *initial = inputs
        results = run_recurrent(
            cell, x, kernel, bias, recurrent, *initial, returns_sequences=returns_sequences
        )
        return tuple(results)


for _name, _cell in CELLS_BY_NAME.items():
    _declare_cell_operator(_name, _cell)


def cell_input_shapes(
    cell: RecurrentCell, sequences: Sequence[int], units: int
) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of x, kernel, bias, recurrent kernel and state for input sequences of shape `sequences`."""
    batch, _, features = sequences
    columns = len(cell.onnx_gate_positions) * units
    bias = (2, columns) if cell.has_two_biases else (columns,)
    state = ((batch, units),) * cell.state_tensor_count
    return (tuple(sequences), (features, columns), bias, (units, columns), *state)
