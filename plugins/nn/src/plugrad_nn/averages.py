"""Averages of parameters over the steps of a training."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_nn.arguments import check_number
from plugrad_nn.callbacks import Callback
from plugrad_nn.parameters import as_variables, assign, leaves, named_leaves

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from plugrad import Tensor, Variable
    from plugrad_nn.callbacks import Run
    from plugrad_nn.parameters import Params


class MovingAverage(Callback):
    """Exponential moving averages of parameters: ``average += (1 - decay) * (value - average)`` in each step.

    It is a callback of `fit`, and works in loops of your own, also traced ones, where `update` follows each step.

    >>> model = nn.Dense(1)
    >>> params = model.init(0, (3,))
    >>> average = nn.MovingAverage(params, decay=0.5)
    >>> params["bias"].assign([4.0])
    >>> average.update()
    >>> average.params["bias"].tolist()
    [2.0]
    >>> with average.applied():
    ...     params["bias"].tolist()
    [2.0]
    >>> params["bias"].tolist()
    [4.0]

    It begins with the present values, as torch's ``AveragedModel`` with ``get_ema_multi_avg_fn`` does in its first
    ``update_parameters``. What is not trained, such as the statistics of `BatchNorm`, is not averaged but copied.

    Args:
        params: what `init` returned.
        decay: the fraction of the average that remains in each step, from 0 up to but without 1.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    def __init__(self, params: Params, decay: float = 0.999) -> None:
        """Begin with the present values."""
        self.decay = check_number("MovingAverage", "decay", decay, least=0, below=1)
        self._variables: list[Variable] = leaves(params)
        self._params = params
        self.params: Params = _as_copies(params)
        """The averages, in the form of the parameters; `plugrad.save` and `assign` take them."""
        self._traced = plugrad.jit(self.update)
        self._iterations = 0

    def update(self) -> None:
        """Update the averages with the current values of the parameters."""
        pairs = zip(named_leaves(self.params), named_leaves(self._params), strict=True)
        for (_, average), (_, variable) in pairs:
            average.assign(_compute_next_average(average, variable, self.decay))

    @contextmanager
    def applied(self) -> Generator[None]:
        """Set the parameters to their averages within a block, and restore them after it."""
        own = [plugrad.asarray(variable, copy=True) for variable in self._variables]
        try:
            assign(self._params, self.params)
            yield
        finally:
            for variable, value in zip(self._variables, own, strict=True):
                variable.assign(value)

    def on_train_begin(self, run: Run) -> None:
        """Record how many steps were taken before."""
        self._iterations = run.optimizer.iterations

    def on_batch_end(self, run: Run, step: int, loss: Tensor) -> None:
        """Update the averages if a step was taken; a batch may only have accumulated gradients."""
        if run.optimizer.iterations != self._iterations:
            self._iterations = run.optimizer.iterations
            self._traced()


def _compute_next_average(average: Tensor, variable: Variable, decay: float) -> Tensor:
    """Return the average after another value."""
    is_averaged = variable.trainable and plugrad.isdtype(variable.dtype, "real floating")
    return average + (variable - average) * (1 - decay) if is_averaged else +variable


def _as_copies(params: Mapping[str, Any]) -> Params:
    """Return copies of parameters as variables that are not trainable."""
    return as_variables(
        {
            name: _as_copies(part)
            if isinstance(part, dict)
            else plugrad.Variable(plugrad.asarray(part, copy=True), trainable=False)
            for name, part in params.items()
        }
    )
