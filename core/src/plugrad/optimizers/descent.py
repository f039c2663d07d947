"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import optimizers
from plugrad.ops.attributes import check_flag
from plugrad.optimizers.optimizer import Optimizer

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.optimizers.optimizer import LearningRate
    from plugrad.tensor.tensor import Tensor


class SGD(Optimizer):
    """Stochastic gradient descent: ``v -= lr * g`` (Robbins and Monro, 1951).

    >>> plugrad.optimizers.SGD(0.1).learning_rate
    0.1

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.

    Raises:
        ArgumentError: the learning rate is not a number.
        ArgumentValueError: the learning rate is negative.
    """

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step."""
        return optimizers.gradient_descent

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return (learning_rate,)


class Momentum(Optimizer):
    """Gradient descent with momentum: ``a = momentum * a + g; v -= lr * a`` (Polyak, 1964).

    With ``nesterov=True``, ``v -= lr * (g + momentum * a)`` (Sutskever et al., 2013).

    >>> plugrad.optimizers.Momentum(0.1, momentum=0.9).momentum
    0.9

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        momentum: the fraction of a that remains in each step.
        nesterov: whether to use Nesterov's momentum.

    Raises:
        ArgumentError: a coefficient is not a number, or `nesterov` not a bool.
        ArgumentValueError: a coefficient is negative.
    """

    def __init__(
        self, learning_rate: LearningRate, momentum: float = 0.9, *, nesterov: bool = False
    ) -> None:
        """Check and store the coefficients, which may be changed at any time."""
        super().__init__(learning_rate)
        self._check_coefficients(momentum=momentum, lower_bound=0)
        self.momentum = momentum
        self.nesterov: bool = check_flag(nesterov, "Momentum", "nesterov")

    def _slot_names(self) -> tuple[str, ...]:
        return ("momentum",)

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step."""
        return optimizers.momentum

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return learning_rate, self.momentum, float(self.nesterov)
