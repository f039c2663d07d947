"""Recurrent cells."""

import numpy as np
import pytest
from scipy.special import expit

import plugrad
from families.case import Case, CustomTolerance, ErrorCase
from families.domains import uniform
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import recurrent


def np_lstm_cell(forget_bias, kernel, bias, data, c, h):
    gates = np.concatenate([data, h], axis=1) @ kernel + bias
    i, j, f, o = np.split(gates, 4, axis=1)
    c = c * expit(f + forget_bias) + expit(i) * np.tanh(j)
    return [c, np.tanh(c) * expit(o)]


def lstm_cell(*inputs):
    return list(plugrad.basic_lstm_cell(*inputs))


def stacked_lstm_cells(kernel, data, *states):
    """Run two stacked LSTM cells with the same kernel."""
    bias = plugrad.asarray(np.linspace(-1, 1, 12).astype(str(data.dtype)), device=data.device)

    def cell(x, c, h):
        return plugrad.basic_lstm_cell(1.0, kernel, bias, x, c, h)

    memories, outputs = plugrad.multi_rnn_cell([cell, cell], data, states[:2], states[2:])
    return [*memories, *outputs]


def np_stacked_lstm_cells(kernel, data, *states):
    bias = np.linspace(-1, 1, 12)
    c0, h0 = np_lstm_cell(1.0, kernel, bias, data, states[0], states[2])
    c1, h1 = np_lstm_cell(1.0, kernel, bias, h0, states[1], states[3])
    return [c0, c1, h0, h1]


number_domain = uniform(-1, 1)
WEBGPU_TOLERANCE = {"webgpu": CustomTolerance(1e-5, "products, and tanh and sigmoid of them")}
CASES = [
    Case(
        *(lstm_cell, np_lstm_cell, [number_domain] * 6),
        [(), (inputs + units, 4 * units), (4 * units,), (batch, inputs)] + [(batch, units)] * 2,
        tolerance=WEBGPU_TOLERANCE,
        name=f"basic_lstm_cell {batch} {inputs} {units}",
    )
    for batch, inputs, units in [(2, 3, 4), (1, 1, 1), (3, 2, 5), (0, 2, 3)]
] + [
    Case(
        *(stacked_lstm_cells, np_stacked_lstm_cells, [number_domain] * 6, [(6, 12), *[(2, 3)] * 5]),
        tolerance=WEBGPU_TOLERANCE,
        name="multi_rnn_cell",
    )
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


def test_values_of_views(backend, rng):
    CASES[0].check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def zeros(*shape):
    return plugrad.zeros(shape)


def make_cell_call(kernel=(5, 8), bias=(8,), data=(1, 3), c=(1, 2), h=(1, 2)):
    """Return a call of an LSTM cell, with 3 inputs and 2 units by default."""
    return lambda: plugrad.basic_lstm_cell(1.0, *(zeros(*s) for s in (kernel, bias, data, c, h)))


ERROR_CASES = [
    ErrorCase(
        make_cell_call(kernel=(5, 9)), ShapeError, ["basic_lstm_cell", "lstm_kernel", "(5, 8)"]
    ),
    ErrorCase(
        make_cell_call(kernel=(4, 8)), ShapeError, ["lstm_kernel", "(4, 8)", "3 inputs and 2 units"]
    ),
    ErrorCase(make_cell_call(bias=(2,)), ShapeError, ["lstm_bias", "(2,)", "(8,)"]),
    ErrorCase(make_cell_call(data=(3,)), ShapeError, ["data", "(3,)", "(batch, inputs)"]),
    ErrorCase(make_cell_call(data=(2, 3)), ShapeError, ["data", "(2, 3)", "(1, 2)"]),
    ErrorCase(make_cell_call(h=(1, 3)), ShapeError, ["(1, 2)", "(1, 3)", "(batch, units)"]),
    ErrorCase(
        lambda: plugrad.multi_rnn_cell([make_cell_call], zeros(1, 1), [], [zeros(1, 1)]),
        ArgumentValueError,
        ["multi_rnn_cell", "1 cells", "0 in c", "1 in h"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


def test_cells_have_derivatives_of_all_orders(backend, rng):
    def in_kernels(gates, c):
        h, c = recurrent.lstm_cell(gates, c)
        return plugrad.sum(h * h * c + recurrent.gru_cell(gates[:, :9], gates[:, 3:], c))

    def in_ops(gates, c):
        i, f, g, o = plugrad.split(gates, 4, axis=-1)
        c = plugrad.sigmoid(f) * c + plugrad.sigmoid(i) * plugrad.tanh(g)
        h = plugrad.sigmoid(o) * plugrad.tanh(c)
        z, r = plugrad.sigmoid(i + f), plugrad.sigmoid(f + g)
        return plugrad.sum(h * h * c + z * c + (1 - z) * plugrad.tanh(g + r * o))

    def second(function):
        gradients = plugrad.grads(function)
        return plugrad.grads(lambda *given: sum(plugrad.sum(x * x) for x in gradients(*given)))

    numbers = [rng.uniform(-2, 2, (2, n)).astype("float32") for n in (12, 3)]
    args = [plugrad.asarray(x, device=backend) for x in numbers]
    for order in (plugrad.grads, second, lambda function: second(second_loss(function))):
        for x, y in zip(order(in_kernels)(*args), order(in_ops)(*args), strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-3, atol=1e-4)


def second_loss(function):
    return lambda *given: sum(plugrad.sum(x) for x in plugrad.grads(function)(*given))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recurrent.lstm_cell(zeros(2, 11), zeros(2, 3)), r"\(2, 11\) and \(2, 3\)"),
        (lambda: recurrent.lstm_cell(zeros(12), zeros()), r"\(12,\) and \(\)"),
        (lambda: recurrent.gru_cell(zeros(2, 9), zeros(1, 9), zeros(2, 3)), "must be equal"),
        (
            lambda: recurrent.lstm_cell_gradient(
                zeros(2, 3), zeros(2, 4), zeros(2, 12), zeros(2, 3)
            ),
            "must be equal",
        ),
    ],
)
def test_shapes_of_cells(call, message):
    with pytest.raises(ShapeError, match=message):
        call()
