"""Wrong arguments raise errors of plugrad that name the layer, the value and what is expected."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, PlugradError, ShapeError

INVALID_LAYERS = [
    (lambda: nn.Dense(0), ArgumentValueError, "Dense: units=0 must be at least 1"),
    (lambda: nn.Dense(2.5), ArgumentError, "Dense: units=2.5 must be an integer"),
    (lambda: nn.Dense(True), ArgumentError, "Dense: units=True must be an integer"),
    (lambda: nn.Dense(8, 2), ArgumentError, "Dense: activation=2 must be .* size of the input"),
    (lambda: nn.Dense(2, "relu"), ArgumentError, "must be a function; write plugrad.relu"),
    (lambda: nn.Dense(2, use_bias=1), ArgumentError, "use_bias=1 must be True or False"),
    (lambda: nn.Dense(2, kernel_initializer="zeros"), ArgumentError, "kernel_initializer"),
    (lambda: nn.Conv2D(2, (2, 2, 2)), ArgumentValueError, "one for each of 2 spatial axes"),
    (lambda: nn.Conv2D(2, 0), ArgumentValueError, "kernel_size=0 must be at least 1"),
    (lambda: nn.Conv2D(2, 2, padding="causal"), ArgumentValueError, "'valid' or 'same'"),
    (lambda: nn.Conv1D(2, 2, groups=3), ArgumentValueError, "groups=3 must divide filters=2"),
    (lambda: nn.Conv2D(2, 2, groups=0), ArgumentValueError, "groups=0 must be at least 1"),
    (lambda: nn.Conv2D(4, 2, groups=4).init(0, (3, 3, 6)), ShapeError, "divide the 6 channels"),
    (lambda: nn.Conv2DTranspose(2, 2, output_padding=-1), ArgumentValueError, "output_padding=-1"),
    (lambda: nn.DepthwiseConv2D(2, depth_multiplier=0), ArgumentValueError, "depth_multiplier"),
    (lambda: nn.MaxPooling2D("2"), ArgumentError, "pool_size='2'"),
    (lambda: nn.AveragePooling1D(2, -1), ArgumentValueError, "strides=-1"),
    (lambda: nn.Embedding(3, None), ArgumentError, "output_dim=None must be an integer"),
    (lambda: nn.LayerNorm("1e-5"), ArgumentError, "epsilon='1e-5' must be a number"),
    (lambda: nn.LayerNorm(float("nan")), ArgumentValueError, "epsilon=nan"),
    (lambda: nn.BatchNorm(momentum=1.5), ArgumentValueError, "momentum=1.5 must be at most 1"),
    (lambda: nn.GroupNorm(groups=0), ArgumentValueError, "groups=0"),
    (lambda: nn.Dropout(1.0), ArgumentValueError, "less than 1"),
    (lambda: nn.LSTM(-1), ArgumentValueError, "LSTM: units=-1"),
    (lambda: nn.GRU(1, return_sequences="yes"), ArgumentError, "return_sequences='yes'"),
    (lambda: nn.MultiHeadAttention(2, 0), ArgumentValueError, "key_dim=0"),
    (lambda: nn.Sequential([nn.Dense(1)]), ArgumentError, r"as in Sequential\(\*layers\)"),
    (lambda: nn.Sequential(nn.Dense(1), 3), ArgumentError, "Sequential: a layer=3"),
    (lambda: nn.Training(-1), ArgumentValueError, "seed=-1"),
    (lambda: nn.Dense(1).init(0.5, (3,)), ArgumentError, "seed=0.5"),
    (lambda: nn.Dense(1).init(0, 3), ArgumentError, "shape=3 must be a tuple of integers"),
    (lambda: nn.Dense(1).init(0, (3,), "int32"), ArgumentError, "dtype=int32 must be floating"),
    (lambda: nn.Dense(1).init(0, ()), ShapeError, r"Dense: one input must have the axes"),
    (lambda: nn.Conv2D(1, 2).init(0, (3, 3)), ShapeError, r"\(height, width, channels\)"),
    (lambda: nn.LSTM(1).init(0, (3,)), ShapeError, r"\(time, features\)"),
    (lambda: nn.GroupNorm(groups=3).init(0, (4,)), ShapeError, "does not divide the 4 channels"),
    (lambda: nn.Sequential(nn.Conv2D(1, 5)).init(0, (3, 3, 1)), ShapeError, "fit"),
    (lambda: nn.initializers.VarianceScaling(fan="mean"), ArgumentValueError, "fan='mean'"),
    (lambda: nn.initializers.Uniform(1.0, 0.0), ArgumentValueError, "high=0.0"),
    (lambda: nn.initializers.Normal(std=-1.0), ArgumentValueError, "std=-1.0"),
]


@pytest.mark.parametrize(("call", "error", "message"), INVALID_LAYERS)
def test_invalid_layer_descriptions(call, error, message):
    with plugrad.use("cpu"), pytest.raises(error, match=message):
        call()


MATRIX = np.ones((2, 3), np.float32)
INVALID_CALLS = [
    (
        nn.Dense(2),
        (4,),
        MATRIX,
        ShapeError,
        r"Dense: x has shape \(2, 3\); it must be \(batch, …, 4\)",
    ),
    (nn.Conv1D(2, 2), (4, 3), MATRIX[0], ShapeError, "conv1d"),
    (nn.Conv2D(2, 2), (4, 4, 3), MATRIX, ShapeError, "conv2d"),
    (nn.Conv2DTranspose(2, 2), (4, 4, 3), MATRIX, ShapeError, "Conv2DTranspose: x has shape"),
    (nn.MaxPooling1D(), (4, 3), MATRIX, ShapeError, "MaxPooling1D: x has shape"),
    (nn.GlobalMaxPooling(), (4, 3), MATRIX, ShapeError, "GlobalMaxPooling: x has shape"),
    (nn.LayerNorm(), (4,), MATRIX, ShapeError, "LayerNorm: x has shape"),
    (nn.GroupNorm(groups=2), (4,), MATRIX, ShapeError, "GroupNorm: x has shape"),
    (nn.BatchNorm(), (4,), MATRIX, ShapeError, "BatchNorm: x has shape"),
    (nn.BatchNorm(center=False, scale=False), (4,), MATRIX, ShapeError, "BatchNorm: x has shape"),
    (
        nn.LSTM(2),
        (4, 3),
        MATRIX,
        ShapeError,
        r"LSTM: x has shape \(2, 3\); it must be \(batch, time",
    ),
    (nn.MultiHeadAttention(1, 2), (4, 3), MATRIX, ShapeError, "MultiHeadAttention: x has shape"),
    (nn.PositionEmbedding(2), (2, 3), MATRIX[None, :, :2], ShapeError, "PositionEmbedding: x has"),
    (nn.Embedding(3, 2), (), MATRIX, DTypeError, "Embedding: x is float32"),
    (nn.Flatten(), (3,), 1.0, ShapeError, "Flatten: x must have the axis of the batch"),
    (nn.Residual(nn.Dense(2)), (3,), MATRIX, ShapeError, "Residual: the layers make"),
]


@pytest.mark.parametrize(("layer", "shape", "x", "error", "message"), INVALID_CALLS, ids=str)
def test_invalid_layer_inputs(layer, shape, x, error, message, backend):
    params = layer.init(0, shape)
    with pytest.raises(error, match=message):
        layer(params, x)


@pytest.mark.parametrize("params", [{}, None, [1.0], {"bias": 1.0}])
def test_parameters_of_another_layer(params):
    for layer in (nn.Dense(2), nn.LayerNorm(), nn.LSTM(2), nn.MultiHeadAttention(1, 2)):
        with pytest.raises(ArgumentError, match="the parameters do not have"):
            layer(params, np.ones((1, 2, 2), np.float32))
    with pytest.raises(PlugradError):
        nn.Sequential(nn.Dense(2))(params, MATRIX)


def test_invalid_masks():
    layer = nn.MultiHeadAttention(1, 2)
    params, x = layer.init(0, (4, 3)), np.ones((2, 4, 3), np.float32)
    with pytest.raises(DTypeError, match="mask is float32"):
        layer(params, x, mask=np.ones((4, 4), np.float32))
    with pytest.raises(ShapeError, match=r"mask has shape \(3, 4\)"):
        layer(params, x, mask=np.ones((3, 4), bool))


def test_layers_are_values_that_do_not_change():
    layer = nn.Conv2D(3, 2, padding="same")
    assert layer == nn.Conv2D(3, 2, padding="same") != nn.Conv2D(3, 2)
    assert repr(layer) == "Conv2D(3, 2, padding='same')"
    model = nn.Sequential(layer, plugrad.relu, nn.Residual(nn.Dropout(0.5)))
    assert repr(model) == "Sequential(Conv2D(3, 2, padding='same'), relu, Residual(Dropout(0.5)))"
    assert model == nn.Sequential(layer, plugrad.relu, nn.Residual(nn.Dropout(0.5)))
    assert {layer: 1, model: 2}[model] == 2
    with pytest.raises(AttributeError):
        layer.filters = 4


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Linear", r"write nn\.Dense\(units\)"),
        ("ReLU", r"write plugrad\.relu"),
        ("CrossEntropyLoss", r"nn\.losses\.sparse_softmax_cross_entropy"),
        ("Conv2d", "did you mean 'Conv2D'"),
        ("BatchNorm2d", "did you mean 'BatchNorm'"),
        ("qqqq", "$"),
    ],
)
def test_errors_for_names_of_other_frameworks_name_plugrads_counterpart(name, remedy):
    with pytest.raises(AttributeError, match=f"^plugrad_nn does not have '{name}'.*{remedy}"):
        getattr(nn, name)
    assert not hasattr(nn, name)
