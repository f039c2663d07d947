"""Steps that take the gradients of several batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plugrad
from plugrad.extend import HALVES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from plugrad import Tensor, Variable
    from plugrad.optimizers import Optimizer


class AccumulatingOptimizer:
    """An optimizer whose step uses the mean gradient over the examples of several batches.

    Sums and counts are variables, so that traced steps add to them. Those of halves are float32, as are products with
    a count.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        """Begin without gradients."""
        self.optimizer = optimizer
        self._sums: dict[Variable, Variable] = {}
        self._count = plugrad.Variable(0.0, trainable=False, name="accumulated")

    @property
    def iterations(self) -> int:
        """The number of steps taken."""
        return self.optimizer.iterations

    def accumulate(
        self, function: Callable[[], Tensor], variables: Collection[Variable], examples: Tensor
    ) -> Tensor:
        """Add the gradients of a batch to the next step, and return the value of the function.

        Args:
            function: the mean over the examples of a batch.
            variables: the variables to move.
            examples: a 0-d tensor: how many examples count.
        """
        value, pairs = self._accumulate_gradients(function, variables, examples)
        for variable, total in pairs:
            self._sums[variable].assign(total)
        self._count.assign(self._count + examples)
        return value

    def minimize(
        self, function: Callable[[], Tensor], variables: Collection[Variable], examples: Tensor
    ) -> Tensor:
        """Take a step with this batch's and the accumulated gradients; arguments are as for `accumulate`."""
        value, pairs = self._accumulate_gradients(function, variables, examples)
        count = self._count + examples
        self.optimizer.apply_gradients(
            (v, plugrad.div_no_nan(total, count.astype(total.dtype)).astype(v.dtype))
            for v, total in pairs
        )
        for variable, total in pairs:
            self._sums[variable].assign(plugrad.zeros_like(total))
        self._count.assign(plugrad.zeros_like(count))
        return value

    def _accumulate_gradients(
        self, function: Callable[[], Tensor], variables: Collection[Variable], examples: Tensor
    ) -> tuple[Tensor, list[tuple[Variable, Tensor]]]:
        """Return the value of a function, and pairs of each trainable variable with its accumulated gradient."""
        trained = [v for v in variables if v.trainable]
        value, gradients = plugrad.variable_grads(function, trained)
        pairs: list[tuple[Variable, Tensor]] = []
        for variable, gradient in zip(trained, gradients, strict=True):
            total = self._get_gradient_sum(variable)
            own = gradient.astype(total.dtype) * examples.astype(total.dtype)
            pairs.append((variable, total + own))
        return value, pairs

    def _get_gradient_sum(self, variable: Variable) -> Variable:
        found = self._sums.get(variable)
        if found is None:
            dtype = plugrad.float32 if variable.dtype in HALVES else variable.dtype
            zeros = plugrad.zeros(variable.shape, dtype=dtype, device=variable.backend)
            found = plugrad.Variable(zeros, trainable=False, name=f"{variable.name}.accumulated")
            self._sums[variable] = found
        return found
