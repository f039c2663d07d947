"""Train a small convnet on 1,797 handwritten digits, on the backend that plugrad chooses or PLUGRAD_BACKEND names.

The program prints the backend, the device and the accuracy on a fifth of the digits, which are not used for
training. It writes the weights and the losses (digits.safetensors) and a picture to outputs/<backend>/.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import plugrad
import plugrad_nn as nn

BATCH = 64
MODEL = nn.Sequential(
    nn.Conv2D(16, 3, padding="same"),
    plugrad.relu,
    nn.MaxPooling2D(2),
    nn.Conv2D(32, 3, padding="same"),
    plugrad.relu,
    nn.MaxPooling2D(2),
    nn.Flatten(),
    nn.Dense(10),
)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return images (count, 8, 8, 1) from 0 to 1 and labels for training, and those of a random fifth for testing."""
    path = Path(__file__).parent / "data" / "digits.csv.gz"
    (table,) = nn.shuffled(np.loadtxt(path, delimiter=",", dtype=np.float32), seed=0)
    images, labels = table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype(np.int32)
    return images[359:], labels[359:], images[:359], labels[:359]


def compute_loss(params: nn.Params, x: plugrad.Tensor, y: plugrad.Tensor) -> plugrad.Tensor:
    return nn.losses.sparse_softmax_cross_entropy(y, MODEL(params, x))


def train(params: nn.Params, images: np.ndarray, labels: np.ndarray, epochs: int) -> list[float]:
    """Update the parameters, and return the loss of every step."""
    optimizer, losses = plugrad.optimizers.Adam(0.003), list[float]()

    @plugrad.jit
    def step(x: plugrad.Tensor, y: plugrad.Tensor) -> plugrad.Tensor:
        return optimizer.minimize(partial(compute_loss, params, x, y), nn.leaves(params))

    with tqdm(total=epochs * (len(images) // BATCH), desc="training", disable=None) as progress:
        for epoch in range(epochs):
            for x, y in nn.batches(images, labels, size=BATCH, seed=epoch, drop_remainder=True):
                losses.append(step(x, y).item())
                progress.update()
    return losses


def draw(
    losses: list[float], images: np.ndarray, labels: np.ndarray, predictions: np.ndarray, title: str
) -> Figure:
    """Return a figure with the loss, and test digits with their predictions; wrong ones are red and come first."""
    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.3), squeeze=False).flat
    left.subplots(subplot_kw={"xlabel": "step", "ylabel": "loss", "yscale": "log"}).plot(losses)
    first = np.argsort(predictions == labels, kind="stable")
    for cell, i in zip(right.subplots(4, 8).flat, first, strict=False):
        cell.imshow(images[i, :, :, 0], cmap="gray_r")
        cell.set_title(predictions[i], color="black" if predictions[i] == labels[i] else "red")
        cell.set_axis_off()
    return figure


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--epochs", type=int, default=15)
    epochs, selection = arguments.parse_args().epochs, plugrad.which()
    print(f"backend  {selection}")

    images, labels, test_images, test_labels = load()
    params, start = MODEL.init(0, (8, 8, 1)), time.perf_counter()
    losses = train(params, images, labels, epochs)
    seconds = time.perf_counter() - start
    predictions = plugrad.argmax(nn.predict(MODEL, params, test_images), axis=1).numpy()
    accuracy = f"{np.mean(predictions == test_labels):.2%} of {len(test_labels)} test digits"
    print(f"accuracy {accuracy}, after {len(losses)} steps in {seconds:.1f} s")

    folder = Path("outputs") / selection.backend.name
    folder.mkdir(parents=True, exist_ok=True)
    plugrad.save(folder / "digits.safetensors", {"params": params, "losses": losses})
    figure = draw(losses, test_images, test_labels, predictions, f"{selection.device}: {accuracy}")
    figure.savefig(folder / "digits.png", dpi=100)
    print(f"written  {folder}/digits.safetensors, {folder}/digits.png")


if __name__ == "__main__":
    main()
