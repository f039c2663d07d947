"""The counterpart of digits.py."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
table = torch.tensor(np.loadtxt("digits.csv.gz", delimiter=",", dtype="float32"))
data = TensorDataset(table[:, :64] / 16, table[:, 64].long())
train, test = random_split(data, [0.8, 0.2])
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
adam = torch.optim.Adam(model.parameters(), 0.003)

for _ in range(10):
    model.train()
    for x, y in DataLoader(train, batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.eval()
    with torch.no_grad():
        x, y = test[:]
        result = (model(x).argmax(1) == y).float().mean().item()
