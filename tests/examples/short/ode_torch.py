"""The counterpart of ode.py, with torchdiffeq."""

import torch
from torchdiffeq import odeint

times = torch.linspace(0, 4, 9)
measured = 3 / (1 + 29 * torch.exp(-1.5 * times))
rate, limit = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
adam = torch.optim.Adam([rate, limit], 0.1)


def growth(t, y):
    return rate * y * (1 - y / limit)


for _ in range(60):
    loss = ((odeint(growth, torch.tensor(0.1), times, rtol=1e-4) - measured) ** 2).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
result = rate.item(), limit.item()
