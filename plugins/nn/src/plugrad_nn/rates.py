"""Callbacks that change the learning rate; `plugrad_nn.schedules` change it in each step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_choice, check_function, check_integer, check_number
from plugrad_nn.callbacks import Callback, read_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_nn.callbacks import Run


class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch.

    >>> halve = nn.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch > 10 else rate)

    Args:
        schedule: a function of the number of the epoch, which is 1 for the first, and of the present learning rate
            that returns the learning rate of the epoch.

    Raises:
        ArgumentError: it is not a function.
    """

    def __init__(self, schedule: Callable[[int, float], float]) -> None:
        """Check and store the function."""
        check_function("LearningRateScheduler", "schedule", schedule)
        self.schedule = schedule

    def on_epoch_begin(self, run: Run, epoch: int) -> None:
        """Set the optimizer's learning rate for the epoch."""
        run.optimizer.learning_rate = self.schedule(epoch, run.optimizer.rate)


class ReduceLROnPlateau(Callback):
    """Multiply the learning rate by `factor` after `patience` epochs in which a result has not improved.

    Name, arguments and defaults are those of Keras.

    >>> nn.ReduceLROnPlateau("loss", patience=3).factor
    0.1

    Args:
        monitor: the name of the result.
        factor: a number of 0 or more and less than 1.
        patience: the number of epochs without improvement after which the learning rate is reduced.
        mode: whether smaller results are better, "min", or larger ones, "max".
        min_delta: how much better a result must be to count as an improvement.
        cooldown: the number of epochs after a reduction in which none is counted.
        min_lr: the least learning rate.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above; in training, there is no such result, or
            the learning rate of the optimizer is a schedule.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        *,
        mode: str = "min",
        min_delta: float = 0.0001,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        """Check and store the arguments."""
        name = "ReduceLROnPlateau"
        self.monitor = monitor
        self.factor = check_number(name, "factor", factor, least=0, below=1)
        self.patience = check_integer(name, "patience", patience)
        check_choice(name, "mode", mode, ("min", "max"))
        self.mode = mode
        self.min_delta = check_number(name, "min_delta", min_delta, least=0)
        self.cooldown = check_integer(name, "cooldown", cooldown)
        self.min_lr = check_number(name, "min_lr", min_lr, least=0)
        self._reset_history()

    def _reset_history(self) -> None:
        self._best, self._waited, self._cooling = math.inf, 0, 0

    def on_train_begin(self, run: Run) -> None:
        """Forget the results of earlier trainings."""
        self._reset_history()
        if callable(run.optimizer.learning_rate):
            raise ArgumentError(
                f"ReduceLROnPlateau: the learning rate is the schedule {run.optimizer.learning_rate!r:.80}; give the "
                "optimizer a number, which can be reduced"
            )

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Reduce the learning rate if the result has not improved for long enough."""
        value = read_result("ReduceLROnPlateau", self.monitor, results)
        value *= 1 if self.mode == "min" else -1
        if self._cooling > 0:
            self._cooling -= 1
            self._waited = 0
        if value < self._best - self.min_delta:
            self._best, self._waited = value, 0
        elif self._cooling == 0:
            self._waited += 1
            if self._waited >= self.patience and run.optimizer.rate > self.min_lr:
                run.optimizer.learning_rate = max(run.optimizer.rate * self.factor, self.min_lr)
                self._cooling, self._waited = self.cooldown, 0
