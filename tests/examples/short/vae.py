"""A variational autoencoder draws points of a circle."""

import plugrad
import plugrad_nn as nn
from plugrad_numerics.distributions import Normal, kl

plugrad.random.seed(0)
angles = plugrad.random.uniform((300, 1), 0, 6.2832)
x = plugrad.concat([plugrad.cos(angles), plugrad.sin(angles)], axis=1)
encoder = nn.Sequential(nn.Dense(24, plugrad.tanh), nn.Dense(4))
decoder = nn.Sequential(nn.Dense(24, plugrad.tanh), nn.Dense(2))
params = {"encoder": encoder.init(0, (2,)), "decoder": decoder.init(1, (2,))}
adam = plugrad.optimizers.Adam(0.01)


def loss():
    mean, log_scale = plugrad.split(encoder(params["encoder"], x), 2, axis=1)
    code = Normal(mean, plugrad.exp(log_scale))
    log_likelihood = Normal(decoder(params["decoder"], code.sample()), 0.3).log_prob(x)
    return plugrad.mean(plugrad.sum(kl(code, Normal(0.0, 1.0)) - log_likelihood, axis=1))


for _ in range(300):
    adam.minimize(loss, nn.leaves(params))
result = decoder(params["decoder"], plugrad.random.standard_normal((200, 2))).numpy()
