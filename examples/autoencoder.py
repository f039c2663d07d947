"""Learn to draw digits: a variational autoencoder (Kingma and Welling, 2013) on 1,797 handwritten ones.

    python examples/autoencoder.py
    PLUGRAD_BACKEND=wasm python examples/autoencoder.py     on another backend

One network describes a digit by two numbers, and another one draws the digit from them. The picture
shows what is drawn for all pairs of numbers, and where the digits of the data are among them.
"""

from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import plugrad
import plugrad_nn as nn

EPOCHS, BATCH_SIZE = 60, 64

table = np.loadtxt(
    Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32
)
images, digits = table[:, :64] / 16, table[:, 64].astype(int)

encoder = nn.Sequential(nn.Dense(128, plugrad.relu), nn.Dense(4))  # two means, two log variances
decoder = nn.Sequential(nn.Dense(128, plugrad.relu), nn.Dense(64))
params = {"encoder": encoder.init(0, (64,)), "decoder": decoder.init(1, (2,))}
optimizer = plugrad.optimizers.Adam(0.003)


def encode(x: plugrad.Tensor) -> tuple[plugrad.Tensor, ...]:
    return plugrad.split(encoder(params["encoder"], x), 2, axis=1)


def loss(x: plugrad.Tensor, noise: plugrad.Tensor) -> plugrad.Tensor:
    """Return the negative evidence lower bound: how badly digits are drawn, and how far codes are from a bell curve."""
    mean, log_variance = encode(x)
    logits = decoder(params["decoder"], mean + plugrad.exp(log_variance / 2) * noise)
    drawn = plugrad.sum(plugrad.softplus(logits) - x * logits, axis=1)
    divergence = plugrad.sum(plugrad.exp(log_variance) + mean**2 - 1 - log_variance, axis=1) / 2
    return plugrad.mean(drawn + divergence)


@plugrad.jit
def step(x: plugrad.Tensor, noise: plugrad.Tensor) -> plugrad.Tensor:
    return optimizer.minimize(partial(loss, x, noise), nn.leaves(params))


rng, losses = np.random.default_rng(0), []
for epoch in range(EPOCHS):
    for (x,) in nn.batches(images, size=BATCH_SIZE, seed=epoch, drop_remainder=True):
        noise = plugrad.asarray(rng.standard_normal((BATCH_SIZE, 2), np.float32))
        step_loss = step(x, noise)
    losses.append(step_loss.item())
print(f"loss {losses[0]:.2f} after an epoch, {losses[-1]:.2f} after {EPOCHS}")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
axis_values = np.linspace(-2.2, 2.2, 12, dtype=np.float32)
code_grid = np.stack(np.meshgrid(axis_values, -axis_values), axis=-1).reshape(-1, 2)
decoded_digits = plugrad.sigmoid(decoder(params["decoder"], code_grid)).numpy()
padded_digits = np.pad(decoded_digits.reshape(12, 12, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
mosaic = padded_digits.transpose(0, 2, 1, 3).reshape(120, 120)
left.imshow(mosaic, cmap="gray_r", extent=(-2.4, 2.4, -2.4, 2.4), interpolation="bicubic")
left.set(title="drawn for each pair of numbers")
mean, _ = encode(plugrad.asarray(images))
scatter_points = right.scatter(*mean.numpy().T, c=digits, cmap="tab10", s=8)
right.legend(
    *scatter_points.legend_elements(), title="digit", loc="upper left", bbox_to_anchor=(1, 1)
)
right.set(title="where the digits of the data are", aspect="equal")
figure.savefig("autoencoder.png", dpi=100)
