"""The counterpart of forecast.py."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
times = np.arange(400, dtype="float32")
series = torch.tensor(np.sin(times / 5) + 0.5 * np.sin(times / 11))
x = torch.stack([series[i : i + 20, None] for i in range(380)])
y = series[20:, None]
lstm, out = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 1)
adam = torch.optim.Adam([*lstm.parameters(), *out.parameters()], 0.01)


def model(x):
    states, _ = lstm(x)
    return out(states[:, -1])


for _ in range(15):
    for inputs, targets in DataLoader(TensorDataset(x[:300], y[:300]), 32, shuffle=True):
        loss = nn.functional.mse_loss(model(inputs), targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
with torch.no_grad():
    result = nn.functional.mse_loss(model(x[300:]), y[300:]).item()
