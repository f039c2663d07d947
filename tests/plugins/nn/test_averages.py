"""Moving averages of parameters."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from core.test_optimizers import TORCH_RECORD
from plugins.nn.conftest import as_numpy
from plugrad.extend import ArgumentError, ArgumentValueError

RECORDED_VALUES = TORCH_RECORD["values"]
"""The values of a parameter before the updates."""


@pytest.mark.parametrize("is_traced", [False, True])
def test_averages_match_torch(is_traced, backend):
    dtype = "float64" if plugrad.float64 in plugrad.which().backend.dtypes() else "float32"
    params = nn.Dense(1, use_bias=False).init(0, (1,), dtype)
    kernel = params["kernel"]
    kernel.assign([[RECORDED_VALUES[0]]])
    average = nn.MovingAverage(params, decay=0.6)
    update = plugrad.jit(average.update) if is_traced else average.update
    found = [average.params["kernel"].item()]
    for value in RECORDED_VALUES[1:]:
        kernel.assign([[value]])
        update()
        found.append(average.params["kernel"].item())
    allowed = 1e-12 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(found, TORCH_RECORD["averages"], rtol=allowed)
    inside = []
    with pytest.raises(ZeroDivisionError), average.applied():
        inside.append(kernel.item() / 0)
    with average.applied():
        inside.append(kernel.item())
    assert inside == [found[-1]]
    assert kernel.item() == np.dtype(dtype).type(RECORDED_VALUES[-1])


def test_an_interrupted_begin_of_a_block_gives_parameters_their_own_values_back(monkeypatch):
    params = nn.Dense(2).init(0, (3,))
    average = nn.MovingAverage(params)
    own = [kernel.tolist() for kernel in (params["kernel"], params["bias"])]
    for variable in params.values():
        variable.assign(variable + 1)

    def interrupted(params, values):
        params["kernel"].assign(values["kernel"])
        raise KeyboardInterrupt

    monkeypatch.setattr("plugrad_nn.averages.assign", interrupted)
    with pytest.raises(KeyboardInterrupt), average.applied():
        pass
    changed = [(np.array(x) + 1).tolist() for x in own]
    assert [params["kernel"].tolist(), params["bias"].tolist()] == changed


def test_fit_averages_after_each_step(backend, rng):
    """With accumulated gradients, the average is updated once per step; statistics are copied."""
    x, y = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(20, 1)).astype(np.float32)
    model = nn.Sequential(nn.Dense(2), nn.BatchNorm(), nn.Dense(1))
    params = model.init(0, (3,))
    expected, average = as_numpy(params)["dense"]["kernel"], nn.MovingAverage(params, 0.8)
    steps = []

    class CheckingCallback(nn.Callback):
        def on_batch_end(self, run, step, loss):
            nonlocal expected
            if run.optimizer.iterations > len(steps):
                steps.append(step)
                expected = expected + (params["dense"]["kernel"].numpy() - expected) * (1 - 0.8)

    nn.fit(
        model,
        params,
        x,
        y,
        loss=plugrad.losses.mean_squared_error,
        optimizer=plugrad.optimizers.SGD(0.1),
        batch_size=6,
        accumulate=3,
        epochs=2,
        callbacks=[average, CheckingCallback()],
    )
    assert steps == [3, 4, 3, 4]
    np.testing.assert_allclose(average.params["dense"]["kernel"], expected, rtol=1e-4, atol=1e-6)
    mean = average.params["batch_norm"]["moving_mean"]
    np.testing.assert_array_equal(mean, params["batch_norm"]["moving_mean"])
    assert not any(variable.trainable for variable in nn.leaves(average.params))


def test_moving_average_rejects_invalid_arguments():
    params = nn.Dense(1).init(0, (1,))
    with pytest.raises(ArgumentValueError, match=r"MovingAverage: decay=1.0 must be"):
        nn.MovingAverage(params, 1.0)
    with pytest.raises(ArgumentError, match="nested dicts"):
        nn.MovingAverage([1.0])
