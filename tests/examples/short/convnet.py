"""A network of convolutions with batch normalization reads handwritten digits, in a loop of its own."""

import numpy as np

import plugrad
import plugrad_nn as nn

table = np.loadtxt("digits.csv.gz", delimiter=",", dtype="float32")
images, labels = table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype("int32")
model = nn.Sequential(
    nn.Conv2D(16, 3, padding="same"),
    nn.BatchNorm(),
    plugrad.relu,
    nn.MaxPooling2D(2),
    nn.Conv2D(32, 3, padding="same", activation=plugrad.relu),
    nn.Flatten(),
    nn.Dense(10),
)
params = model.init(0, (8, 8, 1))
adam = plugrad.optimizers.Adam(0.01)


@plugrad.jit
def step(x, y):
    mode = nn.Training(0)
    cross_entropy = nn.losses.sparse_softmax_cross_entropy
    adam.minimize(lambda: cross_entropy(y, model(params, x, mode)), nn.leaves(params))
    mode.commit(params)


for epoch in range(6):
    for x, y in nn.batches(images[359:], labels[359:], size=64, seed=epoch):
        step(x, y)
result = nn.metrics.accuracy(labels[:359], nn.predict(model, params, images[:359])).item()
