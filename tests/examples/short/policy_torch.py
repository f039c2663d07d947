"""The counterpart of policy.py."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
best_actions = torch.tensor([2, 0, 3, 1])
policy = nn.Linear(4, 4)
adam = torch.optim.Adam(policy.parameters(), 0.1)

for _ in range(150):
    state = torch.randint(4, (64,))
    choice = Categorical(logits=policy(nn.functional.one_hot(state, 4).float()))
    action = choice.sample()
    reward = (action == best_actions[state]).float()
    loss = -(choice.log_prob(action) * (reward - reward.mean())).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
result = policy(torch.eye(4)).argmax(1).tolist()
