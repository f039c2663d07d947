"""The counterpart of line.py."""

import torch

torch.manual_seed(0)
x = 2 * torch.rand(100) - 1
y = 2 * x + 1 + 0.1 * torch.randn(100)
slope, height = torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)
sgd = torch.optim.SGD([slope, height], 0.1)

for _ in range(200):
    loss = ((slope * x + height - y) ** 2).mean()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
result = slope.item(), height.item()
