"""The counterpart of translation.py."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

torch.manual_seed(0)
tokens, length, width = 6, 4, 24
read, say = nn.Embedding(tokens, width), nn.Embedding(tokens + 1, width)
encoder = nn.GRU(width, width, batch_first=True)
decoder = nn.GRU(width, width, batch_first=True)
output_layer = nn.Linear(2 * width, tokens)
model = nn.ModuleList([read, say, encoder, decoder, output_layer])
adam = torch.optim.Adam(model.parameters(), 0.03)


def logits(words, previous):
    (memory, _), (state, _) = encoder(read(words)), decoder(say(previous))
    context = scaled_dot_product_attention(state, memory, memory)
    return output_layer(torch.cat([state, context], dim=-1))


def make_batch(count):
    words = torch.randint(tokens, (count, length))
    answer = words.flip(1)
    start = torch.full((count, 1), tokens)
    return words, torch.cat([start, answer[:, :-1]], dim=1), answer


for _ in range(160):
    words, previous, answer = make_batch(64)
    loss = cross_entropy(logits(words, previous).transpose(1, 2), answer)
    adam.zero_grad()
    loss.backward()
    adam.step()
words, previous, answer = make_batch(100)
result = (logits(words, previous).argmax(-1) == answer).float().mean().item()
