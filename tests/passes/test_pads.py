"""Sums of padded parts become concatenations, with the same bits."""

import numpy as np
import pytest

import plugrad
from passes.checking import check_pass, kernel_names, recorded_graph
from plugrad.passes.pads import concatenate_padded
from plugrad.passes.simplify import simplify_graph

MATRIX = plugrad.asarray(np.array([[1.0, -2, 3, 0.5, -0.0, 4], [0, -0.0, 7, -1, 2, 5]], "float32"))


def pad_axis(x, before, after, axis=1, **options):
    sides = [(0, 0)] * x.ndim
    sides[axis] = before, after
    return plugrad.pad(x, sides, **options)


def split_columns(x, *ends):
    return [x[:, a:b] * 2 for a, b in zip((0, *ends), (*ends, x.shape[1]), strict=True)]


def sum_of_gates(x):
    a, b, c = split_columns(x, 2, 4)
    return plugrad.sum(plugrad.sin(a) * plugrad.tanh(b) + c)


@pytest.mark.parametrize(
    "function",
    [
        plugrad.grad(sum_of_gates),
        lambda x: pad_axis(x, 0, 6) + pad_axis(x * -1, 6, 0),
        lambda x: pad_axis(x, 2, 0, axis=0) + pad_axis(x * -1, 0, 2, axis=0),
        lambda x: pad_axis(x, 12, 0) + (pad_axis(x * 0, 0, 12) + pad_axis(x * -1, 6, 6)),
        lambda x: pad_axis(x, 0, 6) + pad_axis(x, 6, 0),
    ],
)
def test_parts_that_fill_the_whole_are_joined(function, backend):
    graph = check_pass(concatenate_padded, function, plugrad.asarray(MATRIX.numpy()))
    assert kernel_names(graph).count("Concat") == 1
    names = kernel_names(simplify_graph(recorded_graph(function, plugrad.asarray(MATRIX.numpy()))))
    assert "Concat" in names
    assert "PadV2" not in names


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pad_axis(x, 0, 6),
        lambda x: pad_axis(x, 0, 7) + pad_axis(x, 7, 0),  # a gap
        lambda x: pad_axis(x, 0, 5) + pad_axis(x, 5, 0),  # they overlap
        lambda x: pad_axis(x, 0, 6) + pad_axis(x, 0, 6),
        lambda x: pad_axis(x, 0, 6) + x[:, :1],
        lambda x: pad_axis(x[:1], 0, 6) + pad_axis(x, 6, 0),  # one is repeated
        lambda x: (y := pad_axis(x, 0, 6)) + pad_axis(x, 6, 0) + plugrad.sin(y),  # it is read again
        lambda x: [y := pad_axis(x, 0, 6), y + pad_axis(x, 6, 0)],
        lambda x: pad_axis(x, 0, 6, constant_value=1) + pad_axis(x, 6, 0),
        lambda x: pad_axis(x, 0, 6, constant_value=-0.0) + pad_axis(x, 6, 0),
        lambda x: pad_axis(x, 0, 6) - pad_axis(x, 6, 0),
        lambda x: pad_axis(x.T, 0, 4, axis=0)[:4, :2] + pad_axis(x[:, :4].T, 0, 0, axis=0),
        lambda x: plugrad.pad(x, [(0, 2), (0, 6)]) + plugrad.pad(x, [(2, 0), (6, 0)]),
    ],
)
def test_other_sums_are_not_joined(function):
    graph = recorded_graph(function, MATRIX)
    assert concatenate_padded(graph) is graph


def test_gradients_of_slices_in_a_loop_to_second_order(backend):
    x = plugrad.asarray(MATRIX.numpy())

    def loss(x):
        def step(carry, _):
            a, b, c = split_columns(carry + x, 2, 4)
            return plugrad.concat([plugrad.sin(b), a * c, plugrad.tanh(a)], axis=1), None

        return plugrad.sum(plugrad.scan(step, x, length=3)[0])

    first = plugrad.grad(loss)
    for function in (first, plugrad.grad(lambda x: plugrad.sum(plugrad.sin(first(x))))):
        traced, untraced = plugrad.jit(function)(x).numpy(), function(x).numpy()
        np.testing.assert_allclose(traced, untraced, rtol=2e-5, atol=2e-5)
