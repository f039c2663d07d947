"""An LSTM forecasts a series one step ahead, and is tested on the last fifth of it."""

import numpy as np

import plugrad
import plugrad_nn as nn

times = np.arange(400, dtype="float32")
series = np.sin(times / 5) + 0.5 * np.sin(times / 11)
x = np.stack([series[i : i + 20, None] for i in range(380)])
y = series[20:, None]
model = nn.Sequential(nn.LSTM(32), nn.Dense(1))
params = model.init(0, (20, 1))
loss, adam = plugrad.losses.mean_squared_error, plugrad.optimizers.Adam(0.01)
nn.fit(model, params, x[:300], y[:300], loss=loss, optimizer=adam, epochs=15)
result = nn.evaluate(model, params, x[300:], y[300:], loss=loss)["loss"]
