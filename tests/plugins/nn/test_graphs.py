"""Graphs of layers, layers that merge, and the table of a model."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugins.nn.conftest import as_numpy
from plugrad.extend import ArgumentError, ShapeError

TWO_INPUT_GRAPH = nn.Graph(
    ["left", "right"],
    {
        "a": (nn.Dense(4, plugrad.tanh), "left"),
        "b": ("a", "right"),
        "both": (nn.Concatenate(), "a", "b"),
        "drop": (nn.Dropout(0.5), "both"),
        "score": (nn.Dense(1), "drop"),
    },
    ["score", "both"],
)
INPUT_SHAPES = {"left": (3,), "right": (3,)}


def test_several_inputs_and_outputs_and_a_shared_layer(backend, make_params, rng):
    params = make_params(TWO_INPUT_GRAPH, INPUT_SHAPES)
    assert list(params) == ["a", "score"]
    x = {name: rng.normal(size=(2, 3)).astype("float32") for name in INPUT_SHAPES}
    score, both = TWO_INPUT_GRAPH(params, x)
    p = as_numpy(params)
    a, b = (np.tanh(part @ p["a"]["kernel"] + p["a"]["bias"]) for part in x.values())
    np.testing.assert_allclose(both, np.concatenate([a, b], -1), rtol=2e-5, atol=1e-6)
    expected = np.concatenate([a, b], -1) @ p["score"]["kernel"] + p["score"]["bias"]
    np.testing.assert_allclose(score, expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(TWO_INPUT_GRAPH(params, (x["left"], x["right"]))[0], score)
    assert TWO_INPUT_GRAPH.output_shape(params, INPUT_SHAPES) == ((1,), (8,))


def test_the_gradient_of_a_shared_layer_is_the_sum_of_its_uses(make_params, rng):
    with plugrad.use("cpu"):
        params = make_params(TWO_INPUT_GRAPH, INPUT_SHAPES)
        x = [plugrad.asarray(rng.normal(size=(2, 3)).astype("float32")) for _ in range(2)]

        def loss(first, second):
            joined = nn.Concatenate()
            dense = nn.Dense(4, plugrad.tanh)
            both = joined({}, [dense(first, x[0]), dense(second, x[1])])
            return plugrad.sum(nn.Dense(1)(params["score"], both))

        parts = plugrad.grad(loss, argnums=(0, 1))(params["a"], params["a"])
        whole = plugrad.grad(lambda p: plugrad.sum(TWO_INPUT_GRAPH(p, x)[0]))(params)
        expected = parts[0]["kernel"] + parts[1]["kernel"]
        np.testing.assert_allclose(whole["a"]["kernel"], expected, rtol=1e-5)


def test_a_graph_in_training_drops_by_the_name_of_its_node(make_params):
    params = make_params(TWO_INPUT_GRAPH, INPUT_SHAPES)
    x = {name: plugrad.ones((2, 3)) for name in INPUT_SHAPES}
    first, second = (TWO_INPUT_GRAPH(params, x, nn.Training(seed))[0].numpy() for seed in (0, 1))
    np.testing.assert_array_equal(TWO_INPUT_GRAPH(params, x, nn.Training(0))[0], first)
    assert not np.array_equal(first, second)


MERGING_LAYERS = [
    (nn.Add(), lambda a, b, c: a + b + c),
    (nn.Subtract(), lambda a, b, c: a - b - c),
    (nn.Multiply(), lambda a, b, c: a * b * c),
    (nn.Maximum(), lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    (nn.Minimum(), lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    (nn.Average(), lambda a, b, c: (a + b + c) / 3),
    (nn.Concatenate(1), lambda *parts: np.concatenate(np.broadcast_arrays(*parts), 1)),
]


@pytest.mark.parametrize(("layer", "formula"), MERGING_LAYERS, ids=lambda x: repr(x)[:12])
def test_merging_layers_match_numpy(layer, formula, backend, rng):
    parts = [rng.normal(size=(2, 3, 4)).astype("float32") for _ in range(3)]
    np.testing.assert_allclose(layer({}, parts), formula(*parts), rtol=1e-5)
    with pytest.raises(ArgumentError, match="list of two tensors"):
        layer({}, parts[0])


def test_dot_layer_matches_numpy(backend, rng):
    a, b = (rng.normal(size=(2, 3, 4)).astype("float32") for _ in range(2))
    np.testing.assert_allclose(
        nn.Dot((2, 2))({}, [a, b]), np.einsum("bik,bjk->bij", a, b), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        nn.Dot(1)({}, [a, b]), np.einsum("bki,bkj->bij", a, b), rtol=1e-4, atol=1e-6
    )
    cosine = nn.Dot(normalize=True)({}, [a[:, 0], b[:, 0]])
    norms = np.linalg.norm(a[:, 0], axis=-1) * np.linalg.norm(b[:, 0], axis=-1)
    expected = (a[:, 0] * b[:, 0]).sum(-1) / norms
    np.testing.assert_allclose(cosine, expected[:, None], rtol=1e-4)


@pytest.mark.parametrize(
    ("inputs", "nodes", "outputs", "message"),
    [
        ([], {}, "x", "one name or more"),
        ("x", {"x": (plugrad.relu, "x")}, "x", "an input and of a node"),
        ("x", {"y": (plugrad.relu, "z")}, "y", "takes 'z'"),
        ("x", {"y": ("a", "x")}, "y", "shares the layer of 'a'"),
        ("x", {"y": (3, "x")}, "y", "must begin with a layer"),
        ("x", {"y": (plugrad.relu,)}, "y", "no input"),
        ("x", {"y": (plugrad.relu, "x")}, "z", "output 'z' is no node"),
    ],
)
def test_invalid_layer_graphs_are_rejected(inputs, nodes, outputs, message):
    with pytest.raises(ArgumentError, match=message):
        nn.Graph(inputs, nodes, outputs)


def test_graph_rejects_unknown_inputs(make_params):
    params = make_params(TWO_INPUT_GRAPH, INPUT_SHAPES)
    with pytest.raises(ArgumentError, match="needs a dict with the inputs left, right"):
        TWO_INPUT_GRAPH(params, {"left": plugrad.ones((1, 3))})
    with pytest.raises(ArgumentError, match="needs a dict"):
        TWO_INPUT_GRAPH.init(0, (3,))


def test_graphs_are_values():
    first, second = (nn.Graph("x", {"y": (nn.Dense(2), "x")}, "y") for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == "Graph(['x'], y=Dense(2), outputs='y')"


def test_summary_table_of_a_graph(make_params):
    params = make_params(TWO_INPUT_GRAPH, INPUT_SHAPES)
    table = nn.summary(TWO_INPUT_GRAPH, params, INPUT_SHAPES)
    lines = [line.split() for line in table.splitlines()]
    assert [line[0] for line in lines[1:6]] == ["a", "b", "both", "drop", "score"]
    assert "shared with a" in table
    assert table.endswith("25 parameters, 25 of them trainable, 100 bytes")


def test_summary_table_of_nested_layers(make_params):
    model = nn.Sequential(
        nn.Residual(nn.Dense(3), plugrad.relu), nn.Flatten(), nn.Dense(2), nn.BatchNorm()
    )
    table = nn.summary(model, make_params(model, (4, 3)), (4, 3))
    names = [line.split()[0] for line in table.splitlines()[1:-2]]
    assert names == ["residual.dense", "residual.function", "flatten", "dense", "batch_norm"]
    assert "46 parameters, 42 of them trainable" in table
    assert len({len(line) for line in table.splitlines()[:-2]}) == 1
    assert "dense" in nn.summary(nn.Dense(2), nn.Dense(2).init(0, (3,)), (3,)).lower()


def test_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match="does not have as many elements"):
        nn.Reshape((4, -1))({}, plugrad.ones((2, 6)))
    with pytest.raises(ShapeError, match="takes more from a spatial axis"):
        nn.Cropping1D(3)({}, plugrad.ones((1, 5, 2)))
    with pytest.raises(ShapeError, match="that 4 divides"):
        nn.PixelShuffle(2)({}, plugrad.ones((1, 2, 2, 3)))
    with pytest.raises(ShapeError, match="the axis of the batch and 2 more"):
        nn.Permute((2, 1))({}, plugrad.ones((1, 2)))
