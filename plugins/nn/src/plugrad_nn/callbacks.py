"""Callbacks, which `fit` calls during a training: for saving, for logging, and a program's own."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_choice, check_flag
from plugrad_nn.parameters import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.optimizers import Optimizer
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import DistributedSteps


@dataclass
class Run:
    """A training in progress, which callbacks can inspect and stop."""

    params: Params
    """The parameters that are trained."""
    optimizer: Optimizer
    """The optimizer; its learning rate may be changed."""
    epochs: int
    """The number of the last epoch."""
    results: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """The results of the epochs that have ended."""
    is_stopped: bool = False
    """Whether this epoch is the last one; a callback sets it."""
    is_first: bool = True
    """Whether this is the first of several processes that train together, the one that writes files."""
    distributed: DistributedSteps | None = None
    """The optimizer interface of a training in several processes; None in a training in one."""

    def get_optimizer_state(self) -> dict[str, Any]:
        """Return the state of the optimizer for the parameters; all processes of a training call it."""
        return (self.distributed or self.optimizer).get_state(leaves(self.params))


class Callback:
    """Methods that `fit` calls. A subclass overrides the ones that it needs.

    >>> class Announce(nn.Callback):
    ...     def on_epoch_end(self, run, epoch, results):
    ...         print(f"epoch {epoch} of {run.epochs}")
    >>> x, model = plugrad.ones((4, 3)), nn.Dense(1)
    >>> _ = nn.fit(
    ...     model,
    ...     model.init(0, (3,)),
    ...     x,
    ...     plugrad.ones((4, 1)),
    ...     loss=plugrad.losses.mean_squared_error,
    ...     optimizer=plugrad.optimizers.SGD(0.1),
    ...     epochs=2,
    ...     callbacks=[Announce()],
    ... )
    epoch 1 of 2
    epoch 2 of 2
    """

    only_in_first_process: ClassVar[bool] = False
    """Whether only the first of several processes that train together calls the methods, such as to log.

    Such a callback must not set ``run.is_stopped``, because the other processes would wait for the first one.
    """

    def on_train_begin(self, run: Run) -> None:
        """Called before the first epoch."""

    def on_epoch_begin(self, run: Run, epoch: int) -> None:
        """Called before each epoch; the first has the number 1."""

    def on_batch_end(self, run: Run, step: int, loss: plugrad.Tensor) -> None:
        """Called after each step; the first of an epoch has the number 1. Reading the loss waits for it."""

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Called after each epoch, with its results by name."""

    def on_train_end(self, run: Run) -> None:
        """Called after the last epoch."""


class Checkpoint(Callback):
    """Save the parameters and the optimizer state after each epoch, or after each new best one.

    In a training in several processes, the first one writes the file.

    >>> nn.Checkpoint("run.safetensors", monitor="val_loss").monitor
    'val_loss'

    `plugrad.load` returns what `plugrad.save` was given: the parameters and the state, as in ``params, state``.

    Args:
        path: the file, in which ``{epoch}`` becomes the number of the epoch.
        monitor: the name of the result that decides which epoch is the best; None saves each.
        mode: whether smaller results are better, "min", or larger ones, "max".
        save_optimizer: whether the state of the optimizer is saved, too.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above; in training, there is no such result.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        monitor: str | None = None,
        mode: str = "min",
        save_optimizer: bool = True,
    ) -> None:
        """Check and store the arguments."""
        check_choice("Checkpoint", "mode", mode, ("min", "max"))
        self.path = os.fspath(path)
        self.monitor = monitor
        self.mode = mode
        self.save_optimizer = check_flag("Checkpoint", "save_optimizer", save_optimizer)
        self.best = math.inf

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Save the epoch's files if the epoch is due or the best so far."""
        if self.monitor is not None:
            value = read_result("Checkpoint", self.monitor, results)
            value = value if self.mode == "min" else -value
            if not value < self.best:
                return
            self.best = value
        tree = (run.params, run.get_optimizer_state()) if self.save_optimizer else run.params
        if run.is_first:
            plugrad.save(self.path.replace("{epoch}", str(epoch)), tree)


class CSVLogger(Callback):
    """Write the results of each epoch to a CSV file with a header.

    >>> logger = nn.CSVLogger("results.csv")

    Args:
        path: the file; what it contains is replaced.
    """

    only_in_first_process = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Store the path."""
        self.path = Path(path)

    def on_train_begin(self, run: Run) -> None:
        """Start with an empty file."""
        self.path.write_text("", encoding="utf-8")

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Append a line; before the first one, also the header."""
        row = {"epoch": epoch, **results}
        is_first = not self.path.stat().st_size
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if is_first:
                writer.writeheader()
            writer.writerow(row)


def read_result(owner: str, result_name: str, results: Mapping[str, Any]) -> float:
    """Return a result by name for a callback (the owner), or raise with the known names.

    Raises:
        ArgumentError: there is none.
    """
    if result_name not in results:
        raise ArgumentError(
            f"{owner}: monitor={result_name!r} is not among the results, which are {', '.join(results)}"
        )
    return float(results[result_name])
