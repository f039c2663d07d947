"""Train a small transformer that writes one character after the other, on the selected backend.

    python examples/characters.py                          it learns the text of this program
    python examples/characters.py FILE --steps 1000        or that of a file
    PLUGRAD_BACKEND=wasm python examples/characters.py     on another backend

The program prints the backend, the loss before and after training, and what the network writes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import plugrad as pg

LENGTH = 32  # characters that the network sees
WIDTH, HEADS, BLOCKS = 32, 4, 2
BATCH = 16

Numbers = NDArray[np.int32]
Weights = dict[str, pg.Variable]


def encoded(text: str) -> tuple[str, Numbers]:
    """Return the characters that a text has, and the text as their numbers."""
    alphabet = "".join(sorted(set(text)))
    return alphabet, np.array([alphabet.index(character) for character in text], np.int32)


def initial_weights(characters: int, seed: int) -> Weights:
    """Return small random weights for products and embeddings, and scales of one."""
    rng = np.random.default_rng(seed)
    shapes = {"embedding": (characters, WIDTH), "position": (LENGTH, WIDTH)}
    for i in range(BLOCKS):
        shapes |= {f"{i}.attention": (WIDTH, 3 * WIDTH), f"{i}.output": (WIDTH, WIDTH)}
        shapes |= {f"{i}.wide": (WIDTH, 4 * WIDTH), f"{i}.narrow": (4 * WIDTH, WIDTH)}
    values = {name: 0.1 * rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    scales = [f"{i}.{layer}" for i in range(BLOCKS) for layer in ("before", "between")]
    values |= {name: np.ones(WIDTH, np.float32) for name in (*scales, "last")}
    return {name: pg.Variable(value, name=name) for name, value in values.items()}


def normalized(x: pg.Tensor, scale: pg.Tensor) -> pg.Tensor:
    """Return vectors whose mean is 0 and whose variance is 1, times a scale (Ba et al., 2016)."""
    centered = x - pg.mean(x, axis=-1, keepdims=True)
    return centered * pg.rsqrt(pg.mean(centered**2, axis=-1, keepdims=True) + 1e-5) * scale


def attended(x: pg.Tensor, weights: Weights, block: int) -> pg.Tensor:
    """Return what each place takes from those before it and from itself (Vaswani et al., 2017)."""
    batch, length, _ = x.shape
    parts = (x @ weights[f"{block}.attention"]).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
    query, key, value = pg.unstack(pg.permute_dims(parts, (2, 0, 3, 1, 4)))
    scores = query @ pg.permute_dims(key, (0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5
    is_before = pg.tril(pg.ones((length, length), dtype="bool"))
    shares = pg.softmax(pg.where(is_before, scores, -1e9))
    heads = pg.permute_dims(shares @ value, (0, 2, 1, 3)).reshape(batch, length, WIDTH)
    return heads @ weights[f"{block}.output"]


def predict(numbers: pg.Tensor, weights: Weights) -> pg.Tensor:
    """Return the logits of the character after each place."""
    x = pg.take(weights["embedding"], numbers, axis=0) + weights["position"][: numbers.shape[1]]
    for i in range(BLOCKS):
        x = x + attended(normalized(x, weights[f"{i}.before"]), weights, i)
        inner = pg.relu(normalized(x, weights[f"{i}.between"]) @ weights[f"{i}.wide"])
        x = x + inner @ weights[f"{i}.narrow"]
    return normalized(x, weights["last"]) @ pg.permute_dims(weights["embedding"], (1, 0))


def train(numbers: Numbers, weights: Weights, steps: int, seed: int) -> list[float]:
    """Update the weights in place, and return the loss of every step."""
    rng = np.random.default_rng(seed)
    optimizer = pg.optimizers.Adam(0.003)
    variables = list(weights.values())
    losses: list[float] = []
    for _ in tqdm(range(steps), unit="step", desc="training", disable=None):
        starts = rng.integers(0, len(numbers) - LENGTH, BATCH)
        pieces = np.stack([numbers[start : start + LENGTH + 1] for start in starts])
        x = pg.asarray(pieces[:, :-1])
        y = pg.one_hot(pieces[:, 1:], weights["embedding"].shape[0])

        def loss(x: pg.Tensor = x, y: pg.Tensor = y) -> pg.Tensor:
            return pg.losses.softmax_cross_entropy(y, predict(x, weights))

        losses.append(optimizer.minimize(loss, variables).item())
    return losses


def written(start: Numbers, weights: Weights, count: int) -> Numbers:
    """Return `start` and the `count` characters that are most likely to follow."""
    numbers = start
    for _ in range(count):
        logits = predict(pg.asarray(numbers[None, -LENGTH:]), weights)
        following = pg.argmax(logits[0, -1], axis=0).numpy()
        numbers = np.append(numbers, following).astype(np.int32)
    return numbers


def main() -> None:
    """Train, and write."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("file", type=Path, nargs="?", default=Path(__file__))
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()

    print(f"backend  {pg.which()}")
    alphabet, numbers = encoded(options.file.read_text("utf-8"))
    weights = initial_weights(len(alphabet), options.seed)
    start = time.perf_counter()
    losses = train(numbers, weights, options.steps, options.seed)
    seconds = time.perf_counter() - start
    print(
        f"loss     {losses[0]:.3f} to {losses[-1]:.3f}, after {len(losses)} steps in {seconds:.1f} s"
    )
    text = "".join(alphabet[i] for i in written(numbers[:LENGTH], weights, 200))
    print(f"written  {text!r}")


if __name__ == "__main__":
    main()
