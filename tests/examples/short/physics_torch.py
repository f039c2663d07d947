"""The counterpart of physics.py."""

import torch
from torch import nn
from torch.func import jvp

torch.manual_seed(0)
x = torch.linspace(0, 2, 50)[:, None]
layers = [nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)]
model = nn.Sequential(*layers)
adam = torch.optim.Adam(model.parameters(), 0.01)

for _ in range(300):
    y, slope = jvp(model, (x,), (torch.ones_like(x),))
    loss = ((slope + 2 * y) ** 2).mean() + (y[0, 0] - 1) ** 2
    adam.zero_grad()
    loss.backward()
    adam.step()
result = model(torch.tensor([[0.5], [1.0]])).detach().numpy()
