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
class LayerCase:
    layer: Any
    shape: tuple[int, ...]
    """The shape of one input."""
    formula: Any
    """A function of (params, x)."""

    def __str__(self):
        return repr(self.layer).replace(" ", "")


def with_bias(formula):
    """Return a formula that also adds the bias."""
    return lambda p, x: formula(p["kernel"], x) + p["bias"]


CAUSAL_MASK = np.tril(np.ones((5, 5), bool))
# Keys' cubic weights at distances 1/4, 3/4, 5/4 and 7/4 are 225, 67, -27 and -9 of 256; the border goes on.
CUBIC_WEIGHTS = (
    np.array([[283, -27, 0, 0], [198, 67, -9, 0], [58, 225, -27, 0], [-27, 225, 67, -9]]) / 256
)
CUBIC_UPSAMPLING_MATRIX = np.concatenate([CUBIC_WEIGHTS, CUBIC_WEIGHTS[::-1, ::-1]])
LAYER_CASES = [
    LayerCase(nn.Dense(3, plugrad.tanh), (4,), lambda p, x: np.tanh(x @ p["kernel"] + p["bias"])),
    LayerCase(nn.Dense(3, use_bias=False), (2, 4), lambda p, x: x @ p["kernel"]),
    LayerCase(nn.PositionEmbedding(7), (5, 2), lambda p, x: x + p["embeddings"][:5]),
    LayerCase(nn.Flatten(), (2, 3, 2), lambda p, x: x.reshape(len(x), 12)),
    # convolutions
    LayerCase(nn.Conv1D(3, 2, 2), (7, 2), with_bias(lambda k, x: ref.convolution(x, k, [2]))),
    LayerCase(
        nn.Conv1D(2, 3, padding="causal", dilation_rate=2),
        (6, 2),
        with_bias(lambda k, x: ref.convolution(x, k, [1], "causal", [2])),
    ),
    LayerCase(
        nn.Conv2D(3, (2, 3), (1, 2), "same", activation=plugrad.tanh),
        (4, 5, 2),
        lambda p, x: np.tanh(ref.convolution(x, p["kernel"], [1, 2], "same") + p["bias"]),
    ),
    LayerCase(
        nn.Conv3D(2, 2, padding="same", use_bias=False),
        (2, 3, 3, 2),
        lambda p, x: ref.convolution(x, p["kernel"], [1, 1, 1], "same"),
    ),
    LayerCase(
        nn.DepthwiseConv2D(2, depth_multiplier=2, padding="same", strides=2),
        (4, 3, 2),
        with_bias(lambda k, x: ref.depthwise_convolution(x, k, [2, 2], "same")),
    ),
    LayerCase(
        nn.Conv2D(4, 2, 2, dilation_rate=2, groups=2),
        (6, 5, 6),
        with_bias(
            lambda k, x: ref.grouped_convolution(ref.convolution, x, k, 2, [2, 2], "valid", [2, 2])
        ),
    ),
    LayerCase(
        nn.Conv1D(6, 3, padding="causal", groups=3),
        (5, 3),
        with_bias(lambda k, x: ref.grouped_convolution(ref.convolution, x, k, 3, [1], "causal")),
    ),
    # transposed convolutions
    LayerCase(
        nn.Conv2DTranspose(4, 3, 2, "same", groups=2, output_padding=0),
        (3, 2, 6),
        with_bias(
            lambda k, x: ref.grouped_convolution(
                ref.transposed_convolution, x, k, 2, [2, 2], "same", None, [5, 3]
            )
        ),
    ),
    LayerCase(
        nn.Conv1DTranspose(2, 2, 3, output_padding=2),
        (3, 4),
        with_bias(lambda k, x: ref.transposed_convolution(x, k, [3], "valid", None, [10])),
    ),
    LayerCase(
        nn.Conv1DTranspose(3, 3, 2),
        (4, 2),
        with_bias(lambda k, x: ref.transposed_convolution(x, k, [2], "valid")),
    ),
    LayerCase(
        nn.Conv1DTranspose(2, 2, dilation_rate=2),
        (3, 2),
        with_bias(lambda k, x: ref.transposed_convolution(x, k, [1], "valid", [2])),
    ),
    LayerCase(
        nn.Conv2DTranspose(3, (3, 2), (2, 1), "same"),
        (3, 2, 2),
        with_bias(lambda k, x: ref.transposed_convolution(x, k, [2, 1], "same")),
    ),
    LayerCase(
        nn.Conv2DTranspose(2, 1, 2, activation=plugrad.tanh),  # a stride beyond the filter
        (2, 2, 3),
        lambda p, x: np.tanh(
            ref.transposed_convolution(x, p["kernel"], [2, 2], "valid") + p["bias"]
        ),
    ),
    LayerCase(
        nn.Conv3DTranspose(2, 2, (1, 2, 2)),
        (2, 2, 2, 2),
        with_bias(lambda k, x: ref.transposed_convolution(x, k, [1, 2, 2], "valid")),
    ),
    # pooling
    LayerCase(
        nn.MaxPooling1D(2), (5, 2), lambda p, x: ref.pooling(x, [2], [2], "valid", np.nanmax)
    ),
    LayerCase(
        nn.MaxPooling2D((2, 3), 2, "same"),
        (4, 5, 2),
        lambda p, x: ref.pooling(x, [2, 3], [2, 2], "same", np.nanmax),
    ),
    LayerCase(
        nn.MaxPooling3D(2, 1),
        (2, 3, 3, 2),
        lambda p, x: ref.pooling(x, [2, 2, 2], [1, 1, 1], "valid", np.nanmax),
    ),
    LayerCase(
        nn.AveragePooling1D(3, 1, "same"),
        (5, 2),
        lambda p, x: ref.pooling(x, [3], [1], "same", np.nanmean),
    ),
    LayerCase(
        nn.AveragePooling2D(),
        (4, 5, 2),
        lambda p, x: ref.pooling(x, [2, 2], [2, 2], "valid", np.nanmean),
    ),
    LayerCase(
        nn.AveragePooling3D((1, 2, 2)),
        (2, 4, 2, 2),
        lambda p, x: ref.pooling(x, [1, 2, 2], [1, 2, 2], "valid", np.nanmean),
    ),
    LayerCase(nn.GlobalMaxPooling(), (3, 2, 4), lambda p, x: x.max((1, 2))),
    LayerCase(nn.GlobalAveragePooling(), (5, 3), lambda p, x: x.mean(1)),
    # normalization
    LayerCase(
        nn.LayerNorm(), (3, 4), lambda p, x: ref.normalization(x, -1) * p["gamma"] + p["beta"]
    ),
    LayerCase(
        nn.LayerNorm(epsilon=0.1, center=False),
        (5,),
        lambda p, x: ref.normalization(x, -1, 0.1) * p["gamma"],
    ),
    LayerCase(
        nn.GroupNorm(groups=2),
        (3, 4),
        lambda p, x: ref.group_normalization(x, 2) * p["gamma"] + p["beta"],
    ),
    LayerCase(
        nn.BatchNorm(),
        (3, 2),
        lambda p, x: (
            (x - p["moving_mean"]) / np.sqrt(p["moving_variance"] + 1e-5) * p["gamma"] + p["beta"]
        ),
    ),
    LayerCase(nn.Dropout(0.5), (3,), lambda p, x: x),
    LayerCase(
        nn.InstanceNorm(),
        (3, 2, 4),
        lambda p, x: ref.normalization(x, (1, 2)) * p["gamma"] + p["beta"],
    ),
    LayerCase(nn.RMSNorm(), (3, 4), lambda p, x: ref.rms_normalization(x) * p["gamma"]),
    LayerCase(
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
    LayerCase(
        nn.Parametrized(nn.Conv1D(2, 2), plugrad.tanh),
        (5, 2),
        with_bias(lambda k, x: ref.convolution(x, np.tanh(k), [1])),
    ),
    LayerCase(nn.PReLU(), (3, 2), lambda p, x: np.where(x > 0, x, p["alpha"] * x)),
    # shapes
    LayerCase(nn.Reshape((3, -1)), (2, 6), lambda p, x: x.reshape(len(x), 3, 4)),
    LayerCase(nn.Permute((3, 1, 2)), (2, 3, 4), lambda p, x: x.transpose(0, 3, 1, 2)),
    LayerCase(nn.ZeroPadding1D((2, 0)), (3, 2), lambda p, x: np.pad(x, [(0, 0), (2, 0), (0, 0)])),
    LayerCase(
        nn.ZeroPadding2D((1, 2)),
        (2, 3, 2),
        lambda p, x: np.pad(x, [(0, 0), (1, 1), (2, 2), (0, 0)]),
    ),
    LayerCase(
        nn.ZeroPadding3D(((0, 1), (2, 0), (1, 1))),
        (2, 1, 2, 2),
        lambda p, x: np.pad(x, [(0, 0), (0, 1), (2, 0), (1, 1), (0, 0)]),
    ),
    LayerCase(nn.Cropping1D(1), (4, 2), lambda p, x: x[:, 1:-1]),
    LayerCase(nn.Cropping2D(((1, 0), (0, 2))), (3, 4, 2), lambda p, x: x[:, 1:, :-2]),
    LayerCase(nn.Cropping3D((1, 0, 1)), (3, 2, 4, 1), lambda p, x: x[:, 1:-1, :, 1:-1]),
    LayerCase(nn.UpSampling1D(3), (2, 2), lambda p, x: x.repeat(3, 1)),
    LayerCase(nn.UpSampling2D((1, 2)), (2, 2, 3), lambda p, x: x.repeat(2, 2)),
    LayerCase(
        nn.UpSampling2D(2, "bilinear"),
        (2, 3, 1),
        lambda p, x: ref.bilinear_doubling(ref.bilinear_doubling(x, 1), 2),
    ),
    LayerCase(
        nn.UpSampling2D((1, 2), "bicubic"),
        (1, 4, 1),
        lambda p, x: np.einsum("bhwc,vw->bhvc", x, CUBIC_UPSAMPLING_MATRIX),
    ),
    LayerCase(
        nn.UpSampling3D(2), (1, 2, 1, 2), lambda p, x: x.repeat(2, 1).repeat(2, 2).repeat(2, 3)
    ),
    LayerCase(nn.PixelShuffle(2), (2, 3, 8), lambda p, x: ref.pixel_shuffle(x, 2)),
    # pooling to a size
    LayerCase(
        nn.AdaptiveAveragePooling1D(3), (7, 2), lambda p, x: ref.adaptive_pooling(x, [3], np.mean)
    ),
    LayerCase(
        nn.AdaptiveAveragePooling2D((2, 4)),
        (5, 3, 2),
        lambda p, x: ref.adaptive_pooling(x, [2, 4], np.mean),
    ),
    LayerCase(
        nn.AdaptiveAveragePooling3D(2),
        (3, 2, 4, 1),
        lambda p, x: ref.adaptive_pooling(x, [2, 2, 2], np.mean),
    ),
    LayerCase(
        nn.AdaptiveMaxPooling1D(3), (5, 2), lambda p, x: ref.adaptive_pooling(x, [3], np.max)
    ),
    LayerCase(
        nn.AdaptiveMaxPooling2D((3, 2)),
        (5, 3, 2),
        lambda p, x: ref.adaptive_pooling(x, [3, 2], np.max),
    ),
    LayerCase(
        nn.AdaptiveMaxPooling3D(2),
        (3, 2, 4, 1),
        lambda p, x: ref.adaptive_pooling(x, [2, 2, 2], np.max),
    ),
    LayerCase(
        nn.SeparableConv2D(3, 2, 2, "same", depth_multiplier=2),
        (4, 3, 2),
        lambda p, x: (
            ref.depthwise_convolution(x, p["depthwise_kernel"], [2, 2], "same")
            @ p["pointwise_kernel"][0, 0]
            + p["bias"]
        ),
    ),
    # graphs
    LayerCase(
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
        ref.shared_layer_graph,
    ),
    # sequences
    LayerCase(nn.LSTM(3), (4, 2), lambda p, x: ref.lstm(p, x)[:, -1]),
    LayerCase(nn.LSTM(2, return_sequences=True), (3, 3), ref.lstm),
    LayerCase(nn.GRU(3), (4, 2), lambda p, x: ref.gru(p, x)[:, -1]),
    LayerCase(nn.GRU(2, return_sequences=True), (3, 3), ref.gru),
    LayerCase(
        nn.GRU(
            2,
            return_sequences=True,
            activation=plugrad.relu,
            recurrent_activation=hard_sigmoid,
            reset_after=False,
        ),
        (3, 2),
        ref.gru_reset_before,
    ),
    LayerCase(
        nn.GRU(2, use_bias=False), (3, 2), lambda p, x: ref.with_zero_bias(ref.gru)(p, x)[:, -1]
    ),
    LayerCase(nn.RepeatVector(3), (2,), lambda p, x: np.repeat(x[:, None], 3, axis=1)),
    LayerCase(nn.Rescaling(0.5, -1.0), (2, 3), lambda p, x: x * 0.5 - 1),
    LayerCase(nn.MultiHeadAttention(2, 3), (5, 4), lambda p, x: ref.multi_head_attention(p, x, 2)),
    LayerCase(
        nn.MultiHeadAttention(1, 2, causal=True),
        (5, 3),
        lambda p, x: ref.multi_head_attention(p, x, 1, mask=CAUSAL_MASK),
    ),
    LayerCase(nn.SimpleRNN(3), (4, 2), lambda p, x: ref.simple_rnn(p, x)[:, -1]),
    LayerCase(nn.SimpleRNN(2, return_sequences=True), (3, 3), ref.simple_rnn),
    LayerCase(
        nn.Bidirectional(nn.LSTM(2, return_sequences=True)),
        (4, 3),
        lambda p, x: np.concatenate(
            [ref.lstm(p["forward"], x), ref.lstm(p["backward"], x[:, ::-1])[:, ::-1]], -1
        ),
    ),
    LayerCase(
        nn.Bidirectional(nn.GRU(2), "average"),
        (4, 3),
        lambda p, x: (
            (ref.gru(p["forward"], x)[:, -1] + ref.gru(p["backward"], x[:, ::-1])[:, -1]) / 2
        ),
    ),
    LayerCase(
        nn.ConvLSTM2D(2, 2, 2, "same", return_sequences=True),
        (3, 4, 3, 2),
        lambda p, x: ref.conv_lstm(p, x, [2, 2], "same"),
    ),
    LayerCase(
        nn.ConvLSTM2D(2, (1, 2)), (2, 2, 3, 1), lambda p, x: ref.conv_lstm(p, x, [1, 1])[:, -1]
    ),
    LayerCase(nn.TimeDistributed(nn.Dense(3)), (4, 2), lambda p, x: x @ p["kernel"] + p["bias"]),
    LayerCase(
        nn.MultiHeadAttention(4, 2, num_kv_heads=2),
        (5, 3),
        lambda p, x: ref.multi_head_attention(p, x, 4, kv_heads=2),
    ),
    LayerCase(
        nn.MultiHeadAttention(2, 4, causal=True, positions="rotary"),
        (5, 3),
        lambda p, x: ref.multi_head_attention(p, x, 2, mask=CAUSAL_MASK, positions="rotary"),
    ),
    LayerCase(
        nn.MultiHeadAttention(3, 2, positions="alibi"),
        (5, 3),
        lambda p, x: ref.multi_head_attention(p, x, 3, positions="alibi"),
    ),
    LayerCase(
        nn.TransformerEncoderBlock(2, 5),
        (4, 6),
        lambda p, x: ref.transformer_encoder_block(p, x, 2),
    ),
    LayerCase(
        nn.TransformerEncoderBlock(3, 5, plugrad.tanh, norm_first=True, normalization=nn.RMSNorm()),
        (4, 6),
        lambda p, x: ref.prenorm_encoder_block(p, x, 3),
    ),
    # layers of layers
    LayerCase(
        nn.Sequential(nn.Dense(3), plugrad.tanh, nn.Dense(2)),
        (4,),
        lambda p, x: (
            np.tanh(x @ p["dense"]["kernel"] + p["dense"]["bias"]) @ p["dense_1"]["kernel"]
            + p["dense_1"]["bias"]
        ),
    ),
    LayerCase(
        nn.Residual(nn.Dense(4), plugrad.tanh),
        (2, 4),
        lambda p, x: x + np.tanh(x @ p["dense"]["kernel"] + p["dense"]["bias"]),
    ),
]
for_each_case = pytest.mark.parametrize("case", LAYER_CASES, ids=str)


def distinct_inputs(case, rng, dtype=np.float32):
    """Return a batch whose elements are all distinct."""
    shape = (2, *case.shape)
    return rng.permuted(np.linspace(-1, 1, int(np.prod(shape)))).reshape(shape).astype(dtype)


@for_each_case
def test_layers_match_numpy(case, backend, make_params, rng):
    params, x = make_params(case.layer, case.shape), distinct_inputs(case, rng)
    y = case.layer(params, x)
    assert y.device.startswith(backend)
    assert y.dtype == plugrad.float32
    expected = case.formula(as_numpy(params), x.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)
    assert case.layer.output_shape(params, case.shape) == y.shape[1:]
    assert case.layer(params, plugrad.zeros((0, *case.shape))).shape == (0, *y.shape[1:])


def replace_leaves(params, values):
    """Return nested dicts with replaced leaves."""
    return {
        name: replace_leaves(part, values) if isinstance(part, dict) else next(values)
        for name, part in params.items()
    }


@for_each_case
def test_gradients_on_the_cpu_agree_with_differences(case, make_params, rng):
    with plugrad.use("cpu"):
        params, x = (
            make_params(case.layer, case.shape, "float64"),
            distinct_inputs(case, rng, np.float64),
        )

        def function(x, *values):
            return case.layer(replace_leaves(params, iter(values)), x)

        check_gradient(function, x, *[v.numpy() for v in nn.leaves(params)])


@for_each_case
def test_gradients_match_the_cpu(case, backend, make_params, rng):
    params, x = make_params(case.layer, case.shape), distinct_inputs(case, rng)

    def loss(params, x):
        return plugrad.sum(plugrad.square(case.layer(params, x)))

    found = plugrad.grad(loss, argnums=(0, 1))(params, x)
    with plugrad.use("cpu"):
        theirs = replace_leaves(
            params, iter([v.numpy().astype(np.float64) for v in nn.leaves(params)])
        )
        expected = plugrad.grad(loss, argnums=(0, 1))(theirs, x.astype(np.float64))
    pairs = zip(
        [*nn.leaves(found[0]), found[1]], [*nn.leaves(expected[0]), expected[1]], strict=True
    )
    for gradient, right in pairs:
        assert gradient.dtype == plugrad.float32
        scale = max(1.0, float(np.abs(right.numpy()).max(initial=0)))
        np.testing.assert_allclose(gradient.numpy(), right.numpy(), rtol=1e-4, atol=2e-5 * scale)


def test_leaves_of_several_models():
    first, second = nn.Dense(2).init(0, (3,)), nn.Sequential(nn.Dense(1)).init(0, (2,))
    expected = [*nn.leaves(first), *nn.leaves(second)]
    for several in ((first, second), [first, (second,)]):
        found = nn.leaves(several)
        assert len(found) == 4
        assert all(a is b for a, b in zip(found, expected, strict=True))
    assert nn.leaves(()) == []
    with pytest.raises(plugrad.errors.ArgumentError, match="and not a Variable"):
        nn.leaves((first, first["kernel"]))
