"""Ratings of films are predicted from vectors for people and films, which are learned from other ratings."""

import numpy as np

import plugrad
import plugrad_nn as nn

rng = np.random.default_rng(0)
person, film = rng.integers(0, 30, (2, 1200)).astype("int32")
tastes, kinds = rng.normal(size=(2, 30, 2))
ratings = np.sum(tastes[person] * kinds[film], axis=1).astype("float32")
people, films = nn.Embedding(30, 4), nn.Embedding(30, 4)
params = {"people": people.init(0, ()), "films": films.init(1, ())}
adam = plugrad.optimizers.Adam(0.05)


def mean_squared_error(rows):
    vectors = people(params["people"], person[rows]) * films(params["films"], film[rows])
    return plugrad.mean((plugrad.sum(vectors, axis=1) - ratings[rows]) ** 2)


for _ in range(200):
    adam.minimize(lambda: mean_squared_error(slice(1000)), nn.leaves(params))
result = mean_squared_error(slice(1000, None)).item()
