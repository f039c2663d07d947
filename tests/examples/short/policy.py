"""A policy gradient (REINFORCE) learns which of four actions is rewarded in which of four states."""

import plugrad
import plugrad_nn as nn
from plugrad_numerics.distributions import Categorical

plugrad.random.seed(0)
best_actions = plugrad.asarray([2, 0, 3, 1])
policy = nn.Dense(4)
params = policy.init(0, (4,))
adam = plugrad.optimizers.Adam(0.1)


def loss():
    state = plugrad.random.integers((64,), 0, 4)
    choice = Categorical(policy(params, plugrad.one_hot(state, 4)))
    action = choice.sample()
    reward = plugrad.astype(action == best_actions[state], "float32")
    return -plugrad.mean(choice.log_prob(action) * (reward - plugrad.mean(reward)))


for _ in range(150):
    adam.minimize(loss, nn.leaves(params))
result = plugrad.argmax(policy(params, plugrad.eye(4)), axis=1).tolist()
