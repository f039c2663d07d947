"""Ray Train: a worker that dies is replaced, or left out, and the training ends as one that was not disturbed."""

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

TRAINING_LOOP_SOURCE = """
import os, random, signal, sys, tempfile, threading, time
import numpy as np
import ray
from ray import train
from plugrad_distributed.ray import PlugradTrainer

kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1
xs = np.random.default_rng(0).normal(size=(12 * kills, 9, 5)).astype(np.float32)

def loop(config):
    import plugrad, plugrad_distributed as dist
    from plugrad_distributed.ray import report, restore
    w = plugrad.Variable(plugrad.zeros(5))
    optimizer, first = dist.DataParallel(plugrad.optimizers.Adam(0.1), shard_state=True), 0
    saved = restore()
    if saved is not None:
        w.assign(saved["w"])
        optimizer.set_state([w], saved["optimizer"])
        first = saved["step"]
    for step, x in enumerate(dist.shard(list(xs[first:])), first):
        fail(config["flags"], step, dist.world())
        x = plugrad.asarray(x)
        optimizer.minimize(lambda: plugrad.mean(plugrad.square(x @ w - 1)), [w])
        if step % 4 == 3:
            tree = {"w": w, "optimizer": optimizer.get_state([w]), "step": step + 1}
            found = {"attempt": dist.world().attempt, "size": dist.world().size}
            report({"w": w.tolist(), **found}, tree)

def run(workers, flags):
    failures = train.FailureConfig(max_failures=kills)
    return PlugradTrainer(
        loop,
        train.ScalingConfig(num_workers=workers),
        run_config=train.RunConfig(storage_path=tempfile.mkdtemp(), failure_config=failures),
        train_loop_config={"flags": flags},
    ).fit().metrics
"""
REPLACED_WORKER_SOURCE = """
def fail(flags, step, world):
    flag = f"{flags}/{step}"
    if os.path.exists(flag) and open(flag).read() == str(world.rank):
        os.remove(flag)
        os.kill(os.getpid(), signal.SIGKILL)

ray.init("local", num_cpus=3, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
flags = tempfile.mkdtemp()
undisturbed = run(2, flags)
for step in random.sample(range(len(xs)), kills):  # a file for each kill, which says the rank
    with open(f"{flags}/{step}", "w") as file:
        file.write(str(random.randrange(2)))
planned = sorted(map(int, os.listdir(flags)))
start = time.monotonic()
found = run(2, flags)
print(f"killed before steps {planned}: {time.monotonic() - start:.0f} s")
assert not os.listdir(flags), "a worker was to be killed, and was not"
assert found["w"] == undisturbed["w"], (found, undisturbed)
assert found["attempt"] != undisturbed["attempt"] != ""
print("the same bits")
"""
SHRUNK_CLUSTER_SOURCE = """
from ray.cluster_utils import Cluster

def fail(flag, step, world):
    if step == 7 and world.size == 2:
        open(flag, "w").close()
        time.sleep(600)  # until the other machine has gone

def remove(cluster, machine, flag):
    while not os.path.exists(flag):
        time.sleep(0.1)
    cluster.remove_node(machine, allow_graceful=False)

options = {"num_cpus": 1, "object_store_memory": 100_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
machine = cluster.add_node(**options)
ray.init(address=cluster.address, log_to_driver=False)
flag = os.path.join(tempfile.mkdtemp(), "flag")
threading.Thread(target=remove, args=(cluster, machine, flag), daemon=True).start()
found = run((1, 2), flag)

import plugrad
w = plugrad.Variable(plugrad.zeros(5))
optimizer = plugrad.optimizers.Adam(0.1)
for x in xs:
    optimizer.minimize(lambda: plugrad.mean(plugrad.square(plugrad.asarray(x) @ w - 1)), [w])
assert os.path.exists(flag) and found["size"] == 1, found
np.testing.assert_allclose(found["w"], w.numpy(), rtol=1e-5, atol=1e-6)
ray.shutdown()
cluster.shutdown()
print("the same weights")
"""
DATASET_PROGRAM_SOURCE = """
def read(config):
    import plugrad, plugrad_distributed as dist
    from plugrad_distributed.ray import iter_batches, report
    rows, total = 0, 0.0
    for batch in iter_batches(size=4):
        assert type(batch["x"]) is plugrad.Tensor and dist.world().examples == len(batch["x"])
        rows += len(batch["x"])
        total += plugrad.sum(batch["x"]).item()
    found = dict(zip(("rows", "total"), dist.sum_numbers([rows, total])))
    report(found, {"done": plugrad.ones(1)})  # without a checkpoint, Ray forgets the metrics

ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
ray.data.DataContext.get_current().enable_progress_bars = False
found = PlugradTrainer(
    read,
    train.ScalingConfig(num_workers=2),
    run_config=train.RunConfig(storage_path=tempfile.mkdtemp()),
    datasets={"train": ray.data.from_numpy(np.arange(18, dtype=np.float32)).rename_columns({"data": "x"})},
).fit().metrics
assert found == {"rows": 18, "total": 153.0}, found
print("all rows once")
"""


def run_program(folder, source, *arguments):
    program = folder / "program.py"
    program.write_text(TRAINING_LOOP_SOURCE + source)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, program, *arguments],
        env={**environment, "PLUGRAD_BACKEND": "cpu"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@needs_ray
def test_workers_that_die_are_replaced_and_the_bits_are_the_same(tmp_path, pytestconfig):
    done = run_program(tmp_path, REPLACED_WORKER_SOURCE, str(pytestconfig.getoption("--tries")))
    assert "the same bits\n" in done.stdout, done.stderr[-3000:]


@needs_ray
def test_a_training_goes_on_with_fewer_workers_where_a_machine_has_gone(tmp_path):
    done = run_program(tmp_path, SHRUNK_CLUSTER_SOURCE)
    assert "the same weights\n" in done.stdout, done.stderr[-3000:]


@needs_ray
def test_datasets_of_ray_are_divided_among_the_workers(tmp_path):
    done = run_program(tmp_path, DATASET_PROGRAM_SOURCE)
    assert "all rows once\n" in done.stdout, done.stderr[-3000:]


def test_wrong_calls_and_a_missing_library_are_named(monkeypatch):
    with pytest.raises(ArgumentError, match="train_loop=3"):
        PlugradTrainer(3)
    monkeypatch.setitem(sys.modules, "ray.train", None)
    with pytest.raises(dist.CollectiveUnavailable, match=r'pip install "plugrad\[ray\]"'):
        PlugradTrainer(print)
