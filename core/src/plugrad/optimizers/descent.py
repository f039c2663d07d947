"""Gradient descent, plain and with momentum."""

from plugrad.optimizers.optimizer import Optimizer, Rate, State
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.variable import Variable


class SGD(Optimizer):
    """Stochastic gradient descent: ``v -= lr * g``.

    >>> plugrad.optimizers.SGD(0.1).learning_rate
    0.1
    """

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        return gradient * rate


class Momentum(Optimizer):
    """Gradient descent with momentum: ``a = momentum * a + g; v -= lr * a``.

    With ``nesterov=True``, ``v -= lr * (g + momentum * a)`` (Sutskever et al., 2013).

    >>> plugrad.optimizers.Momentum(0.1, momentum=0.9).momentum
    0.9
    """

    def __init__(
        self, learning_rate: Rate, momentum: float = 0.9, *, nesterov: bool = False
    ) -> None:
        """Check and keep the coefficients, which may be changed at any time."""
        super().__init__(learning_rate)
        self._check(momentum=momentum, least=0)
        self.momentum = momentum
        self.nesterov = nesterov

    def _slots(self) -> tuple[str, ...]:
        return ("momentum",)

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        a = state["momentum"] = state["momentum"] * self.momentum + gradient
        return (gradient + a * self.momentum if self.nesterov else a) * rate
