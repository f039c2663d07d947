"""A generative adversarial network draws numbers like those of a bell curve around 3."""

import plugrad
import plugrad_nn as nn
from plugrad.random import standard_normal

plugrad.random.seed(0)
generator = nn.Sequential(nn.Dense(16, plugrad.relu), nn.Dense(1))
critic = nn.Sequential(nn.Dense(16, plugrad.relu), nn.Dense(1))
g, c = generator.init(0, (4,)), critic.init(1, (1,))
generator_adam = plugrad.optimizers.Adam(0.01, beta1=0.5)
critic_adam = plugrad.optimizers.Adam(0.01, beta1=0.5)


def critic_loss():
    real, made = 3 + 0.5 * standard_normal((64, 1)), generator(g, standard_normal((64, 4)))
    return plugrad.mean(plugrad.softplus(-critic(c, real)) + plugrad.softplus(critic(c, made)))


def generator_loss():
    return plugrad.mean(plugrad.softplus(-critic(c, generator(g, standard_normal((64, 4))))))


for _ in range(250):
    critic_adam.minimize(critic_loss, nn.leaves(c))
    generator_adam.minimize(generator_loss, nn.leaves(g))
result = plugrad.mean(generator(g, standard_normal((500, 4)))).item()
