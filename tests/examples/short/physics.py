"""A network solves y' = -2 y, y(0) = 1: a physics-informed network, whose loss has a derivative in it."""

import plugrad
import plugrad_nn as nn

x = plugrad.linspace(0, 2, 50)[:, None]
model = nn.Sequential(nn.Dense(24, plugrad.tanh), nn.Dense(24, plugrad.tanh), nn.Dense(1))
params = model.init(0, (1,))
adam = plugrad.optimizers.Adam(0.01)


def loss():
    y, slope = plugrad.jvp(lambda x: model(params, x), (x,), (plugrad.ones_like(x),))
    return plugrad.mean((slope + 2 * y) ** 2) + (y[0, 0] - 1) ** 2


for _ in range(300):
    adam.minimize(loss, nn.leaves(params))
result = model(params, [[0.5], [1.0]]).numpy()
