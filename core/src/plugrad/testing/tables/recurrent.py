"""Test rows of the recurrent cells."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from functools import partial

import numpy as np

from plugrad.kernels import recurrent
from plugrad.testing.definitions import Array
from plugrad.testing.rows import Row, numbers

# Some rows, and units that fill vectors, or leave a remainder, or are more than C computes at a time.
STATE_SHAPES = [(3, 5), (2, 3, 16), (1, 300), (7,)]
"""The shapes of the hidden states."""


def sigmoid(x: Array) -> Array:
    """Return the logistic function of x."""
    return 1 / (1 + np.exp(-x))


def compute_lstm_activations(gates: Array, c: Array) -> tuple[Array, ...]:
    """Return the four gates of an LSTM cell after their activations, and the new cell state, given the old one, c."""
    i, f, g, o = np.split(gates, 4, axis=-1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    return i, f, g, o, f * c + i * g


def lstm_cell(gates: Array, c: Array) -> list[Array]:
    """Return the new hidden state and cell state of an LSTM, given the gates and the cell state c."""
    *_, o, next_c = compute_lstm_activations(gates, c)
    return [o * np.tanh(next_c), next_c]


def lstm_cell_gradients(dh: Array, dc: Array, gates: Array, c: Array) -> list[Array]:
    """Return the gradients for the gates and the cell state c, given those for both new states."""
    i, f, g, o, next_c = compute_lstm_activations(gates, c)
    t = np.tanh(next_c)
    d = dc + dh * o * (1 - t**2)
    parts = [d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g**2), dh * t * o * (1 - o)]
    return [np.concatenate(parts, axis=-1), d * f]


def compute_gru_activations(x: Array, s: Array) -> tuple[Array, ...]:
    """Return the gates of a GRU cell after their activations, given the products with its input (x) and state (s)."""
    (z, r, g), (z_state, r_state, g_state) = np.split(x, 3, axis=-1), np.split(s, 3, axis=-1)
    r = sigmoid(r + r_state)
    return sigmoid(z + z_state), r, np.tanh(g + r * g_state), g_state


def gru_cell(x: Array, s: Array, h: Array) -> Array:
    """Return the new state of a GRU, given the products with its input (x) and state (s), and the state h."""
    z, _, n, _ = compute_gru_activations(x, s)
    return z * h + (1 - z) * n


def gru_cell_gradients(dy: Array, x: Array, s: Array, h: Array) -> list[Array]:
    """Return the gradients of `gru_cell` for x, s and h."""
    z, r, n, g_state = compute_gru_activations(x, s)
    dg = dy * (1 - z) * (1 - n**2)
    gates = [dy * (h - n) * z * (1 - z), dg * g_state * r * (1 - r)]
    parts = [[*gates, dg], [*gates, dg * r]]
    return [*[np.concatenate(each, axis=-1) for each in parts], dy * z]


def recurrent_rows(shape: tuple[int, ...], *, is_edge: bool = False) -> list[Row]:
    """Return a test row of each recurrent kernel, for states of a shape."""

    def gates_shape(gate_count: int) -> tuple[int, ...]:
        return (*shape[:-1], gate_count * shape[-1])

    state, gates, part = (
        numbers(shape=shape),
        numbers(shape=gates_shape(4)),
        numbers(shape=gates_shape(3)),
    )
    row = partial(Row, is_edge=is_edge, is_smooth=not is_edge)
    return [
        row(recurrent.lstm_cell, lstm_cell, [gates, state]),
        row(
            recurrent.lstm_cell_gradient,
            lstm_cell_gradients,
            [state, state, gates, state],
            tolerance_factor=4,
        ),
        row(recurrent.gru_cell, gru_cell, [part, part, state]),
        row(
            recurrent.gru_cell_gradient,
            gru_cell_gradients,
            [state, part, part, state],
            tolerance_factor=4,
        ),
    ]


TEST_ROWS = [
    *[row for shape in STATE_SHAPES for row in recurrent_rows(shape)],
    *[row for shape in [(0, 3), (2, 0)] for row in recurrent_rows(shape, is_edge=True)],
]
