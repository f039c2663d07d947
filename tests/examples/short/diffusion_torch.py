"""The counterpart of diffusion.py."""

import torch
from torch import nn
from torch.nn.functional import mse_loss, one_hot

torch.manual_seed(0)
steps = 20
alpha_bars = torch.cumprod(1 - torch.linspace(0.01, 0.4, steps), 0)
layers = [nn.Linear(1 + steps, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1)]
model = nn.Sequential(*layers)
adam = torch.optim.Adam(model.parameters(), 0.01)


def predict(x, t):
    return model(torch.cat([x, one_hot(t, steps)], dim=1))


for _ in range(400):
    x = torch.where(torch.rand(256, 1) < 0.5, 2.0, -2.0) + 0.1 * torch.randn(256, 1)
    t, noise = torch.randint(steps, (256,)), torch.randn(256, 1)
    alpha_bar = alpha_bars[t][:, None]
    noisy = alpha_bar.sqrt() * x + (1 - alpha_bar).sqrt() * noise
    loss = mse_loss(predict(noisy, t), noise)
    adam.zero_grad()
    loss.backward()
    adam.step()

x = torch.randn(200, 1)
with torch.no_grad():
    for t in reversed(range(steps)):
        alpha = alpha_bars[t] / (alpha_bars[t - 1] if t else 1)
        noise = predict(x, torch.full((200,), t))
        x = (x - (1 - alpha) / (1 - alpha_bars[t]).sqrt() * noise) / alpha.sqrt()
        x = x + (1 - alpha).sqrt() * torch.randn(200, 1) if t else x
result = x.numpy()
