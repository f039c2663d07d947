"""Ray Train above the collectives: it places the ranks, gives them data, and replaces those that die."""

from __future__ import annotations

import os
import runpy
import socket
import sys
import uuid
from argparse import ArgumentParser
from importlib import import_module
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError
from plugrad_distributed.errors import CollectiveUnavailable
from plugrad_distributed.startup import abandon_world, close, current_world, init

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CHECKPOINT_FILE_NAME: Final = "run.safetensors"
"""The name of the file in a checkpoint."""


class PlugradTrainer:
    """A training that Ray distributes over its cluster and restarts from the last checkpoint.

    Ray's workers are the ranks of a world, which gloo connects: in `train_loop`, `dist.init` has been called. When a
    worker dies, Ray ends the others and starts all again, as many as before or as `scaling_config` allows and there is
    room for; `restore` then returns what `report` has written last. Each start is an attempt of its own, which every
    exchange names, so that nothing of an earlier one is added up.

    Args:
        train_loop: the function that each worker runs, with `train_loop_config` if it takes an argument.
        scaling_config: a ``ray.train.ScalingConfig``: how many workers, with what; a pair of numbers lets Ray choose.
        run_config: a ``ray.train.RunConfig``: where checkpoints are, and how often a failed training starts again.
        datasets: datasets of ``ray.data`` by name, which `iter_batches` reads.
        train_loop_config: the argument of `train_loop`.
        collective: the collective that connects the workers.

    Raises:
        CollectiveUnavailable: Ray is not installed.
        ArgumentError: `train_loop` is not a function.
    """

    def __init__(
        self,
        train_loop: Callable[..., Any],
        scaling_config: Any = None,
        *,
        run_config: Any = None,
        datasets: Mapping[str, Any] | None = None,
        train_loop_config: Mapping[str, Any] | None = None,
        collective: str = "gloo",
    ) -> None:
        """Prepare the training."""
        if not callable(train_loop):
            raise ArgumentError(f"PlugradTrainer: train_loop={train_loop!r:.80} must be a function")
        _import_train()
        trainer = import_module("ray.train.v2.api.data_parallel_trainer").DataParallelTrainer

        def run(config: Any) -> None:
            _join_world(collective)
            try:
                train_loop(config) if signature(train_loop).parameters else train_loop()
            except BaseException:
                abandon_world()  # the others notice that the connection has ended, and Ray starts all again
                raise
            close()

        self._trainer: Any = trainer(
            run,
            train_loop_config=dict(train_loop_config or {}),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=None if datasets is None else dict(datasets),
        )

    def fit(self) -> Any:
        """Run the training, and return Ray's result with the last checkpoint and its metrics.

        Raises:
            ray.train.TrainingFailedError: it has failed more often than `run_config` allows.
        """
        return self._trainer.fit()


def run_program(config: Mapping[str, Any]) -> None:
    """Run the program whose path and arguments are in the configuration of a training."""
    sys.argv = [config["program"], *config["arguments"]]
    runpy.run_path(config["program"], run_name="__main__")


def main() -> None:
    """Run a program in Ray workers: ``python -m plugrad_distributed.ray -n 4 program.py``."""
    parser = ArgumentParser("python -m plugrad_distributed.ray", description=main.__doc__)
    parser.add_argument("-n", type=int, default=2, metavar="WORKERS", help="the number of workers")
    parser.add_argument("--failures", type=int, default=0, help="how often to start again")
    parser.add_argument("program", help="the program, at the same path on all machines")
    parser.add_argument("arguments", nargs="*", help="its arguments")
    given = parser.parse_args()
    train = _import_train()
    PlugradTrainer(
        run_program,
        train.ScalingConfig(num_workers=given.n),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=given.failures)),
        train_loop_config={
            "program": str(Path(given.program).resolve()),
            "arguments": given.arguments,
        },
    ).fit()


def report(metrics: Mapping[str, Any], tree: Any = None) -> None:
    """Report metrics to Ray, and on rank 0 write a checkpoint by `plugrad.save`; all ranks call it.

    Ray's result has the metrics of the last checkpoint; those without one are for its logs and callbacks.

    Args:
        metrics: numbers by name.
        tree: what `restore` returns after a failure, as `plugrad.save` takes it; None for no checkpoint.
    """
    train = _import_train()
    with TemporaryDirectory() as folder:
        checkpoint = None
        if tree is not None and current_world("report").rank == 0:
            plugrad.save(Path(folder) / CHECKPOINT_FILE_NAME, tree)
            checkpoint = train.Checkpoint.from_directory(folder)
        train.report(dict(metrics), checkpoint=checkpoint)


def restore() -> Any:
    """Return the tree of the last `report`, or None if there is no checkpoint."""
    checkpoint = _import_train().get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return plugrad.load(Path(folder) / CHECKPOINT_FILE_NAME)


def iter_batches(name: str = "train", *, size: int) -> Iterator[dict[str, plugrad.Tensor]]:
    """Yield this rank's batches of a ``ray.data`` dataset, as tensors by column name.

    Args:
        name: the name of the dataset.
        size: the number of examples of this rank in a batch; how many there are is noted, as `dist.shard` does.
    """
    shard = _import_train().get_dataset_shard(name)
    world = current_world("iter_batches")
    outer = world.examples
    try:
        for batch in shard.iter_batches(batch_size=size, batch_format="numpy"):
            world.examples = len(next(iter(batch.values())))
            yield {column: plugrad.asarray(values) for column, values in batch.items()}
    finally:
        world.examples = outer


def _import_train() -> Any:
    """Return ``ray.train``.

    Raises:
        CollectiveUnavailable: it is not installed.
    """
    try:
        return import_module("ray.train")
    except ImportError as error:
        raise CollectiveUnavailable(
            f'ray: Ray Train cannot be imported ({error}); pip install "plugrad[ray]"'
        ) from error


def _join_world(collective: str) -> None:
    """Join the world of this attempt's workers, whose address rank 0 publishes."""
    train = _import_train()
    exchange = import_module("ray.train.collective")
    context = train.get_context()
    place: dict[str, str] | None = None
    if context.get_world_rank() == 0:
        address = import_module("ray.util").get_node_ip_address()
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        place = {"address": address, "port": str(port), "attempt": uuid.uuid4().hex}
    place = exchange.broadcast_from_rank_zero(place)
    assert place is not None
    os.environ |= {
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()),
        "MASTER_ADDR": place["address"],
        "MASTER_PORT": place["port"],
    }
    init(collective, attempt=place["attempt"])


if __name__ == "__main__":
    main()
