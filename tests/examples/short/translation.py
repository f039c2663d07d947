"""A sequence-to-sequence model with attention learns to say words backwards."""

import plugrad
import plugrad_nn as nn

plugrad.random.seed(0)
tokens, length, width = 6, 4, 24
encoder = nn.Sequential(nn.Embedding(tokens, width), nn.GRU(width, return_sequences=True))
decoder = nn.Sequential(nn.Embedding(tokens + 1, width), nn.GRU(width, return_sequences=True))
output_layer = nn.Dense(tokens)
e, d, o = encoder.init(0, (length,)), decoder.init(1, (length,)), output_layer.init(2, (2 * width,))
adam = plugrad.optimizers.Adam(0.03)


def logits(words, previous):
    memory, state = encoder(e, words), decoder(d, previous)
    context = plugrad.attention(state, memory, memory)
    return output_layer(o, plugrad.concat([state, context], axis=-1))


def make_batch(count):
    words = plugrad.random.integers((count, length), 0, tokens)
    answer = words[:, ::-1]
    start = plugrad.full((count, 1), tokens)
    return words, plugrad.concat([start, answer[:, :-1]], axis=1), answer


def loss():
    words, previous, answer = make_batch(64)
    return nn.losses.sparse_softmax_cross_entropy(answer, logits(words, previous))


for _ in range(160):
    adam.minimize(loss, nn.leaves({"e": e, "d": d, "o": o}))
words, previous, answer = make_batch(100)
result = nn.metrics.accuracy(answer, logits(words, previous)).item()
