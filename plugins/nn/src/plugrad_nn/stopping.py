"""Early stopping: the condition on which a training ends before its last epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import plugrad
from plugrad_nn.arguments import check_choice, check_flag, check_integer, check_number
from plugrad_nn.callbacks import read_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad_nn.parameters import Params


@dataclass(frozen=True)
class EarlyStopping:
    """The condition on which `fit` stops: no improvement of a result for `patience` epochs.

    >>> nn.EarlyStopping(patience=3).monitor
    'val_loss'

    Args:
        monitor: the name of the result: "loss", "val_loss", or ``"val_"`` and the name of a metric.
        min_delta: how much better a result must be to count as an improvement.
        patience: the number of epochs without improvement after which `fit` stops; with 0 it stops
            after the first.
        mode: whether smaller results are better, "min", or larger ones, "max".
        restore_best_weights: whether the parameters get the values of the best epoch at the end.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    monitor: str = "val_loss"
    min_delta: float = 0.0
    patience: int = 0
    mode: Literal["min", "max"] = "min"
    restore_best_weights: bool = False

    def __post_init__(self) -> None:
        check_number("EarlyStopping", "min_delta", self.min_delta, least=0)
        check_integer("EarlyStopping", "patience", self.patience)
        check_choice("EarlyStopping", "mode", self.mode, ("min", "max"))
        check_flag("EarlyStopping", "restore_best_weights", self.restore_best_weights)


class EarlyStoppingMonitor:
    """The history of the result that early stopping monitors."""

    def __init__(self, rule: EarlyStopping) -> None:
        self.rule = rule
        self.record = math.inf
        self.waited = 0
        self.best: Params | None = None

    def should_stop(self, results: Mapping[str, float], params: Params) -> bool:
        """Record the results of an epoch, and return whether to stop."""
        value = read_result("EarlyStopping", self.rule.monitor, results)
        value *= 1 if self.rule.mode == "min" else -1
        if value < self.record - self.rule.min_delta:
            self.record = value
            self.waited = 0
            if self.rule.restore_best_weights:
                self.best = _copy_values(params)
            return False
        self.waited += 1
        return self.waited >= self.rule.patience


def _copy_values(params: Mapping[str, Any]) -> Params:
    """Return copies of the current values of variables as tensors."""
    return {
        name: _copy_values(part) if isinstance(part, dict) else plugrad.asarray(part, copy=True)
        for name, part in params.items()
    }
