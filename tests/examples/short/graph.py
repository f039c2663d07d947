"""A graph network tells two groups of 15 nodes apart, of which it is told two each."""

import numpy as np

import plugrad
import plugrad_nn as nn

rng = np.random.default_rng(0)
groups = np.repeat([0, 1], 15)
adjacency = np.triu(rng.uniform(size=(30, 30)) < np.where(groups[:, None] == groups, 0.4, 0.03), 1)
source, target = np.nonzero(adjacency | adjacency.T | np.eye(30, dtype=bool))
degree = np.bincount(target)
weights = plugrad.asarray(1 / np.sqrt(degree[source] * degree[target]), dtype="float32")[:, None]
labelled = [0, 1, 15, 16]
hidden, out = nn.Dense(16, plugrad.relu), nn.Dense(2)
params = {"hidden": hidden.init(0, (30,)), "out": out.init(1, (16,))}
adam = plugrad.optimizers.Adam(0.02)


def aggregate(x):
    return plugrad.unsorted_segment_sum(x[source] * weights, target, 30)


def logits():
    return out(params["out"], aggregate(hidden(params["hidden"], aggregate(plugrad.eye(30)))))


def loss():
    return nn.losses.sparse_softmax_cross_entropy(groups[labelled], logits()[labelled])


for _ in range(60):
    adam.minimize(loss, nn.leaves(params))
result = nn.metrics.accuracy(groups, logits()).item()
