"""Layers of a model in a safetensors file of torch are frozen, and a new last layer is trained."""

import numpy as np

import plugrad
import plugrad_nn as nn

x, labels = np.load("x.npy"), np.load("labels.npy")
body = nn.Sequential(nn.Dense(32), plugrad.relu)
weights = plugrad.load("model.safetensors")
frozen_params = nn.convert.state_dict(weights, body, (8,), names={"2": None}).params
features = body(frozen_params, x)
head = nn.Dense(3)
params = head.init(0, (32,))
adam = plugrad.optimizers.Adam(0.02)


def loss():
    return nn.losses.sparse_softmax_cross_entropy(labels, head(params, features))


for _ in range(120):
    adam.minimize(loss, nn.leaves(params))
result = nn.metrics.accuracy(labels, head(params, features)).item()
