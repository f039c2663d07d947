"""The matrix that the tests check a part of: 40 steps in worlds of 1 to 4, on each backend and on several at once.

    cd tests && python -m plugins.distributed.matrix mpi [SIZE ...]
    cd tests && python -m plugins.distributed.matrix ray [SIZE ...]

Batches do not divide, and batch normalization and dropout take part, untraced and traced. Each line has the largest
relative difference of losses and of weights from one process on the same backend, and whether all replicas have
the same bits.
"""

import json
import os
import sys
from tempfile import mkdtemp

import numpy as np

from plugins.distributed.scenarios import STEP_COUNT
from plugins.distributed.test_worlds import BACKENDS, parse_results, start_scenarios


def main(launcher, sizes):
    run = {"mpi": run_by_mpi, "ray": run_by_ray}[launcher]
    alone = run(1)
    failures = 0
    for size in sizes:
        for name, found in run(size).items():
            expected = alone[name if name in alone else "cpu"]
            losses, weights = (
                largest_difference(found[k], expected[k]) for k in ("losses", "weights")
            )
            is_right = found["equal"] and losses <= 1e-6 and weights <= 1e-6
            failures += not is_right
            print(
                f"{launcher}  {size} ranks  {name:14}  {len(found['losses'])} steps  losses {losses:.1e}  weights "
                f"{weights:.1e}  replicas {'equal' if found['equal'] else 'DIFFER'}{'' if is_right else '  <--'}",
                flush=True,
            )
    return failures


def run_by_mpi(size):
    """Return the results of an MPI world for each backend, and for ranks on different backends."""
    names = ["train_on_backends", "train_on_mixed_backends"] if size > 1 else ["train_on_backends"]
    done, _ = start_scenarios(
        size, *names, backends=",".join(BACKENDS), timeout=600, DISTRIBUTED_STEPS=str(STEP_COUNT)
    )
    return merge_results(parse_results(done.stdout + done.stderr))


def run_by_ray(size):
    """Return the results of Ray Train workers for each backend, and for ranks on different backends."""
    import ray
    from ray import train

    from plugrad_distributed.ray import PlugradTrainer

    if not ray.is_initialized():
        variables = {
            "PYTHONPATH": os.getcwd(),
            "DISTRIBUTED_BACKENDS": ",".join(BACKENDS),
            "DISTRIBUTED_STEPS": str(STEP_COUNT),
            "OPENBLAS_NUM_THREADS": "1",
        }
        ray.init(
            "local",
            num_cpus=5,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100_000_000,
            runtime_env={"env_vars": variables},
        )
    folder = mkdtemp()
    configuration = train.RunConfig(storage_path=folder)
    scaling = train.ScalingConfig(num_workers=size)
    PlugradTrainer(
        run_worker, scaling, run_config=configuration, train_loop_config={"folder": folder}
    ).fit()
    with open(f"{folder}/found.json") as file:
        return merge_results(json.load(file))


def run_worker(config):
    import plugrad_distributed as dist
    from plugins.distributed import scenarios

    world = dist.world()
    found = {"train_on_backends": scenarios.train_on_backends(world)}
    if world.size > 1:
        found["train_on_mixed_backends"] = scenarios.train_on_mixed_backends(world)
    if world.rank == 0:
        with open(f"{config['folder']}/found.json", "w") as file:
            json.dump(found, file)


def merge_results(found):
    return found["train_on_backends"] | (
        {"train_on_mixed_backends": found["train_on_mixed_backends"]}
        if "train_on_mixed_backends" in found
        else {}
    )


def largest_difference(found, expected):
    """Return the largest difference, relative to the larger of the value and 1."""
    found, expected = np.array(found), np.array(expected)
    return float((np.abs(found - expected) / np.maximum(np.abs(expected), 1)).max())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], [int(size) for size in sys.argv[2:]] or [2, 3, 4]))
