"""Error messages for calls in the style of other frameworks."""

import re
from inspect import signature
from typing import Any

import pytest

import plugrad
import plugrad_nn as nn
from plugrad.errors import ArgumentError, ArgumentValueError, BackendNotFound, GradientNotFound
from plugrad.extend import ShapeError
from plugrad_nn.absent import MISSING_ATTRIBUTE_HINTS

with plugrad.use("cpu"):
    MATRIX = plugrad.ones((2, 3))
    IMAGES = plugrad.ones((2, 3, 8, 8))
    VECTOR = plugrad.ones(3)
MODEL = nn.Sequential(nn.Dense(4, plugrad.relu), nn.Dropout(0.5), nn.Dense(2))
GRAPH_MODEL = nn.Graph(["x"], {"y": (nn.Dense(2), "x")}, "y")


def fit_with_options(**options):
    return nn.fit(MODEL, MODEL.init(0, (3,)), MATRIX, MATRIX, loss=nn.losses.dice_loss, **options)


def init_and_call(layer, shape, x, *more):
    return layer(layer.init(0, shape), x, *more)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.Dense(4, activaton=plugrad.relu),
            "Dense: .*'activaton' .did you mean 'activation'",
        ),
        (
            lambda: nn.Dense(4, bias=False),
            "'bias' .did you mean 'use_bias'.*write Dense.units, activ",
        ),
        (
            lambda: nn.Dense(),
            r"Dense: missing a required.*'units'; write Dense\(units, activation=None",
        ),
        (
            lambda: MODEL(MATRIX),
            r"Sequential: missing a required argument: 'x'; call it with \(params, x, mode=…\)",
        ),
        (
            lambda: MODEL({}, MATRIX, training=True),
            r"Sequential: it has no argument 'training'; call it with \(params, x, mode=…\)",
        ),
        (lambda: nn.Dropout(p=0.5), "'p' .did you mean 'rate'"),
        (lambda: nn.LSTM(hidden_size=4), "'hidden_size' .did you mean 'units'"),
        (lambda: nn.LayerNorm(eps=1e-3), "'eps' .did you mean 'epsilon'"),
        (lambda: nn.Conv2D(4, 3, stride=2), "'stride' .did you mean 'strides'"),
        (lambda: nn.Conv2D(4, 3, pad="same"), "'pad' .did you mean 'padding'"),
        (lambda: nn.Embedding(5, embedding_dim=3), "'embedding_dim' .did you mean 'output_dim'"),
        (lambda: fit_with_options(optimiser=None), "fit: .*'optimiser' .did you mean 'optimizer'"),
        (
            lambda: plugrad.conv2d(IMAGES, VECTOR, pad="same"),
            "conv2d: .*'pad' .did you mean 'padding'",
        ),
        (lambda: plugrad.max_pool(IMAGES, kernel_size=2), "max_pool: .*mean 'window_size'"),
        (
            lambda: plugrad.layer_norm(MATRIX, weight=VECTOR),
            "layer_norm: .*'weight' .did you mean 'scale'",
        ),
        (lambda: plugrad.layer_norm(MATRIX, dim=-1), "layer_norm: .*'dim' .did you mean 'axis'"),
    ],
)
def test_the_right_keyword_is_named(call, message):
    with plugrad.use("cpu"), pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.Conv2D(4, 3, padding=1),
            ArgumentValueError,
            r"ZeroPadding2D\(1\) before it pads",
        ),
        (
            lambda: init_and_call(nn.Conv2D(4, 3), (8, 8, 3), IMAGES),
            ShapeError,
            r"channels last.*write plugrad.permute_dims\(images, \(0, 2, 3, 1\)\)",
        ),
        (
            lambda: plugrad.conv3d(plugrad.ones((1, 3, 4, 4, 4)), plugrad.ones((3, 3, 3, 3, 1))),
            ShapeError,
            r"if axis 1 has the channels, write plugrad.permute_dims\(images, \(0, 2, 3, 4, 1\)\)",
        ),
        (
            lambda: plugrad.layer_norm(MATRIX, VECTOR, VECTOR),
            ArgumentError,
            r"too many positional arguments; write layer_norm\(x, \*, offset=None, scale=None",
        ),
        (
            lambda: init_and_call(MODEL, (3,), MATRIX, True),
            ArgumentError,
            r"Sequential: the third argument is the mode of the call, nn.Training\(seed\).*not True",
        ),
        (
            lambda: GRAPH_MODEL(GRAPH_MODEL.init(0, {"x": (3,)}), MATRIX, 0),
            ArgumentError,
            "Graph: the third",
        ),
        (
            lambda: init_and_call(nn.BatchNorm(), (3,), MATRIX, True),
            ArgumentError,
            "BatchNorm: the third arg",
        ),
        (
            lambda: plugrad.grad(lambda x: plugrad.sum(x * x).item())(MATRIX),
            ArgumentError,
            r"must return one tensor, not float; item\(\) and float\(\) return numbers",
        ),
        (
            lambda: plugrad.grad(lambda x: plugrad.asarray(plugrad.sum(x).item()))(MATRIX),
            GradientNotFound,
            r"Numbers that item\(\) or float\(\) return have no gradient",
        ),
        (
            lambda: plugrad.use("cuda"),
            BackendNotFound,
            r"called 'cuda'; every GPU is one of the backend webgpu.*plugrad.use\(\"webgpu\"\)",
        ),
        (
            lambda: MATRIX.to("mps"),
            BackendNotFound,
            "called 'mps'; every GPU is one of the backend webgpu",
        ),
    ],
)
def test_the_remedy_is_named(call, error, message):
    with plugrad.use("cpu"), pytest.raises(error, match=message):
        call()


def written_calls(text):
    """Return the outermost calls in a text, as Python writes them."""
    found, end = [], 0
    for match in re.finditer(r"(?:nn|plugrad|model|optimizer)(?:\.\w+)?\(", text):
        if match.start() >= end:
            end, depth = match.end(), 1
            while depth:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            found.append(text[match.start() : end])
    return found


@pytest.mark.parametrize("name", MISSING_ATTRIBUTE_HINTS)
def test_model_errors_name_replacements_of_other_frameworks_attributes(name, tmp_path):
    hint = MISSING_ATTRIBUTE_HINTS[name]
    with pytest.raises(AttributeError, match=f"'Sequential' .*{name!r}: {re.escape(hint)}$"):
        getattr(MODEL, name)
    assert not hasattr(MODEL, name)
    with plugrad.use("cpu"):
        scope: dict[str, Any] = {
            "nn": nn,
            "plugrad": plugrad,
            "model": MODEL,
            "layers": MODEL.layers,
            "seed": 0,
            "shape": (3,),
            "params": MODEL.init(0, (3,)),
            "x": MATRIX,
            "y": plugrad.ones((2, 2)),
            "loss": plugrad.losses.mean_squared_error,
            "optimizer": plugrad.optimizers.SGD(0.1),
            "path": tmp_path / "params",
            "f": lambda: plugrad.mean(MODEL(scope["params"], MATRIX)),
            "name": "cpu",
        }
        plugrad.save(scope["path"], scope["params"])
        for code in written_calls(hint):
            eval(code, scope)


def test_help_and_editors_show_the_arguments_of_layers():
    assert [*signature(nn.Dropout).parameters] == ["rate"]
    assert [*signature(nn.Dense).parameters][:3] == ["units", "activation", "use_bias"]
    assert [*signature(nn.Dense(3)).parameters] == ["params", "x", "mode"]
    assert not any("*args" in str(signature(layer)) for layer in (nn.LSTM, nn.Conv2D, nn.Graph))
