"""The counterpart of diffusion.py."""

import torch
from torch import nn
from torch.nn.functional import mse_loss, one_hot

torch.manual_seed(0)
rounds = 20
kept = torch.cumprod(1 - torch.linspace(0.01, 0.4, rounds), 0)
layers = [nn.Linear(1 + rounds, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1)]
model = nn.Sequential(*layers)
adam = torch.optim.Adam(model.parameters(), 0.01)


def predict(x, t):
    return model(torch.cat([x, one_hot(t, rounds)], dim=1))


for _ in range(400):
    x = torch.where(torch.rand(256, 1) < 0.5, 2.0, -2.0) + 0.1 * torch.randn(256, 1)
    t, noise = torch.randint(rounds, (256,)), torch.randn(256, 1)
    share = kept[t][:, None]
    mixed = share.sqrt() * x + (1 - share).sqrt() * noise
    loss = mse_loss(predict(mixed, t), noise)
    adam.zero_grad()
    loss.backward()
    adam.step()

x = torch.randn(200, 1)
with torch.no_grad():
    for t in reversed(range(rounds)):
        step = kept[t] / (kept[t - 1] if t else 1)
        noise = predict(x, torch.full((200,), t))
        x = (x - (1 - step) / (1 - kept[t]).sqrt() * noise) / step.sqrt()
        x = x + (1 - step).sqrt() * torch.randn(200, 1) if t else x
result = x.numpy()
