"""The counterpart of characters.py."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog. " * 4
alphabet, numbers = np.unique(list(text), return_inverse=True)
embedding, out = nn.Embedding(len(alphabet), 32), nn.Linear(64, len(alphabet))
gru = nn.GRU(32, 64, batch_first=True)
adam = torch.optim.Adam([*embedding.parameters(), *gru.parameters(), *out.parameters()], 0.01)
windows = np.stack([numbers[i : i + 17] for i in range(len(numbers) - 17)])


def model(x):
    states, _ = gru(embedding(x))
    return out(states)


for _ in range(10):
    for batch in DataLoader(windows, batch_size=32, shuffle=True, drop_last=True):
        x, y = batch[:, :-1], batch[:, 1:]
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y)
        adam.zero_grad()
        loss.backward()
        adam.step()

generated = torch.tensor(numbers[:16])
with torch.no_grad():
    for _ in range(29):
        logits = model(generated[None, -16:])
        generated = torch.cat([generated, logits[0, -1].argmax()[None]])
result = "".join(alphabet[generated])
