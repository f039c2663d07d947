"""A transformer tells whether a sequence has its first token again."""

import numpy as np

import plugrad
import plugrad_nn as nn

rng = np.random.default_rng(0)
x = rng.integers(0, 5, (1000, 6)).astype("int32")
y = (x[:, 1:] == x[:, :1]).any(axis=1).astype("int32")
model = nn.Sequential(
    nn.Embedding(5, 32),
    nn.PositionEmbedding(6),
    nn.TransformerEncoder(nn.TransformerEncoderBlock(4, 64), 2),
    nn.GlobalAveragePooling(),
    nn.Dense(2),
)
params = model.init(0, (6,))
nn.fit(
    model,
    params,
    x[:800],
    y[:800],
    loss=nn.losses.sparse_softmax_cross_entropy,
    optimizer=plugrad.optimizers.Adam(0.003),
    epochs=25,
)
result = nn.metrics.accuracy(y[800:], nn.predict(model, params, x[800:])).item()
