"""A recurrent network learns a text by heart, character by character, and writes it down."""

import numpy as np

import plugrad
import plugrad_nn as nn

text = "the quick brown fox jumps over the lazy dog. " * 4
alphabet, numbers = np.unique(list(text), return_inverse=True)
model = nn.Sequential(
    nn.Embedding(len(alphabet), 32),
    nn.GRU(64, return_sequences=True),
    nn.Dense(len(alphabet)),
)
params = model.init(0, (16,))
adam = plugrad.optimizers.Adam(0.01)
windows = np.stack([numbers[i : i + 17] for i in range(len(numbers) - 17)])


@plugrad.jit
def step(batch):
    cross_entropy, x, y = nn.losses.sparse_softmax_cross_entropy, batch[:, :-1], batch[:, 1:]
    return adam.minimize(lambda: cross_entropy(y, model(params, x)), nn.leaves(params))


for epoch in range(10):
    for (batch,) in nn.batches(windows, size=32, seed=epoch, drop_remainder=True):
        step(batch)

generated = numbers[:16]
for _ in range(29):
    logits = model(params, generated[None, -16:])
    generated = np.append(generated, plugrad.argmax(logits[0, -1]).item())
result = "".join(alphabet[generated])
