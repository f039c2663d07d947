"""Optimizers: how variables move against their gradients. Their namespace is `plugrad.optimizers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError
from plugrad.ops.creation import zeros_like
from plugrad.ops.unary import sqrt
from plugrad.tensor import Tensor
from plugrad.transforms import variable_grads
from plugrad.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Optimizer(ABC):
    """Moves variables against their gradients; keeps its state by variable, so the set of variables may change."""

    def __init__(self, learning_rate: float) -> None:
        """Check and keep the learning rate, which may be changed at any time."""
        if not learning_rate >= 0:
            raise ArgumentValueError(
                f"{type(self).__name__}: learning_rate={learning_rate} must be 0 or more"
            )
        self.learning_rate = learning_rate
        self.iterations = 0
        """The number of steps taken."""
        self._slots: dict[Variable, dict[str, Tensor]] = {}

    def minimize(self, function: Callable[[], Tensor], variables: Sequence[Variable]) -> Tensor:
        """Take one step and return the value before it.

        >>> w = plugrad.Variable([1.0])
        >>> plugrad.optimizers.SGD(0.1).minimize(lambda: plugrad.sum(w * w), [w])
        tensor(1., dtype=float32)
        >>> w.item()
        0.800000011920929
        """
        value, gradients = variable_grads(function, variables)
        self.apply_gradients(zip(variables, gradients, strict=True))
        return value

    def apply_gradients(self, pairs: Iterable[tuple[Variable, Tensor]]) -> None:
        """Move each variable by its gradient.

        Raises:
            ArgumentError: a pair is not a variable and a tensor.
            ShapeError: a gradient has not its variable's shape.
        """
        pairs = list(pairs)
        for variable, gradient in pairs:
            if not isinstance(variable, Variable) or not isinstance(gradient, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
                raise ArgumentError(
                    "apply_gradients: expected are pairs of a Variable and a Tensor"
                )
            if gradient.shape != variable.shape:
                raise ShapeError(
                    f"apply_gradients: variable {variable.name!r} has shape {variable.shape}, "
                    f"its gradient {gradient.shape}"
                )
        self.iterations += 1
        for variable, gradient in pairs:
            variable.assign(self._moved(variable, gradient))

    @abstractmethod
    def _moved(self, variable: Variable, gradient: Tensor) -> Tensor:
        """Return the new value of a variable."""

    def _slot(self, variable: Variable, name: str) -> Tensor:
        """Return a piece of state of a variable, zeros at first."""
        slots = self._slots.setdefault(variable, {})
        return slots[name] if name in slots else zeros_like(variable)

    def _keep(self, variable: Variable, name: str, value: Tensor) -> Tensor:
        self._slots.setdefault(variable, {})[name] = value
        return value


class SGD(Optimizer):
    """Stochastic gradient descent: ``v -= learning_rate * g``.

    >>> plugrad.optimizers.SGD(0.1).learning_rate
    0.1
    """

    def _moved(self, variable: Variable, gradient: Tensor) -> Tensor:
        return variable - gradient * self.learning_rate


class Momentum(Optimizer):
    """Gradient descent with momentum: ``a = momentum * a + g; v -= learning_rate * a``.

    With ``nesterov=True``, ``v -= learning_rate * (g + momentum * a)`` (Sutskever et al., 2013).

    >>> plugrad.optimizers.Momentum(0.1, momentum=0.9).momentum
    0.9
    """

    def __init__(
        self, learning_rate: float, momentum: float = 0.9, *, nesterov: bool = False
    ) -> None:
        """Check and keep the coefficients, which may be changed at any time."""
        super().__init__(learning_rate)
        self.momentum = momentum
        self.nesterov = nesterov

    def _moved(self, variable: Variable, gradient: Tensor) -> Tensor:
        a = self._keep(
            variable, "momentum", self._slot(variable, "momentum") * self.momentum + gradient
        )
        step = gradient + a * self.momentum if self.nesterov else a
        return variable - step * self.learning_rate


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2014): ``v -= learning_rate * m / (sqrt(s) + epsilon)``, both without bias.

    m and s are the moving averages of the gradient and of its square.

    >>> plugrad.optimizers.Adam().learning_rate
    0.001
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate)
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise ArgumentValueError(f"Adam: beta1={beta1} and beta2={beta2} must be in [0, 1)")
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self._counts: dict[Variable, int] = {}

    def _moved(self, variable: Variable, gradient: Tensor) -> Tensor:
        m = self._keep(
            variable, "m", self._slot(variable, "m") * self.beta1 + gradient * (1 - self.beta1)
        )
        s = self._keep(
            variable,
            "s",
            self._slot(variable, "s") * self.beta2 + gradient * gradient * (1 - self.beta2),
        )
        steps = self._steps(variable)
        # Both corrections fold into two numbers, so that a step makes no more tensors than the
        # formula has operations.
        rate = self.learning_rate / (1 - self.beta1**steps)
        scale = (1 - self.beta2**steps) ** -0.5
        return variable - m * rate / (sqrt(s) * scale + self.epsilon)

    def _steps(self, variable: Variable) -> int:
        """Return how often this variable has moved, which may be less often than the optimizer stepped."""
        self._counts[variable] = self._counts.get(variable, 0) + 1
        return self._counts[variable]
