"""Optimizers that adapt the step of each element to its gradients."""

from plugrad.ops.binary import maximum
from plugrad.ops.creation import full
from plugrad.ops.unary import abs, sqrt, square
from plugrad.optimizers.optimizer import Optimizer, Rate, State
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.variable import Variable


def _averaged(average: Tensor, x: Tensor, decay: float) -> Tensor:
    return average * decay + x * (1 - decay)


class Adagrad(Optimizer):
    """Steps that shrink with all past gradients: ``a += g**2; v -= lr * g / (sqrt(a) + epsilon)`` (Duchi et al., 2011).

    >>> plugrad.optimizers.Adagrad(0.1).initial_accumulator_value
    0.1
    """

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-10,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate)
        self._check(initial_accumulator_value=initial_accumulator_value, epsilon=epsilon, least=0)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def _slots(self) -> tuple[str, ...]:
        return ("accumulator",)

    def _first(self, variable: Variable, name: str) -> Tensor:
        value = self.initial_accumulator_value
        return full(variable.shape, value, dtype=variable.dtype, device=variable.backend)

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        a = state["accumulator"] = state["accumulator"] + square(gradient)
        return gradient * rate / (sqrt(a) + self.epsilon)


class Adadelta(Optimizer):
    """Steps in the unit of the variable (Zeiler, 2012).

    ``s = rho * s + (1 - rho) * g**2; d = sqrt(u + epsilon) / sqrt(s + epsilon) * g;
    u = rho * u + (1 - rho) * d**2; v -= lr * d``.

    >>> plugrad.optimizers.Adadelta().rho
    0.95
    """

    def __init__(
        self, learning_rate: Rate = 0.001, rho: float = 0.95, epsilon: float = 1e-6
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate)
        self._check(rho=rho, least=0, below=1)
        self._check(epsilon=epsilon, least=0)
        self.rho = rho
        self.epsilon = epsilon

    def _slots(self) -> tuple[str, ...]:
        return ("s", "u")

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        s = state["s"] = _averaged(state["s"], square(gradient), self.rho)
        d = gradient * sqrt((state["u"] + self.epsilon) / (s + self.epsilon))
        state["u"] = _averaged(state["u"], square(d), self.rho)
        return d * rate


class RMSProp(Optimizer):
    """Steps divided by the root of the mean square gradient (Tieleman and Hinton, 2012).

    ``s = decay * s + (1 - decay) * g**2; a = momentum * a + g / (sqrt(s) + epsilon); v -= lr * a``.
    With ``centered=True`` the square of the mean gradient is taken from s first (Graves, 2013).

    >>> plugrad.optimizers.RMSProp(0.01, centered=True).decay
    0.9
    """

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        *,
        centered: bool = False,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate)
        self._check(decay=decay, least=0, below=1)
        self._check(momentum=momentum, epsilon=epsilon, least=0)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def _slots(self) -> tuple[str, ...]:
        return ("s", "momentum", "mean") if self.centered else ("s", "momentum")

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        s = state["s"] = _averaged(state["s"], square(gradient), self.decay)
        if self.centered:
            mean = state["mean"] = _averaged(state["mean"], gradient, self.decay)
            s = maximum(s - square(mean), 0)  # a variance, which rounding may take below 0
        a = state["momentum"] = state["momentum"] * self.momentum + gradient / (
            sqrt(s) + self.epsilon
        )
        return a * rate


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2014): ``v -= lr * m / (sqrt(s) + epsilon)``, both without bias.

    m and s are the moving averages of the gradient and of its square.

    >>> plugrad.optimizers.Adam().learning_rate
    0.001
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate)
        self._check(beta1=beta1, beta2=beta2, least=0, below=1)
        self._check(epsilon=epsilon, least=0)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _slots(self) -> tuple[str, ...]:
        return "m", "s"

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        m = state["m"] = _averaged(state["m"], gradient, self.beta1)
        s = state["s"] = _averaged(state["s"], gradient * gradient, self.beta2)
        # Both corrections fold into two numbers, so that a step makes no more tensors than the
        # formula has operations.
        rate /= 1 - self.beta1**state.steps
        scale = (1 - self.beta2**state.steps) ** -0.5
        return m * rate / (sqrt(s) * scale + self.epsilon)


class AdamW(Adam):
    """`Adam` with weight decay beside the gradient: ``v -= lr * weight_decay * v`` (Loshchilov and Hutter, 2019).

    >>> plugrad.optimizers.AdamW().weight_decay
    0.01
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate, beta1, beta2, epsilon)
        self._check(weight_decay=weight_decay, least=0)
        self.weight_decay = weight_decay

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        step = super()._step(variable, gradient, state, rate)
        return step + variable * (rate * self.weight_decay)


class Adamax(Adam):
    """Adam with the largest gradient (Kingma and Ba, 2014): ``u = max(beta2 * u, |g| + epsilon); v -= lr * m / u``.

    m is the moving average of the gradient without bias.

    >>> plugrad.optimizers.Adamax().learning_rate
    0.002
    """

    def __init__(
        self,
        learning_rate: Rate = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Check and keep the coefficients."""
        super().__init__(learning_rate, beta1, beta2, epsilon)

    def _slots(self) -> tuple[str, ...]:
        return "m", "u"

    def _step(self, variable: Variable, gradient: Tensor, state: State, rate: float) -> Tensor:
        m = state["m"] = _averaged(state["m"], gradient, self.beta1)
        u = state["u"] = maximum(state["u"] * self.beta2, abs(gradient) + self.epsilon)
        return m * (rate / (1 - self.beta1**state.steps)) / u
