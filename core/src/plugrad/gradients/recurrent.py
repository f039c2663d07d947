"""Gradients of recurrent cells: kernels, and the ops that compute them where a backend lacks these."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from plugrad.kernels import activation, movement, recurrent, unary
from plugrad.tape.rules import GradientConfig, register_gradient
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.gradients import vjp

GradientThunks = dict[str, Callable[[], Tensor]]
"""By input, the function that computes its gradient when it is called."""
Attrs = Mapping[str, Any]
"""The attributes of a call by name."""


class LSTMActivations(NamedTuple):
    """The activations of the gates of an LSTM, and the next memory."""

    input_gate: Tensor
    forget_gate: Tensor
    cell_candidate: Tensor
    output_gate: Tensor
    next_c: Tensor


def compute_lstm_activations(gates: Tensor, c: Tensor) -> LSTMActivations:
    """Return the activations of the gates and the next memory of an LSTM."""
    i, f, g, o = split_gates(gates, 4)
    i, f, g, o = activation.sigmoid(i), activation.sigmoid(f), unary.tanh(g), activation.sigmoid(o)
    return LSTMActivations(i, f, g, o, f * c + i * g)


def compute_lstm_cell_gradient(dh: Tensor, dc: Tensor, gates: Tensor, c: Tensor) -> list[Tensor]:
    """Return the gradients of `lstm_cell` for the gates and the memory."""
    i, f, g, o, next_c = compute_lstm_activations(gates, c)
    t = unary.tanh(next_c)
    d = dc + dh * o * (1 - t * t)
    parts = d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)
    return [_concatenate(*parts), d * f]


class GRUActivations(NamedTuple):
    """The activations of the gates of a GRU, and the part of the candidate that depends on the state."""

    update_gate: Tensor
    reset_gate: Tensor
    candidate: Tensor
    state_part: Tensor


def compute_gru_activations(x: Tensor, s: Tensor) -> GRUActivations:
    """Return the activations of the gates of a GRU."""
    (z, r, g), (z_state, r_state, g_state) = split_gates(x, 3), split_gates(s, 3)
    z, r = activation.sigmoid(z + z_state), activation.sigmoid(r + r_state)
    return GRUActivations(z, r, unary.tanh(g + r * g_state), g_state)


def compute_gru_cell_gradient(dy: Tensor, x: Tensor, s: Tensor, h: Tensor) -> list[Tensor]:
    """Return the gradients of `gru_cell` for x, s and h."""
    z, r, n, state_part = compute_gru_activations(x, s)
    dg = dy * (1 - z) * (1 - n * n)
    gates = (dy * h - dy * n) * z * (1 - z), dg * state_part * r * (1 - r)
    return [_concatenate(*gates, dg), _concatenate(*gates, dg * r), dy * z]


def split_gates(x: Tensor, gate_count: int) -> list[Tensor]:
    """Return equal parts of the last axis."""
    units = x.shape[-1] // gate_count
    return movement.split(x, num_or_size_splits=(units,) * gate_count, axis=x.ndim - 1)


def _concatenate(*parts: Tensor) -> Tensor:
    """Return tensors joined along the last axis."""
    return movement.concat(*parts, axis=parts[0].ndim - 1)


def _lstm_cell_thunks(dys: Any, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions that compute the gradients of `lstm_cell` for each input, when they are called."""
    found = cache(lambda: recurrent.lstm_cell_gradient(*dys, *saved))
    return {"gates": lambda: found()[0], "c": lambda: found()[1]}


def _gru_cell_thunks(dy: Tensor, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions that compute the gradients of `gru_cell` for each input, when they are called."""
    found = cache(lambda: recurrent.gru_cell_gradient(dy, *saved))
    return {"x": lambda: found()[0], "s": lambda: found()[1], "h": lambda: found()[2]}


register_gradient(GradientConfig(recurrent.lstm_cell.name, _lstm_cell_thunks, ("gates", "c")))
register_gradient(GradientConfig(recurrent.gru_cell.name, _gru_cell_thunks, ("x", "s", "h")))


def _register_second_gradient(kernel: Any, compute_gradient: Callable[..., list[Tensor]]) -> None:
    """Register the gradient of a gradient, by differentiating the ops of which it consists."""
    names: tuple[str, ...] = kernel.inputs

    def compute_thunks(dys: Any, saved: list[Any], attrs: Attrs) -> GradientThunks:
        """Return functions for the second derivatives, by input."""
        found = cache(lambda: vjp(compute_gradient, *saved)[1]([*dys]))
        return {name: partial(lambda i: found()[i], place) for place, name in enumerate(names)}

    register_gradient(GradientConfig(kernel.name, compute_thunks, names))


_register_second_gradient(recurrent.lstm_cell_gradient, compute_lstm_cell_gradient)
_register_second_gradient(recurrent.gru_cell_gradient, compute_gru_cell_gradient)
