"""A network of dense layers reads handwritten digits; a fifth of them is kept for validation."""

import numpy as np

import plugrad
import plugrad_nn as nn

table = np.loadtxt("digits.csv.gz", delimiter=",", dtype="float32")
train, test = nn.data.split(table[:, :64] / 16, table[:, 64].astype("int32"), fraction=0.2)
model = nn.Sequential(nn.Dense(64, plugrad.relu), nn.Dropout(0.2), nn.Dense(10))
params = model.init(0, (64,))
results = nn.fit(
    model,
    params,
    *train,
    loss=nn.losses.sparse_softmax_cross_entropy,
    optimizer=plugrad.optimizers.Adam(0.003),
    epochs=10,
    validation_data=test,
    metrics={"accuracy": nn.metrics.accuracy},
)
result = results[-1]["val_accuracy"]
