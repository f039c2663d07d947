"""A diffusion model (DDPM) draws numbers near -2 or 2."""

import plugrad
import plugrad_nn as nn
from plugrad.random import integers, standard_normal, uniform

plugrad.random.seed(0)
steps = 20
alpha_bars = plugrad.cumulative_prod(1 - plugrad.linspace(0.01, 0.4, steps))
model = nn.Sequential(nn.Dense(48, plugrad.silu), nn.Dense(48, plugrad.silu), nn.Dense(1))
params = model.init(0, (1 + steps,))
adam = plugrad.optimizers.Adam(0.01)


def predict(x, t):
    return model(params, plugrad.concat([x, plugrad.one_hot(t, steps)], axis=1))


def loss():
    x = plugrad.where(uniform((256, 1)) < 0.5, 2.0, -2.0) + 0.1 * standard_normal((256, 1))
    t, noise = integers((256,), 0, steps), standard_normal((256, 1))
    alpha_bar = alpha_bars[t][:, None]
    noisy = plugrad.sqrt(alpha_bar) * x + plugrad.sqrt(1 - alpha_bar) * noise
    return plugrad.mean((predict(noisy, t) - noise) ** 2)


for _ in range(400):
    adam.minimize(loss, nn.leaves(params))

x = standard_normal((200, 1))
for t in reversed(range(steps)):
    alpha = alpha_bars[t] / (alpha_bars[t - 1] if t else 1)
    noise = predict(x, plugrad.full((200,), t))
    x = (x - (1 - alpha) / plugrad.sqrt(1 - alpha_bars[t]) * noise) / plugrad.sqrt(alpha)
    x = x + plugrad.sqrt(1 - alpha) * standard_normal((200, 1)) if t else x
result = x.numpy()
