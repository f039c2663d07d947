"""The counterpart of gan.py."""

import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
generator_adam = torch.optim.Adam(generator.parameters(), 0.01, betas=(0.5, 0.999))
critic_adam = torch.optim.Adam(critic.parameters(), 0.01, betas=(0.5, 0.999))

for _ in range(250):
    real, made = 3 + 0.5 * torch.randn(64, 1), generator(torch.randn(64, 4)).detach()
    loss = (softplus(-critic(real)) + softplus(critic(made))).mean()
    critic_adam.zero_grad()
    loss.backward()
    critic_adam.step()
    loss = softplus(-critic(generator(torch.randn(64, 4)))).mean()
    generator_adam.zero_grad()
    loss.backward()
    generator_adam.step()
result = generator(torch.randn(500, 4)).mean().item()
