"""Train a small convnet on 1,797 handwritten digits, on the selected backend.

    python examples/digits.py                           the backend that plugrad chooses
    PLUGRAD_BACKEND=webgpu python examples/digits.py    another backend

The program prints the backend, the device and the accuracy on a fifth of the digits, which are not
used for training. It writes the weights (digits.safetensors), the losses (losses.csv) and a picture
(digits.png) to outputs/<backend>/.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import plugrad as pg

HERE = Path(__file__).parent
BATCH = 64
CLASSES = 10

Images = NDArray[np.float32]
Labels = NDArray[np.int32]
Weights = dict[str, pg.Variable]


def load(seed: int) -> tuple[Images, Labels, Images, Labels]:
    """Return images (count, 8, 8, 1) from 0 to 1 and labels for training, and those of a random fifth for testing."""
    table = np.loadtxt(HERE / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    table = np.random.default_rng(seed).permutation(table)
    images, labels = table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype(np.int32)
    held_out = len(table) // 5
    return images[held_out:], labels[held_out:], images[:held_out], labels[:held_out]


def initial_weights(seed: int) -> Weights:
    """Return weights scaled for layers with relu (He et al., 2015), and biases of zero."""
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (3, 3, 1, 16), "conv2": (3, 3, 16, 32), "dense": (2 * 2 * 32, CLASSES)}
    weights: Weights = {}
    for layer, shape in shapes.items():
        fan_in = int(np.prod(shape[:-1]))
        kernel = rng.standard_normal(shape, np.float32) * np.sqrt(2 / fan_in, dtype=np.float32)
        weights[f"{layer}.kernel"] = pg.Variable(kernel, name=f"{layer}.kernel")
        weights[f"{layer}.bias"] = pg.Variable(pg.zeros(shape[-1]), name=f"{layer}.bias")
    return weights


def predict(images: pg.Tensor, weights: Weights) -> pg.Tensor:
    """Return the logits of each image."""
    h = images
    for layer in ("conv1", "conv2"):
        h = pg.conv2d(h, weights[f"{layer}.kernel"], pad="same") + weights[f"{layer}.bias"]
        h = pg.max_pool(pg.relu(h), 2)
    h = h.reshape(h.shape[0], -1)
    return h @ weights["dense.kernel"] + weights["dense.bias"]


def train(images: Images, labels: Labels, weights: Weights, epochs: int, seed: int) -> list[float]:
    """Update the weights in place, and return the loss of every step."""
    rng = np.random.default_rng(seed)
    optimizer = pg.optimizers.Adam(0.003)
    variables = list(weights.values())
    losses: list[float] = []
    batches = len(images) // BATCH
    with tqdm(total=epochs * batches, unit="step", desc="training", disable=None) as progress:
        for _ in range(epochs):
            order = rng.permutation(len(images))
            for chosen in np.array_split(order[: batches * BATCH], batches):
                x, y = pg.asarray(images[chosen]), pg.one_hot(labels[chosen], CLASSES)

                def loss(x: pg.Tensor = x, y: pg.Tensor = y) -> pg.Tensor:
                    return pg.losses.softmax_cross_entropy(y, predict(x, weights))

                losses.append(optimizer.minimize(loss, variables).item())
                progress.update()
                progress.set_postfix(loss=f"{losses[-1]:.4f}")
    return losses


def draw(
    path: Path, losses: list[float], images: Images, labels: Labels, guesses: Labels, title: str
) -> None:
    """Write a picture with the loss curve, and test digits with their predictions; wrong ones are red."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wrong, right = np.flatnonzero(guesses != labels), np.flatnonzero(guesses == labels)
    shown = np.concatenate([wrong[:8], right])[:32]
    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle(title)
    left, grid = figure.subfigures(1, 2, width_ratios=(1, 1.3))
    axes = left.subplots()
    axes.plot(losses, color="tab:blue", linewidth=1)
    axes.set(xlabel="step", ylabel="loss (cross-entropy)", yscale="log", title="training loss")
    axes.grid(visible=True, alpha=0.3)
    for cell, i in zip(grid.subplots(4, 8).flat, shown, strict=True):
        cell.imshow(images[i, :, :, 0], cmap="gray_r")
        is_right = guesses[i] == labels[i]
        text = f"{guesses[i]}" if is_right else f"{guesses[i]}, is {labels[i]}"
        cell.set_title(text, fontsize=8, color="black" if is_right else "red")
        cell.set_axis_off()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Train, test, save and draw."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--epochs", type=int, default=15)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--output", type=Path, default=Path("outputs"))
    options = arguments.parse_args()

    selection = pg.which()
    print(f"backend  {selection}")
    images, labels, test_images, test_labels = load(options.seed)
    weights = initial_weights(options.seed)

    start = time.perf_counter()
    losses = train(images, labels, weights, options.epochs, options.seed)
    seconds = time.perf_counter() - start

    guesses = pg.argmax(predict(pg.asarray(test_images), weights), axis=1).numpy()
    accuracy = float(np.mean(guesses == test_labels))
    print(
        f"accuracy {accuracy:.2%} of {len(test_labels)} test digits, after {len(losses)} steps in {seconds:.1f} s"
    )

    folder = options.output / selection.backend.name
    folder.mkdir(parents=True, exist_ok=True)
    pg.save(folder / "digits.safetensors", weights)
    np.savetxt(folder / "losses.csv", losses)
    draw(
        folder / "digits.png",
        losses,
        test_images,
        test_labels,
        guesses,
        f"plugrad on {selection.device}: {accuracy:.2%} right",
    )
    print(f"written  {folder}/digits.safetensors, {folder}/losses.csv, {folder}/digits.png")


if __name__ == "__main__":
    main()
