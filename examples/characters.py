"""Train a small transformer that writes one character after the other, on the selected backend.

    python examples/characters.py                          it learns the first act of Coriolanus
    python examples/characters.py FILE 1000                or another text, in 1,000 steps
    PLUGRAD_BACKEND=wasm python examples/characters.py     on another backend

The program prints the first and the last loss, and what the network writes. It saves the training to
outputs/characters.safetensors, where the next run continues if there are steps left, and a picture of
the loss to outputs/characters.png. The number of a step is the seed of its random numbers, so that a
continued training is like one without a break.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import plugrad
import plugrad_nn as nn
from plugrad.optimizers import Adam

TEXT, LENGTH = str(Path(__file__).parent / "data/shakespeare.txt"), 32  # characters seen at once


def language_model(characters: int) -> nn.Sequential:
    attend = nn.Residual(nn.LayerNorm(), nn.MultiHeadAttention(4, 8, causal=True), nn.Dropout(0.1))
    think = nn.Residual(nn.LayerNorm(), nn.Dense(128, plugrad.relu), nn.Dense(32), nn.Dropout(0.1))
    start = nn.Embedding(characters, 32), nn.PositionEmbedding(LENGTH)
    return nn.Sequential(*start, attend, think, attend, think, nn.LayerNorm(), nn.Dense(characters))


@plugrad.jit
def train(model: nn.Layer, params: nn.Params, adam: Adam, data: plugrad.Tensor) -> plugrad.Tensor:
    mode, loss = nn.Training(lambda: adam.iterations), nn.losses.sparse_softmax_cross_entropy
    starts = mode.generator().integers((16, 1), 0, len(data) - LENGTH)
    x, y = (data[starts + plugrad.arange(i, LENGTH + i)] for i in (0, 1))
    return adam.minimize(lambda: loss(y, model(params, x, mode)), nn.leaves(params))


def generate(model: nn.Layer, params: nn.Params, numbers: np.ndarray, count: int) -> np.ndarray:
    for _ in range(count):
        logits = model(params, numbers[None, -LENGTH:])[0, -1]
        numbers = np.append(numbers, plugrad.random.multinomial(2 * logits, 1))
    return numbers


def main(file: str = TEXT, steps: str = "300", to: str = "outputs/characters.safetensors") -> None:
    alphabet, numbers = np.unique(list(Path(file).read_text("utf-8")), return_inverse=True)
    model, data = language_model(len(alphabet)), plugrad.asarray(numbers, dtype="int32")
    params, losses, path, optimizer = model.init(0, (LENGTH,)), list[float](), Path(to), Adam(0.003)
    if path.exists():
        params, losses, state = plugrad.load(path)
        optimizer.set_state(nn.leaves(params), state)
    losses += [train(model, params, optimizer, data).item() for _ in range(len(losses), int(steps))]
    path.parent.mkdir(exist_ok=True)
    plugrad.save(path, (params, losses, optimizer.get_state(nn.leaves(params))))
    plt.axes(xlabel="step", ylabel="loss").plot(losses)
    plt.savefig(path.with_suffix(".png"))
    text = "".join(alphabet[generate(model, params, numbers[:LENGTH], 300)])
    print(f"loss {losses[0]:.6f} to {losses[-1]:.6f}\n{text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
