"""The counterpart of vae.py."""

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(0)
angles = 6.2832 * torch.rand(300, 1)
x = torch.cat([angles.cos(), angles.sin()], dim=1)
encoder = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 4))
decoder = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 0.01)

for _ in range(300):
    mean, log_scale = encoder(x).chunk(2, dim=1)
    code = Normal(mean, log_scale.exp())
    log_likelihood = Normal(decoder(code.rsample()), 0.3).log_prob(x)
    loss = (kl_divergence(code, Normal(0.0, 1.0)) - log_likelihood).sum(1).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
result = decoder(torch.randn(200, 2)).detach().numpy()
