"""Inference in many processes: functions of plugrad on the chunks of Dask and the batches of ray.data."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import plugrad

INPUTS = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)

RAY_PROGRAM = """
import numpy as np, plugrad, plugrad_nn as nn, ray

model = nn.Sequential(nn.Dense(4, plugrad.relu), nn.Dense(2))

class Predictor:
    def __init__(self, path):
        plugrad.use("cpu")
        self.params = plugrad.load(path)

    def __call__(self, batch):
        return {"y": nn.predict(model, self.params, plugrad.asarray(batch["x"])).numpy()}

x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
params = model.init(0, (3,))
plugrad.save("params.safetensors", params)
ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
ray.data.DataContext.get_current().enable_progress_bars = False
path = __file__.replace("program.py", "params.safetensors")
rows = ray.data.from_numpy(x).rename_columns({"data": "x"}).map_batches(
    Predictor, fn_constructor_args=(path,), batch_size=16, compute=ray.data.ActorPoolStrategy(size=1)
).take_all()
found = np.sort(np.stack([row["y"] for row in rows]), 0)
np.testing.assert_allclose(found, np.sort(nn.predict(model, params, plugrad.asarray(x)).numpy(), 0), rtol=1e-6)
print("as alone")
"""


@pytest.mark.skipif(
    find_spec("ray") is None or find_spec("pyarrow") is None,
    reason="ray.data is not installed; pip install 'ray[data]'",
)
def test_batches_of_ray_go_through_a_model(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RAY_PROGRAM)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, program]
    done = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.endswith("as alone\n"), done.stderr[-3000:]


@pytest.fixture
def dask_arrays():
    """The same values as a Dask array of NumPy chunks, and as a Dask array of tensor chunks."""
    dask = pytest.importorskip(
        "dask.array", reason="Dask is not installed; pip install 'dask[array]'"
    )
    with plugrad.use("cpu"):
        arrays = dask.from_array(INPUTS, chunks=(3, 4))
        yield arrays, arrays.map_blocks(plugrad.asarray)


def test_functions_on_chunks_give_arrays(dask_arrays):
    found = dask_arrays[0].map_blocks(
        lambda x: plugrad.tanh(plugrad.asarray(x)).numpy(), dtype="float32"
    )
    assert type(found.compute()) is np.ndarray
    np.testing.assert_allclose(found.compute(), np.tanh(INPUTS), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda d: d + 1,
        np.tanh,
        lambda d: d.mean(axis=0),
        lambda d: d.std(),
        lambda d: d @ d.T,
        lambda d: d[1:4, ::2],
        lambda d: d.T.rechunk((8, 2)).reshape(48),
    ],
    ids=["add", "ufunc", "mean", "std", "product", "slice", "rechunk"],
)
def test_tensors_stay_tensors_as_chunks(dask_arrays, function):
    arrays, tensors = map(function, dask_arrays)
    assert isinstance(tensors._meta, plugrad.Tensor)
    found = tensors.compute(scheduler="synchronous")
    assert isinstance(found, plugrad.Tensor)
    np.testing.assert_allclose(found, arrays.compute(), rtol=1e-5, atol=1e-6)
