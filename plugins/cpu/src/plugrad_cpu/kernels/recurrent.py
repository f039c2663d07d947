"""Recurrent cells. Gradients compute the activations again; halves are computed in float32.

A pack calls these functions with its own sigmoid, so that they have the bits of the ops of the composites.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from plugrad.kernels import recurrent
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.kernels.activation import sigmoid as numpy_sigmoid

Sigmoid: TypeAlias = Callable[[Array], Array]
"""The type of a function that computes the sigmoid of an array."""


class _LSTMActivations(NamedTuple):
    """The activations of the gates of an LSTM, and the next cell state."""

    input_gate: Array
    forget_gate: Array
    cell_candidate: Array
    """The activation that the input gate adds to the cell state."""
    output_gate: Array
    next_c: Array
    """The next cell state."""


def _compute_lstm_activations(gates: Array, c: Array, sigmoid: Sigmoid) -> _LSTMActivations:
    """Return the activations for gates before activation (i, f, g, o) and a cell state c."""
    i, f, g, o = np.split(gates, 4, axis=-1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    return _LSTMActivations(i, f, g, o, f * c + i * g)


@table.implements(recurrent.lstm_cell)
def lstm_cell(gates: Array, c: Array, sigmoid: Sigmoid = numpy_sigmoid) -> list[Array]:
    """Return the next hidden state and the next cell state, given gates before activation and a cell state c."""
    wide_gates, wide_c = _to_accumulation_dtype(gates, c)
    cell = _compute_lstm_activations(wide_gates, wide_c, sigmoid)
    return _cast_results_like([cell.output_gate * np.tanh(cell.next_c), cell.next_c], c)


@table.implements(recurrent.lstm_cell_gradient)
def lstm_cell_gradient(
    dh: Array, dc: Array, gates: Array, c: Array, sigmoid: Sigmoid = numpy_sigmoid
) -> list[Array]:
    """Return the gradients for the gates and for the cell state c."""
    dh, dc, wide_gates, wide_c = _to_accumulation_dtype(dh, dc, gates, c)
    i, f, g, o, next_c = _compute_lstm_activations(wide_gates, wide_c, sigmoid)
    t = np.tanh(next_c)
    d = dc + dh * o * (1 - t * t)
    parts = d * g * i * (1 - i), d * wide_c * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)
    return _cast_results_like([np.concatenate(parts, axis=-1), d * f], c)


class _GRUActivations(NamedTuple):
    """The activations of the gates of a GRU, and the part of the candidate that comes from the state."""

    update_gate: Array
    reset_gate: Array
    candidate: Array
    """The candidate for the next state."""
    state_part: Array
    """The part of the candidate, before activation, that comes from the state."""


def _compute_gru_activations(x: Array, s: Array, sigmoid: Sigmoid) -> _GRUActivations:
    """Return the activations for gates before activation: x from the input and s from the state."""
    (z, r, g), (z_state, r_state, g_state) = np.split(x, 3, axis=-1), np.split(s, 3, axis=-1)
    r = sigmoid(r + r_state)
    return _GRUActivations(sigmoid(z + z_state), r, np.tanh(g + r * g_state), g_state)


@table.implements(recurrent.gru_cell)
def gru_cell(x: Array, s: Array, h: Array, sigmoid: Sigmoid = numpy_sigmoid) -> Array:
    """Return the next state, given gates before activation (x from the input, s from the state) and a state h."""
    x, s, wide_h = _to_accumulation_dtype(x, s, h)
    cell = _compute_gru_activations(x, s, sigmoid)
    return _cast_results_like(
        [cell.update_gate * wide_h + (1 - cell.update_gate) * cell.candidate], h
    )[0]


@table.implements(recurrent.gru_cell_gradient)
def gru_cell_gradient(
    dy: Array, x: Array, s: Array, h: Array, sigmoid: Sigmoid = numpy_sigmoid
) -> list[Array]:
    """Return the gradients for x, s and h."""
    dy, x, s, wide_h = _to_accumulation_dtype(dy, x, s, h)
    z, r, n, state_part = _compute_gru_activations(x, s, sigmoid)
    dg = dy * (1 - z) * (1 - n * n)
    gates = (dy * wide_h - dy * n) * z * (1 - z), dg * state_part * r * (1 - r)
    results = [np.concatenate([*gates, last], axis=-1) for last in (dg, dg * r)]
    return _cast_results_like([*results, dy * z], h)


def _to_accumulation_dtype(*arrays: Array) -> list[Array]:
    """Return arrays of halves in float32, and other arrays as they are."""
    return [x.astype(accumulation_dtype(x.dtype), copy=False) for x in arrays]


def _cast_results_like(results: list[Array], like: Array) -> list[Array]:
    """Return results in the dtype of the array `like`."""
    return [y.astype(like.dtype, copy=False) for y in results]
