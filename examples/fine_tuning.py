"""Fine-tune a model in ONNX: a network that knows clean digits learns noisy ones from 60 examples.

    python examples/fine_tuning.py
    PLUGRAD_BACKEND=webgpu python examples/fine_tuning.py     on another backend

The model is made here, and written to a file; it could be any that PyTorch or others have exported.
The picture compares it with a network that learns the same examples from nothing.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import plugrad
import plugrad_nn as nn
import plugrad_onnx

EPOCH_COUNT, STEP_COUNT, EXAMPLE_COUNT = 12, 60, 60

table = np.loadtxt(
    Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32
)
images, digits = table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype(np.int32)
rng = np.random.default_rng(0)
noisy_images = images + rng.normal(0, 0.4, images.shape).astype(np.float32)
network = nn.Sequential(
    nn.Conv2D(16, 3, padding="same", activation=plugrad.relu),
    nn.MaxPooling2D(2),
    nn.Conv2D(32, 3, padding="same", activation=plugrad.relu),
    nn.GlobalAveragePooling(),
    nn.Dense(10),
)


def write_model(path: str, epochs: int) -> None:
    """Train the network on clean digits, and write it as a model in ONNX."""
    params, optimizer = network.init(0, (8, 8, 1)), plugrad.optimizers.Adam(0.005)

    @plugrad.jit
    def step(x: plugrad.Tensor, y: plugrad.Tensor) -> plugrad.Tensor:
        return optimizer.minimize(
            lambda: nn.losses.sparse_softmax_cross_entropy(y, network(params, x)),
            nn.leaves(params),
        )

    for epoch in range(epochs):
        for x, y in nn.batches(images, digits, size=64, seed=epoch, drop_remainder=True):
            step(plugrad.asarray(x), plugrad.asarray(y))
    plugrad_onnx.export(lambda x: network(params, x), images[:1], path=path, names=["images"])


def fine_tune(path: str) -> tuple[plugrad_onnx.Model, list[float], list[float]]:
    """Train a model on a few noisy digits; return it, the losses, and the accuracy on the other digits."""
    model, optimizer = plugrad_onnx.load(path), plugrad.optimizers.Adam(0.005)
    variables = model.variables()
    x, y = plugrad.asarray(noisy_images[:EXAMPLE_COUNT]), plugrad.asarray(digits[:EXAMPLE_COUNT])
    others, labels = plugrad.asarray(noisy_images[EXAMPLE_COUNT:]), digits[EXAMPLE_COUNT:]
    losses, accuracy = list[float](), list[float]()
    for _ in range(STEP_COUNT):
        predictions = plugrad.argmax(model(others), axis=1).numpy()
        accuracy.append(float(np.mean(predictions == labels)))
        loss = optimizer.minimize(
            lambda: nn.losses.sparse_softmax_cross_entropy(y, model(x)), variables
        )
        losses.append(loss.item())
    return model, losses, accuracy


write_model("clean.onnx", EPOCH_COUNT)
write_model("nothing.onnx", 0)
model, losses, tuned_accuracy = fine_tune("clean.onnx")
scratch_accuracy = fine_tune("nothing.onnx")[2]
model.save("tuned.onnx")  # for onnxruntime, or the browser
print(
    f"noisy digits: {tuned_accuracy[0]:.1%} at first, {tuned_accuracy[-1]:.1%} tuned, "
    f"{scratch_accuracy[-1]:.1%} from nothing"
)

figure = plt.figure(figsize=(11, 4.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1), squeeze=False).flat
axes = left.subplots()
axes.set(ylim=(0, 1), xlabel="steps on 60 noisy digits", ylabel="accuracy on the others")
axes.plot(tuned_accuracy, label="a model that knows clean digits")
axes.plot(scratch_accuracy, label="the same network from nothing")
axes.legend(loc="lower right")
predictions = plugrad.argmax(model(noisy_images[-32:]), axis=1).numpy()
for cell, image, guess, digit in zip(
    right.subplots(4, 8).flat, noisy_images[-32:], predictions, digits[-32:], strict=True
):
    cell.imshow(image[:, :, 0], cmap="gray_r")
    cell.set_title(guess, color="black" if guess == digit else "red")
    cell.set_axis_off()
figure.savefig("fine_tuning.png", dpi=100)
