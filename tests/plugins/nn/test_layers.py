"""Each layer: its values against a formula in NumPy, gradients against finite differences, shapes and dtypes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugins.nn import references as ref
from plugins.nn.conftest import as_numpy
from plugrad.testing import check_gradient
from plugrad_nn.tfjs import hard_sigmoid


@dataclass(frozen=True)
class Case:
    layer: Any
    shape: tuple[int, ...]
    """The shape of one input."""
    formula: Any
    """A function of (params, x)."""

    def __str__(self):
        return repr(self.layer).replace(" ", "")


def plus(formula):
    """Return a formula with the bias added."""
    return lambda p, x: formula(p["kernel"], x) + p["bias"]


CAUSAL = np.tril(np.ones((5, 5), bool))
# Keys' cubic weights at distances 1/4, 3/4, 5/4 and 7/4 are 225, 67, -27 and -9 of 256; the border goes on.
HALF = np.array([[283, -27, 0, 0], [198, 67, -9, 0], [58, 225, -27, 0], [-27, 225, 67, -9]]) / 256
CUBIC_DOUBLING = np.concatenate([HALF, HALF[::-1, ::-1]])
CASES = [
    Case(nn.Dense(3, plugrad.tanh), (4,), lambda p, x: np.tanh(x @ p["kernel"] + p["bias"])),
    Case(nn.Dense(3, use_bias=False), (2, 4), lambda p, x: x @ p["kernel"]),
    Case(nn.PositionEmbedding(7), (5, 2), lambda p, x: x + p["embeddings"][:5]),
    Case(nn.Flatten(), (2, 3, 2), lambda p, x: x.reshape(len(x), 12)),
    # convolutions
    Case(nn.Conv1D(3, 2, 2), (7, 2), plus(lambda k, x: ref.convolved(x, k, [2]))),
    Case(
        nn.Conv1D(2, 3, padding="causal", dilation_rate=2),
        (6, 2),
        plus(lambda k, x: ref.convolved(x, k, [1], "causal", [2])),
    ),
    Case(
        nn.Conv2D(3, (2, 3), (1, 2), "same", activation=plugrad.tanh),
        (4, 5, 2),
        lambda p, x: np.tanh(ref.convolved(x, p["kernel"], [1, 2], "same") + p["bias"]),
    ),
    Case(
        nn.Conv3D(2, 2, padding="same", use_bias=False),
        (2, 3, 3, 2),
        lambda p, x: ref.convolved(x, p["kernel"], [1, 1, 1], "same"),
    ),
    Case(
        nn.DepthwiseConv2D(2, depth_multiplier=2, padding="same", strides=2),
        (4, 3, 2),
        plus(lambda k, x: ref.depthwise(x, k, [2, 2], "same")),
    ),
    Case(
        nn.Conv2D(4, 2, 2, dilation_rate=2, groups=2),
        (6, 5, 6),
        plus(lambda k, x: ref.in_groups(ref.convolved, x, k, 2, [2, 2], "valid", [2, 2])),
    ),
    Case(
        nn.Conv1D(6, 3, padding="causal", groups=3),
        (5, 3),
        plus(lambda k, x: ref.in_groups(ref.convolved, x, k, 3, [1], "causal")),
    ),
    # transposed convolutions
    Case(
        nn.Conv2DTranspose(4, 3, 2, "same", groups=2, output_padding=0),
        (3, 2, 6),
        plus(lambda k, x: ref.in_groups(ref.transposed, x, k, 2, [2, 2], "same", None, [5, 3])),
    ),
    Case(
        nn.Conv1DTranspose(2, 2, 3, output_padding=2),
        (3, 4),
        plus(lambda k, x: ref.transposed(x, k, [3], "valid", None, [10])),
    ),
    Case(
        nn.Conv1DTranspose(3, 3, 2), (4, 2), plus(lambda k, x: ref.transposed(x, k, [2], "valid"))
    ),
    Case(
        nn.Conv1DTranspose(2, 2, dilation_rate=2),
        (3, 2),
        plus(lambda k, x: ref.transposed(x, k, [1], "valid", [2])),
    ),
    Case(
        nn.Conv2DTranspose(3, (3, 2), (2, 1), "same"),
        (3, 2, 2),
        plus(lambda k, x: ref.transposed(x, k, [2, 1], "same")),
    ),
    Case(
        nn.Conv2DTranspose(2, 1, 2, activation=plugrad.tanh),  # a stride beyond the filter
        (2, 2, 3),
        lambda p, x: np.tanh(ref.transposed(x, p["kernel"], [2, 2], "valid") + p["bias"]),
    ),
    Case(
        nn.Conv3DTranspose(2, 2, (1, 2, 2)),
        (2, 2, 2, 2),
        plus(lambda k, x: ref.transposed(x, k, [1, 2, 2], "valid")),
    ),
    # pooling
    Case(nn.MaxPooling1D(2), (5, 2), lambda p, x: ref.pooled(x, [2], [2], "valid", np.nanmax)),
    Case(
        nn.MaxPooling2D((2, 3), 2, "same"),
        (4, 5, 2),
        lambda p, x: ref.pooled(x, [2, 3], [2, 2], "same", np.nanmax),
    ),
    Case(
        nn.MaxPooling3D(2, 1),
        (2, 3, 3, 2),
        lambda p, x: ref.pooled(x, [2, 2, 2], [1, 1, 1], "valid", np.nanmax),
    ),
    Case(
        nn.AveragePooling1D(3, 1, "same"),
        (5, 2),
        lambda p, x: ref.pooled(x, [3], [1], "same", np.nanmean),
    ),
    Case(
        nn.AveragePooling2D(),
        (4, 5, 2),
        lambda p, x: ref.pooled(x, [2, 2], [2, 2], "valid", np.nanmean),
    ),
    Case(
        nn.AveragePooling3D((1, 2, 2)),
        (2, 4, 2, 2),
        lambda p, x: ref.pooled(x, [1, 2, 2], [1, 2, 2], "valid", np.nanmean),
    ),
    Case(nn.GlobalMaxPooling(), (3, 2, 4), lambda p, x: x.max((1, 2))),
    Case(nn.GlobalAveragePooling(), (5, 3), lambda p, x: x.mean(1)),
    # normalization
    Case(nn.LayerNorm(), (3, 4), lambda p, x: ref.normalized(x, -1) * p["gamma"] + p["beta"]),
    Case(
        nn.LayerNorm(epsilon=0.1, center=False),
        (5,),
        lambda p, x: ref.normalized(x, -1, 0.1) * p["gamma"],
    ),
    Case(nn.GroupNorm(groups=2), (3, 4), lambda p, x: ref.grouped(x, 2) * p["gamma"] + p["beta"]),
    Case(
        nn.BatchNorm(),
        (3, 2),
        lambda p, x: (
            (x - p["moving_mean"]) / np.sqrt(p["moving_variance"] + 1e-5) * p["gamma"] + p["beta"]
        ),
    ),
    Case(nn.Dropout(0.5), (3,), lambda p, x: x),
    Case(
        nn.InstanceNorm(),
        (3, 2, 4),
        lambda p, x: ref.normalized(x, (1, 2)) * p["gamma"] + p["beta"],
    ),
    Case(nn.RMSNorm(), (3, 4), lambda p, x: ref.rms_normalized(x) * p["gamma"]),
    Case(
        nn.WeightNorm(nn.Dense(3)),
        (4,),
        lambda p, x: (
            x
            @ (
                p["kernel_direction"]
                * p["kernel_length"]
                / ref.channel_norms(p["kernel_direction"])
            )
            + p["bias"]
        ),
    ),
    Case(
        nn.Parametrized(nn.Conv1D(2, 2), plugrad.tanh),
        (5, 2),
        plus(lambda k, x: ref.convolved(x, np.tanh(k), [1])),
    ),
    Case(nn.PReLU(), (3, 2), lambda p, x: np.where(x > 0, x, p["alpha"] * x)),
    # shapes
    Case(nn.Reshape((3, -1)), (2, 6), lambda p, x: x.reshape(len(x), 3, 4)),
    Case(nn.Permute((3, 1, 2)), (2, 3, 4), lambda p, x: x.transpose(0, 3, 1, 2)),
    Case(nn.ZeroPadding1D((2, 0)), (3, 2), lambda p, x: np.pad(x, [(0, 0), (2, 0), (0, 0)])),
    Case(
        nn.ZeroPadding2D((1, 2)),
        (2, 3, 2),
        lambda p, x: np.pad(x, [(0, 0), (1, 1), (2, 2), (0, 0)]),
    ),
    Case(
        nn.ZeroPadding3D(((0, 1), (2, 0), (1, 1))),
        (2, 1, 2, 2),
        lambda p, x: np.pad(x, [(0, 0), (0, 1), (2, 0), (1, 1), (0, 0)]),
    ),
    Case(nn.Cropping1D(1), (4, 2), lambda p, x: x[:, 1:-1]),
    Case(nn.Cropping2D(((1, 0), (0, 2))), (3, 4, 2), lambda p, x: x[:, 1:, :-2]),
    Case(nn.Cropping3D((1, 0, 1)), (3, 2, 4, 1), lambda p, x: x[:, 1:-1, :, 1:-1]),
    Case(nn.UpSampling1D(3), (2, 2), lambda p, x: x.repeat(3, 1)),
    Case(nn.UpSampling2D((1, 2)), (2, 2, 3), lambda p, x: x.repeat(2, 2)),
    Case(
        nn.UpSampling2D(2, "bilinear"),
        (2, 3, 1),
        lambda p, x: ref.doubled_between(ref.doubled_between(x, 1), 2),
    ),
    Case(
        nn.UpSampling2D((1, 2), "bicubic"),
        (1, 4, 1),
        lambda p, x: np.einsum("bhwc,vw->bhvc", x, CUBIC_DOUBLING),
    ),
    Case(nn.UpSampling3D(2), (1, 2, 1, 2), lambda p, x: x.repeat(2, 1).repeat(2, 2).repeat(2, 3)),
    Case(nn.PixelShuffle(2), (2, 3, 8), lambda p, x: ref.pixel_shuffled(x, 2)),
    # pooling to a size
    Case(nn.AdaptiveAveragePooling1D(3), (7, 2), lambda p, x: ref.adapted(x, [3], np.mean)),
    Case(
        nn.AdaptiveAveragePooling2D((2, 4)), (5, 3, 2), lambda p, x: ref.adapted(x, [2, 4], np.mean)
    ),
    Case(
        nn.AdaptiveAveragePooling3D(2),
        (3, 2, 4, 1),
        lambda p, x: ref.adapted(x, [2, 2, 2], np.mean),
    ),
    Case(nn.AdaptiveMaxPooling1D(3), (5, 2), lambda p, x: ref.adapted(x, [3], np.max)),
    Case(nn.AdaptiveMaxPooling2D((3, 2)), (5, 3, 2), lambda p, x: ref.adapted(x, [3, 2], np.max)),
    Case(nn.AdaptiveMaxPooling3D(2), (3, 2, 4, 1), lambda p, x: ref.adapted(x, [2, 2, 2], np.max)),
    Case(
        nn.SeparableConv2D(3, 2, 2, "same", depth_multiplier=2),
        (4, 3, 2),
        lambda p, x: (
            ref.depthwise(x, p["depthwise_kernel"], [2, 2], "same") @ p["pointwise_kernel"][0, 0]
            + p["bias"]
        ),
    ),
    # graphs
    Case(
        nn.Graph(
            "x",
            {
                "a": (nn.Dense(3, plugrad.tanh), "x"),
                "b": (nn.Dense(3), "a"),
                "c": ("b", "b"),
                "sum": (nn.Add(), "a", "b", "c"),
                "out": (plugrad.multiply, "sum", "a"),
            },
            "out",
        ),
        (4,),
        ref.shared_twice,
    ),
    # sequences
    Case(nn.LSTM(3), (4, 2), lambda p, x: ref.lstm(p, x)[:, -1]),
    Case(nn.LSTM(2, return_sequences=True), (3, 3), ref.lstm),
    Case(nn.GRU(3), (4, 2), lambda p, x: ref.gru(p, x)[:, -1]),
    Case(nn.GRU(2, return_sequences=True), (3, 3), ref.gru),
    Case(
        nn.GRU(
            2,
            return_sequences=True,
            activation=plugrad.relu,
            recurrent_activation=hard_sigmoid,
            reset_after=False,
        ),
        (3, 2),
        ref.gru_before,
    ),
    Case(nn.GRU(2, use_bias=False), (3, 2), lambda p, x: ref.without_bias(ref.gru)(p, x)[:, -1]),
    Case(nn.RepeatVector(3), (2,), lambda p, x: np.repeat(x[:, None], 3, axis=1)),
    Case(nn.Rescaling(0.5, -1.0), (2, 3), lambda p, x: x * 0.5 - 1),
    Case(nn.MultiHeadAttention(2, 3), (5, 4), lambda p, x: ref.attended(p, x, 2)),
    Case(
        nn.MultiHeadAttention(1, 2, causal=True),
        (5, 3),
        lambda p, x: ref.attended(p, x, 1, mask=CAUSAL),
    ),
    Case(nn.SimpleRNN(3), (4, 2), lambda p, x: ref.simple_rnn(p, x)[:, -1]),
    Case(nn.SimpleRNN(2, return_sequences=True), (3, 3), ref.simple_rnn),
    Case(
        nn.Bidirectional(nn.LSTM(2, return_sequences=True)),
        (4, 3),
        lambda p, x: np.concatenate(
            [ref.lstm(p["forward"], x), ref.lstm(p["backward"], x[:, ::-1])[:, ::-1]], -1
        ),
    ),
    Case(
        nn.Bidirectional(nn.GRU(2), "average"),
        (4, 3),
        lambda p, x: (
            (ref.gru(p["forward"], x)[:, -1] + ref.gru(p["backward"], x[:, ::-1])[:, -1]) / 2
        ),
    ),
    Case(
        nn.ConvLSTM2D(2, 2, 2, "same", return_sequences=True),
        (3, 4, 3, 2),
        lambda p, x: ref.conv_lstm(p, x, [2, 2], "same"),
    ),
    Case(nn.ConvLSTM2D(2, (1, 2)), (2, 2, 3, 1), lambda p, x: ref.conv_lstm(p, x, [1, 1])[:, -1]),
    Case(nn.TimeDistributed(nn.Dense(3)), (4, 2), lambda p, x: x @ p["kernel"] + p["bias"]),
    Case(
        nn.MultiHeadAttention(4, 2, num_kv_heads=2),
        (5, 3),
        lambda p, x: ref.attended(p, x, 4, kv_heads=2),
    ),
    Case(
        nn.MultiHeadAttention(2, 4, causal=True, positions="rotary"),
        (5, 3),
        lambda p, x: ref.attended(p, x, 2, mask=CAUSAL, positions="rotary"),
    ),
    Case(
        nn.MultiHeadAttention(3, 2, positions="alibi"),
        (5, 3),
        lambda p, x: ref.attended(p, x, 3, positions="alibi"),
    ),
    Case(nn.TransformerEncoderBlock(2, 5), (4, 6), lambda p, x: ref.encoded(p, x, 2)),
    Case(
        nn.TransformerEncoderBlock(3, 5, plugrad.tanh, norm_first=True, normalization=nn.RMSNorm()),
        (4, 6),
        lambda p, x: ref.encoded_norm_first(p, x, 3),
    ),
    # layers of layers
    Case(
        nn.Sequential(nn.Dense(3), plugrad.tanh, nn.Dense(2)),
        (4,),
        lambda p, x: (
            np.tanh(x @ p["dense"]["kernel"] + p["dense"]["bias"]) @ p["dense_1"]["kernel"]
            + p["dense_1"]["bias"]
        ),
    ),
    Case(
        nn.Residual(nn.Dense(4), plugrad.tanh),
        (2, 4),
        lambda p, x: x + np.tanh(x @ p["dense"]["kernel"] + p["dense"]["bias"]),
    ),
]
by_case = pytest.mark.parametrize("case", CASES, ids=str)


def inputs_of(case, rng, dtype=np.float32):
    """Return a batch without ties: every element differs from the others."""
    shape = (2, *case.shape)
    return rng.permuted(np.linspace(-1, 1, int(np.prod(shape)))).reshape(shape).astype(dtype)


@by_case
def test_values(case, backend, made, rng):
    params, x = made(case.layer, case.shape), inputs_of(case, rng)
    y = case.layer(params, x)
    assert y.device.startswith(backend)
    assert y.dtype == plugrad.float32
    expected = case.formula(as_numpy(params), x.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)
    assert case.layer.output_shape(params, case.shape) == y.shape[1:]
    assert case.layer(params, plugrad.zeros((0, *case.shape))).shape == (0, *y.shape[1:])


def rebuilt(params, values):
    """Return nested dicts with other leaves."""
    return {
        name: rebuilt(part, values) if isinstance(part, dict) else next(values)
        for name, part in params.items()
    }


@by_case
def test_gradients_on_the_cpu_agree_with_differences(case, made, rng):
    with plugrad.use("cpu"):
        params, x = made(case.layer, case.shape, "float64"), inputs_of(case, rng, np.float64)

        def function(x, *values):
            return case.layer(rebuilt(params, iter(values)), x)

        check_gradient(function, x, *[v.numpy() for v in nn.leaves(params)])


@by_case
def test_gradients_are_those_of_the_cpu(case, backend, made, rng):
    params, x = made(case.layer, case.shape), inputs_of(case, rng)

    def loss(params, x):
        return plugrad.sum(plugrad.square(case.layer(params, x)))

    found = plugrad.grad(loss, argnums=(0, 1))(params, x)
    with plugrad.use("cpu"):
        theirs = rebuilt(params, iter([v.numpy().astype(np.float64) for v in nn.leaves(params)]))
        expected = plugrad.grad(loss, argnums=(0, 1))(theirs, x.astype(np.float64))
    pairs = zip(
        [*nn.leaves(found[0]), found[1]], [*nn.leaves(expected[0]), expected[1]], strict=True
    )
    for gradient, right in pairs:
        assert gradient.dtype == plugrad.float32
        scale = max(1.0, float(np.abs(right.numpy()).max(initial=0)))
        np.testing.assert_allclose(gradient.numpy(), right.numpy(), rtol=1e-4, atol=2e-5 * scale)
