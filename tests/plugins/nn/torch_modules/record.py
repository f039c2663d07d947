"""Write modules.npz: the state, an input and the result of small modules of PyTorch with random weights.

``python tests/plugins/nn/torch_modules/record.py`` needs torch; the tests read what it wrote.
"""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

FILE = Path(__file__).with_name("modules.npz")
warnings.simplefilter("ignore")  # of weight_norm's older form


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(3, 6, 3, groups=3, bias=False)
        self.pointwise = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.left, self.right = nn.Linear(80, 3), nn.Linear(80, 3)

    def forward(self, x):
        x = torch.flatten(self.conv(x), 1)
        return self.left(x) + self.right(x)


class ToItself(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)[0]


class CausalDecoder(nn.TransformerDecoderLayer):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, x, tgt_mask=mask, tgt_is_causal=True)


def spectral(module, shape):
    """Return a module whose singular vectors have converged."""
    module = parametrizations.spectral_norm(module, n_power_iterations=200)
    module.train()(torch.ones(shape))
    return module


IMAGE, SEQUENCE = (6, 6, 3), (6, 8)
WORDS = "words"
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
    "separable": (Separable(), IMAGE),
    "embedding": (nn.Embedding(7, 4), WORDS),
    "embedding_bag": (nn.EmbeddingBag(7, 4), WORDS),
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
    "attention": (ToItself(8, 2, batch_first=True), SEQUENCE),
    "attention_without_bias": (ToItself(8, 2, bias=False, batch_first=True), SEQUENCE),
    "encoder_block": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE),
    "encoder_block_norm_first": (
        nn.TransformerEncoderLayer(8, 2, 16, 0, "gelu", batch_first=True, norm_first=True),
        SEQUENCE,
    ),
    "decoder_block": (CausalDecoder(8, 2, 16, batch_first=True), SEQUENCE),
    "weight_norm": (parametrizations.weight_norm(nn.Linear(3, 5)), (3,)),
    "weight_norm_conv": (parametrizations.weight_norm(nn.Conv2d(3, 5, 3)), IMAGE),
    "weight_norm_older": (weight_norm(nn.Linear(3, 5)), (3,)),
    "spectral_norm": (spectral(nn.Linear(3, 5), (1, 3)), (3,)),
    "spectral_norm_conv": (spectral(nn.Conv2d(3, 5, 3), (1, 3, 6, 6)), IMAGE),
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
    "two_heads": (TwoHeads(), IMAGE),
}
BY_CHANNELS = {"conv1d", "conv1d_transpose", "flat_signal"}
"""Those of sequences whose channels PyTorch has first."""


def record(name, module, shape, rng):
    """Return the arrays of a module: random weights, an input with the channels last, and the result."""
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
        if shape == WORDS
        else rng.normal(size=(2, *shape)).astype(np.float32)
    )
    images = x.ndim > 3 or name in BY_CHANNELS
    y = module.eval()(torch.movedim(torch.from_numpy(x), -1, 1) if images else torch.from_numpy(x))
    y = (y[0] if isinstance(y, tuple) else y).detach()
    y = torch.movedim(y, 1, -1) if y.ndim > 3 or (images and y.ndim == 3) else y
    state = {f"state.{key}": value.numpy() for key, value in module.state_dict().items()}
    return {"x": x, "y": y.numpy(), **state}


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    arrays = {
        f"{name}/{key}": value
        for name, (module, shape) in MODULES.items()
        for key, value in record(name, module, shape, rng).items()
    }
    np.savez_compressed(FILE, **arrays)
    print(f"{len(MODULES)} modules, {FILE.stat().st_size:,} bytes")
