"""Recurrent cells and their gradients that other kernels compute, and of which compiled functions are made."""

from plugrad.engine.composites import composite
from plugrad.gradients.recurrent import (
    compute_gru_cell_gradient,
    compute_lstm_cell_gradient,
    open_gru,
    open_lstm,
)
from plugrad.kernels import recurrent, unary
from plugrad.tensor.tensor import Tensor


@composite(recurrent.lstm_cell, is_traced=True)
def lstm_cell(gates: Tensor, c: Tensor) -> list[Tensor]:
    """Return the next output and memory."""
    cell = open_lstm(gates, c)
    return [cell.o * unary.tanh(cell.next_c), cell.next_c]


@composite(recurrent.lstm_cell_gradient, is_traced=True)
def lstm_cell_gradient(dh: Tensor, dc: Tensor, gates: Tensor, c: Tensor) -> list[Tensor]:
    """Return the gradients for the gates and the memory."""
    return compute_lstm_cell_gradient(dh, dc, gates, c)


@composite(recurrent.gru_cell, is_traced=True)
def gru_cell(x: Tensor, s: Tensor, h: Tensor) -> Tensor:
    """Return the next state."""
    cell = open_gru(x, s)
    return cell.z * h + (1 - cell.z) * cell.n


@composite(recurrent.gru_cell_gradient, is_traced=True)
def gru_cell_gradient(dy: Tensor, x: Tensor, s: Tensor, h: Tensor) -> list[Tensor]:
    """Return the gradients for x, s and h."""
    return compute_gru_cell_gradient(dy, x, s, h)
