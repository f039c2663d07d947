"""Ray Train: a worker that dies is replaced, and the training ends with the bits of one that was not disturbed."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import plugrad_distributed as dist
from plugrad.errors import ArgumentError
from plugrad_distributed.ray import PlugradTrainer

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("torch") is None,
    reason='Ray Train is not installed; pip install "plugrad[ray]"',
)

PROGRAM = """
import os, signal, sys, tempfile
import ray
from ray import train
from plugrad_distributed.ray import PlugradTrainer

def loop(config):
    import numpy as np, plugrad, plugrad_distributed as dist
    from plugrad_distributed.ray import report, restore
    w = plugrad.Variable(plugrad.zeros(5))
    optimizer, first = dist.DataParallel(plugrad.optimizers.Adam(0.1)), 0
    saved = restore()
    if saved is not None:
        w.assign(saved["w"])
        optimizer.set_state([w], saved["optimizer"])
        first = saved["step"]
    xs = np.random.default_rng(0).normal(size=(12, 9, 5)).astype(np.float32)
    for step, x in enumerate(dist.shard(list(xs[first:])), first):
        if step == 7 and dist.world().rank == 1 and not os.path.exists(config["flag"]):
            open(config["flag"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        x = plugrad.asarray(x)
        optimizer.minimize(lambda: plugrad.mean(plugrad.square(x @ w - 1)), [w])
        if step % 4 == 3:
            tree = {"w": w, "optimizer": optimizer.get_state([w]), "step": step + 1}
            report({"w": w.tolist(), "attempt": dist.world().attempt}, tree)

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
found = []
for flag in (__file__, os.path.join(tempfile.mkdtemp(), "flag")):
    result = PlugradTrainer(
        loop,
        train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            storage_path=tempfile.mkdtemp(), failure_config=train.FailureConfig(max_failures=1)
        ),
        train_loop_config={"flag": flag},
    ).fit()
    assert os.path.exists(flag)
    found.append(result.metrics)
assert found[0]["w"] == found[1]["w"], found
assert found[0]["attempt"] != found[1]["attempt"] != ""
print("the same bits")
"""


@needs_ray
def test_a_worker_that_dies_is_replaced_and_the_bits_are_the_same(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.stdout.endswith("the same bits\n"), done.stderr[-3000:]


def test_wrong_calls_and_a_missing_library_are_named(monkeypatch):
    with pytest.raises(ArgumentError, match="train_loop=3"):
        PlugradTrainer(3)
    monkeypatch.setitem(sys.modules, "ray.train", None)
    with pytest.raises(dist.CollectiveUnavailable, match=r'pip install "plugrad\[ray\]"'):
        PlugradTrainer(print)
