"""Composites of recurrent cells and of their gradients; traced functions consist of these ops on every backend."""

from plugrad.engine.composites import composite
from plugrad.gradients.recurrent import (
    compute_gru_activations,
    compute_gru_cell_gradient,
    compute_lstm_activations,
    compute_lstm_cell_gradient,
)
from plugrad.kernels import recurrent, unary
from plugrad.tensor.tensor import Tensor


@composite(recurrent.lstm_cell, is_traced=True)
def lstm_cell(gates: Tensor, c: Tensor) -> list[Tensor]:
    """Return the next output and memory."""
    cell = compute_lstm_activations(gates, c)
    return [cell.output_gate * unary.tanh(cell.next_c), cell.next_c]


@composite(recurrent.lstm_cell_gradient, is_traced=True)
def lstm_cell_gradient(dh: Tensor, dc: Tensor, gates: Tensor, c: Tensor) -> list[Tensor]:
    """Return the gradients for the gates and the memory."""
    return compute_lstm_cell_gradient(dh, dc, gates, c)


@composite(recurrent.gru_cell, is_traced=True)
def gru_cell(x: Tensor, s: Tensor, h: Tensor) -> Tensor:
    """Return the next state."""
    cell = compute_gru_activations(x, s)
    return cell.update_gate * h + (1 - cell.update_gate) * cell.candidate


@composite(recurrent.gru_cell_gradient, is_traced=True)
def gru_cell_gradient(dy: Tensor, x: Tensor, s: Tensor, h: Tensor) -> list[Tensor]:
    """Return the gradients for x, s and h."""
    return compute_gru_cell_gradient(dy, x, s, h)
