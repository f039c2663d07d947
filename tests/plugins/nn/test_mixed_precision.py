"""Layers, losses and `fit` in mixed precision: halves in between, float32 for parameters and results."""

from functools import partial

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.errors import ArgumentValueError

HALF_DTYPES = ("bfloat16", "float16")
LAYERS_AND_SHAPES = {
    "dense": (nn.Dense(3), (4,)),
    "convolution": (nn.Conv2D(3, 3), (6, 6, 2)),
    "depthwise": (nn.DepthwiseConv2D(3), (6, 6, 2)),
    "transposed": (nn.Conv2DTranspose(3, 3), (4, 4, 2)),
    "lstm": (nn.LSTM(3), (5, 2)),
    "gru": (nn.GRU(3, return_sequences=True), (5, 2)),
    "gru_before": (nn.GRU(3, reset_after=False), (5, 2)),
    "rnn": (nn.SimpleRNN(3), (5, 2)),
    "rnn_softplus": (nn.SimpleRNN(3, activation=plugrad.softplus), (5, 2)),
    "conv_lstm": (nn.ConvLSTM2D(2, 3), (4, 5, 5, 1)),
}


@pytest.mark.parametrize("half", HALF_DTYPES)
@pytest.mark.parametrize("name", LAYERS_AND_SHAPES)
def test_layers_with_products_give_halves(backend, name, half):
    layer, shape = LAYERS_AND_SHAPES[name]
    params = layer.init(0, shape)
    x = plugrad.random.Generator(1).normal((2, *shape))
    expected = layer(params, x)
    with plugrad.autocast(half):
        found = layer(params, x)

        def loss():
            return plugrad.mean(plugrad.square(layer(params, x)))

        value, gradients = plugrad.variable_grads(loss, nn.leaves(params))
    assert (found.dtype, found.shape, value.dtype) == (half, expected.shape, "float32")
    assert all(g.dtype == "float32" for g in gradients)
    tolerance = 0.06 if half == "bfloat16" else 0.01
    np.testing.assert_allclose(found.numpy().astype("float32"), expected.numpy(), 0, tolerance)


@pytest.mark.parametrize(
    ("layer", "shape", "dtype"),
    [
        (nn.LayerNorm(), (4,), "float32"),
        (nn.BatchNorm(), (4,), "float32"),
        (nn.MultiHeadAttention(2, 4), (5, 8), "bfloat16"),
        (nn.Dropout(0.5), (4,), "bfloat16"),
    ],
)
def test_dtypes_of_layers_under_autocast(backend, layer, shape, dtype):
    params = layer.init(0, shape)
    x = plugrad.random.Generator(1).normal((3, *shape), dtype="bfloat16")
    with plugrad.autocast("bfloat16"):
        y = layer(params, x, nn.Training(0))
    assert y.dtype == dtype


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_losses_are_float32_and_their_gradients_halves(backend, half):
    logits = plugrad.asarray([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]], dtype=half)
    labels = np.array([0, 2], np.int32)
    for loss, y in (
        (nn.losses.sparse_softmax_cross_entropy, labels),
        (plugrad.losses.softmax_cross_entropy, np.eye(3, dtype=np.float32)[labels]),
        (plugrad.losses.sigmoid_cross_entropy, np.eye(3, dtype=np.float32)[labels]),
        (plugrad.losses.mean_squared_error, np.eye(3, dtype=np.float32)[labels]),
    ):
        right = loss(y, logits.astype("float32"))
        slope = plugrad.grad(partial(loss, y))(logits.astype("float32"))
        with plugrad.autocast(half):
            value = loss(y, logits)
            found = plugrad.grad(partial(loss, y))(logits)
        assert (value.dtype, found.dtype) == ("float32", half)
        np.testing.assert_allclose(value.numpy(), right.numpy(), rtol=1e-2)
        np.testing.assert_allclose(
            found.numpy().astype("float32"), slope.numpy(), rtol=2e-2, atol=1e-2
        )


INPUTS = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
LABELS = (INPUTS[:, 0] > INPUTS[:, 1]).astype(np.int32)


def train_in_dtype(dtype, **options):
    model = nn.Sequential(nn.Dense(8), plugrad.relu, nn.Dense(2))
    params = model.init(0, (4,))
    optimizer = plugrad.optimizers.Adam(0.05)
    results = nn.fit(
        model,
        params,
        INPUTS,
        LABELS,
        loss=nn.losses.sparse_softmax_cross_entropy,
        optimizer=optimizer,
        epochs=4,
        validation_data=(INPUTS, LABELS),
        metrics={"accuracy": nn.metrics.accuracy},
        autocast=dtype,
        **options,
    )
    return params, optimizer, results


@pytest.mark.parametrize("options", [{}, {"jit": False}, {"accumulate": 2}], ids=str)
@pytest.mark.parametrize("half", HALF_DTYPES)
def test_fit_with_autocast_learns_as_in_float32(backend, half, options):
    _, _, expected = train_in_dtype(None, **options)
    params, optimizer, results = train_in_dtype(half, **options)
    assert all(v.dtype == "float32" for v in nn.leaves(params))
    assert abs(results[-1]["loss"] - expected[-1]["loss"]) < 0.02
    assert abs(results[-1]["val_accuracy"] - expected[-1]["val_accuracy"]) < 0.05
    if half == "bfloat16":
        assert optimizer.loss_scale is None
    else:
        assert optimizer.loss_scale.value == 65536


def test_fit_takes_the_loss_scale_that_an_optimizer_has():
    with plugrad.use("cpu"):
        model = nn.Dense(2)
        scale = plugrad.optimizers.LossScale(16.0)
        optimizer = plugrad.optimizers.SGD(0.1).with_loss_scale(scale)
        nn.fit(
            model,
            model.init(0, (4,)),
            INPUTS,
            LABELS,
            loss=nn.losses.sparse_softmax_cross_entropy,
            optimizer=optimizer,
            autocast="float16",
        )
        assert optimizer.loss_scale is scale
        assert scale.get_state() == {"scale": 16.0, "good_steps": 3.0}


def test_invalid_autocast_dtypes_of_fit():
    with plugrad.use("cpu"), pytest.raises(ArgumentValueError, match="must be 'bfloat16'"):
        train_in_dtype("float64")


CONVNET = nn.Sequential(
    nn.Conv2D(16, 3, padding="same"),
    plugrad.relu,
    nn.MaxPooling2D(2),
    nn.Conv2D(32, 3, padding="same"),
    plugrad.relu,
    nn.Flatten(),
    nn.Dense(4),
)
ATTENTION_BLOCK = nn.Residual(nn.LayerNorm(), nn.MultiHeadAttention(4, 8), nn.Dropout(0.1))
POSITION_EMBEDDING = nn.PositionEmbedding(16)
MLP_BLOCK = nn.Residual(nn.LayerNorm(), nn.Dense(128, plugrad.relu), nn.Dense(32), nn.Dropout(0.1))
NETWORKS = {
    "convolutions": (CONVNET, (16, 16, 2)),
    "transformer": (
        nn.Sequential(
            POSITION_EMBEDDING,
            ATTENTION_BLOCK,
            MLP_BLOCK,
            ATTENTION_BLOCK,
            MLP_BLOCK,
            nn.LayerNorm(),
            nn.Dense(60),
        ),
        (16, 32),
    ),
}


def saved_bytes(name, dtype):
    """Return the bytes that the forward pass of a network saves for the backward pass."""
    model, shape = NETWORKS[name]
    params = model.init(0, shape)
    x = plugrad.random.Generator(0).normal((64, *shape))
    found = []

    def loss():
        before = plugrad.memory().bytes
        with plugrad.autocast(dtype):
            value = plugrad.mean(model(params, x, nn.Training(0)))
        found.append(plugrad.memory().bytes - before)
        return value

    plugrad.variable_grads(loss, nn.leaves(params))
    return found[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_take_half_of_the_memory(backend, name):
    wide = saved_bytes(name, "float32")
    for half in HALF_DTYPES:
        assert saved_bytes(name, half) <= 0.6 * wide
