"""Write modules.npz: the state, an input and the result of small modules of PyTorch with random weights.

``python tests/plugins/nn/torch_modules/record.py`` needs torch; the tests read what it wrote.
"""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, weight_norm

OUTPUT_FILE = Path(__file__).with_name("modules.npz")
warnings.simplefilter("ignore")  # of weight_norm's older form
torch.manual_seed(0)


class SeparableConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(3, 6, 3, groups=3, bias=False)
        self.pointwise = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class ConvolutionWithTwoLinears(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.left, self.right = nn.Linear(80, 3), nn.Linear(80, 3)

    def forward(self, x):
        x = torch.flatten(self.conv(x), 1)
        return self.left(x) + self.right(x)


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)[0]


class CausalDecoder(nn.TransformerDecoderLayer):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, x, tgt_mask=mask, tgt_is_causal=True)


class GroupedQueryAttention(nn.MultiheadAttention):
    """Attention with four query heads and two key-value heads."""

    def __init__(self):
        nn.Module.__init__(self)
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.out_proj = nn.Linear(8, 8)

    def split_heads(self, x):
        return x.unflatten(-1, (-1, 2)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (
            self.split_heads(self.q_proj(x)),
            self.split_heads(self.k_proj(x)),
            self.split_heads(self.v_proj(x)),
        )
        y = functional.scaled_dot_product_attention(q, k, v, self.bias(x), enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def bias(self, x):
        return None


class AlibiAttention(GroupedQueryAttention):
    """Grouped-query attention with ALiBi: a penalty proportional to the distance, with a slope for each head."""

    def bias(self, x):
        places = torch.arange(x.shape[1])
        slopes = 2.0 ** -torch.arange(2.0, 9.0, 2.0)
        return -(places[:, None] - places).abs() * slopes[:, None, None]


class RotaryAttention(GroupedQueryAttention):
    """Grouped-query attention with rotary position embedding; each head has one pair of numbers."""

    def forward(self, x):
        q, k = self.rotate_heads(self.q_proj(x)), self.rotate_heads(self.k_proj(x))
        y = functional.scaled_dot_product_attention(
            q, k, GroupedQueryAttention.split_heads(self, self.v_proj(x)), enable_gqa=True
        )
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def rotate_heads(self, x):
        y = GroupedQueryAttention.split_heads(self, x)
        places = torch.arange(x.shape[1], dtype=torch.float32)[:, None]
        real, imaginary = y[..., :1], y[..., 1:]
        cos, sin = places.cos(), places.sin()
        return torch.cat([real * cos - imaginary * sin, imaginary * cos + real * sin], -1)


class PackedRecurrent(nn.LSTM):
    """A recurrent layer for packed sequences of lengths 4 and 6."""

    def forward(self, x):
        lengths = torch.tensor([4, 6])
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        y, _ = super().forward(packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]


class PoolAndUnpool(nn.Module):
    def __init__(self, pool, unpool):
        super().__init__()
        self.pool, self.unpool = pool, unpool

    def forward(self, x):
        return self.unpool(*self.pool(x))


class SymmetricParametrization(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


def make_symmetric(module):
    nn.utils.parametrize.register_parametrization(module, "weight", SymmetricParametrization())
    return module


class TransformerDecoder(nn.TransformerDecoder):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, x, tgt_mask=mask, tgt_is_causal=True)


def with_spectral_norm(module, shape):
    """Return a module with spectral norm whose singular vectors have converged."""
    module = parametrizations.spectral_norm(module, n_power_iterations=200)
    module.train()(torch.ones(shape))
    return module


IMAGE, SEQUENCE = (6, 6, 3), (6, 8)
TOKENS = "words"
MODULES = {
    "linear": (nn.Linear(3, 5), (3,)),
    "linear_without_bias": (nn.Linear(3, 5, bias=False), (3,)),
    "conv1d": (nn.Conv1d(3, 5, 3, padding=1), (8, 3)),
    "conv2d": (nn.Conv2d(3, 5, (3, 2), 2), (8, 9, 3)),
    "conv3d": (nn.Conv3d(3, 5, (1, 2, 3)), (4, 5, 6, 3)),
    "conv1d_transpose": (nn.ConvTranspose1d(3, 5, 4, 2), (4, 3)),
    "conv2d_transpose": (nn.ConvTranspose2d(3, 5, (3, 2), 2), (4, 5, 3)),
    "conv3d_transpose": (nn.ConvTranspose3d(3, 5, 3, 2), (2, 3, 2, 3)),
    "depthwise": (nn.Conv2d(3, 6, 3, groups=3), IMAGE),
    "separable": (SeparableConvolution(), IMAGE),
    "embedding": (nn.Embedding(7, 4), TOKENS),
    "embedding_bag": (nn.EmbeddingBag(7, 4), TOKENS),
    "layer_norm": (nn.LayerNorm(8), SEQUENCE),
    "rms_norm": (nn.RMSNorm(8, eps=1e-6), SEQUENCE),
    "group_norm": (nn.GroupNorm(2, 4), (5, 6, 4)),
    "instance_norm": (nn.InstanceNorm2d(4, affine=True), (5, 6, 4)),
    "batch_norm": (nn.BatchNorm2d(4), (5, 6, 4)),
    "batch_norm_plain": (nn.BatchNorm2d(4, affine=False), (5, 6, 4)),
    "prelu": (nn.PReLU(3), IMAGE),
    "prelu_of_one_slope": (nn.PReLU(), IMAGE),
    "lstm": (nn.LSTM(8, 4, batch_first=True), SEQUENCE),
    "lstm_without_bias": (nn.LSTM(8, 4, batch_first=True, bias=False), SEQUENCE),
    "lstm_both_ways": (nn.LSTM(8, 4, batch_first=True, bidirectional=True), SEQUENCE),
    "lstm_of_two_layers": (nn.LSTM(8, 4, 2, batch_first=True), SEQUENCE),
    "gru": (nn.GRU(8, 4, batch_first=True), SEQUENCE),
    "gru_without_bias": (nn.GRU(8, 4, batch_first=True, bias=False), SEQUENCE),
    "gru_both_ways": (nn.GRU(8, 4, batch_first=True, bidirectional=True), SEQUENCE),
    "simple_rnn": (nn.RNN(8, 4, batch_first=True), SEQUENCE),
    "attention": (SelfAttention(8, 2, batch_first=True), SEQUENCE),
    "attention_without_bias": (SelfAttention(8, 2, bias=False, batch_first=True), SEQUENCE),
    "encoder_block": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE),
    "encoder_block_norm_first": (
        nn.TransformerEncoderLayer(8, 2, 16, 0, "gelu", batch_first=True, norm_first=True),
        SEQUENCE,
    ),
    "decoder_block": (CausalDecoder(8, 2, 16, batch_first=True), SEQUENCE),
    "weight_norm": (parametrizations.weight_norm(nn.Linear(3, 5)), (3,)),
    "weight_norm_conv": (parametrizations.weight_norm(nn.Conv2d(3, 5, 3)), IMAGE),
    "weight_norm_older": (weight_norm(nn.Linear(3, 5)), (3,)),
    "spectral_norm": (with_spectral_norm(nn.Linear(3, 5), (1, 3)), (3,)),
    "spectral_norm_conv": (with_spectral_norm(nn.Conv2d(3, 5, 3), (1, 3, 6, 6)), IMAGE),
    "convolutional": (
        nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
            nn.BatchNorm1d(20),
            nn.Sequential(nn.Dropout(), nn.Linear(20, 6), nn.PReLU(6), nn.Linear(6, 2)),
        ),
        IMAGE,
    ),
    "flat_pixels": (nn.Sequential(nn.Flatten(), nn.Linear(108, 4)), IMAGE),
    "flat_signal": (nn.Sequential(nn.Conv1d(3, 4, 1), nn.Flatten(), nn.Linear(32, 4)), (8, 3)),
    "flat_sequence": (nn.Sequential(nn.Linear(8, 4), nn.Flatten(), nn.Linear(24, 4)), SEQUENCE),
    "decoder": (
        nn.Sequential(
            nn.Linear(3, 48),
            nn.BatchNorm1d(48),
            nn.ReLU(),
            nn.Unflatten(1, (3, 4, 4)),
            nn.ConvTranspose2d(3, 2, 3, 2),
        ),
        (3,),
    ),
    "two_heads": (ConvolutionWithTwoLinears(), IMAGE),
    "encoder": (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
            2,
            nn.LayerNorm(8),
            False,
        ),
        SEQUENCE,
    ),
    "decoder_of_blocks": (
        TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2),
        SEQUENCE,
    ),
    "grouped_queries": (GroupedQueryAttention(), SEQUENCE),
    "alibi": (AlibiAttention(), SEQUENCE),
    "rotary": (RotaryAttention(), SEQUENCE),
    "masked_lstm": (PackedRecurrent(8, 4, batch_first=True), SEQUENCE),
    "masked_lstm_both_ways": (
        PackedRecurrent(8, 4, batch_first=True, bidirectional=True),
        SEQUENCE,
    ),
    "parametrized": (make_symmetric(nn.Linear(3, 3)), (3,)),
    "unpooled": (PoolAndUnpool(nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)), IMAGE),
    "unpooled_volumes": (
        PoolAndUnpool(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)),
        (4, 2, 4, 2),
    ),
    "adaptive_average": (nn.AdaptiveAvgPool2d((4, 3)), IMAGE),
    "adaptive_largest": (nn.AdaptiveMaxPool2d((4, 3)), IMAGE),
    "adaptive_average_volumes": (nn.AdaptiveAvgPool3d(2), (3, 4, 5, 2)),
    "pixel_shuffle": (nn.PixelShuffle(2), (3, 4, 8)),
    "silu": (nn.SiLU(), (30,)),
    "mish": (nn.Mish(), (30,)),
    "softsign": (nn.Softsign(), (30,)),
    "hard_sigmoid": (nn.Hardsigmoid(), (30,)),
    "hard_silu": (nn.Hardswish(), (30,)),
    "hard_tanh": (nn.Hardtanh(), (30,)),
    "hard_shrink": (nn.Hardshrink(), (30,)),
    "soft_shrink": (nn.Softshrink(), (30,)),
    "log_sigmoid": (nn.LogSigmoid(), (30,)),
    "celu": (nn.CELU(1.5), (30,)),
    "glu": (nn.GLU(), (30,)),
    "unpooled_sequences": (
        PoolAndUnpool(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)),
        (8, 3),
    ),
}
CHANNELS_FIRST_MODULES = {"conv1d", "conv1d_transpose", "flat_signal", "unpooled_sequences"}
"""Those of sequences whose channels PyTorch has first."""


def record_module(name, module, shape, rng):
    """Return the arrays of a module: random weights, a channels-last input, and the result."""
    if not name.startswith("spectral"):
        for value in (*module.parameters(), *module.buffers()):
            if value.dtype.is_floating_point:
                numbers = rng.uniform(-1, 1, tuple(value.shape)).astype("f")
                value.data = torch.from_numpy(numbers)
        for key, value in module.named_buffers():
            if key.endswith("running_var"):
                value.abs_().add_(0.5)
    x = (
        rng.integers(0, 7, (2, 3))
        if shape == TOKENS
        else rng.normal(size=(2, *shape)).astype(np.float32)
    )
    images = x.ndim > 3 or name in CHANNELS_FIRST_MODULES
    given = torch.from_numpy(x)
    given.requires_grad_(x.dtype == np.float32)
    module = module.eval() if "lstm" not in name and "gru" not in name else module
    y = module(torch.movedim(given, -1, 1) if images else given)
    y = y[0] if isinstance(y, tuple) else y
    y = torch.movedim(y, 1, -1) if y.ndim > 3 or (images and y.ndim == 3) else y
    parameters = dict(module.named_parameters())
    slopes = torch.autograd.grad(
        torch.sum(torch.sin(y)), [*([given] if given.requires_grad else []), *parameters.values()]
    )
    slopes = [slope.numpy() for slope in slopes]
    found = {"x": x, "y": y.detach().numpy()}
    if given.requires_grad:
        found["dx"] = slopes.pop(0)
    found |= {f"slope.{key}": slope for key, slope in zip(parameters, slopes, strict=True)}
    return found | {f"state.{key}": value.numpy() for key, value in module.state_dict().items()}


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    arrays = {
        f"{name}/{key}": value
        for name, (module, shape) in MODULES.items()
        for key, value in record_module(name, module, shape, rng).items()
    }
    np.savez_compressed(OUTPUT_FILE, **arrays)
    print(f"{len(MODULES)} modules, {OUTPUT_FILE.stat().st_size:,} bytes")
