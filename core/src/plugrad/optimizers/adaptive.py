"""Optimizers that adapt the step of each element to its past gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import optimizers
from plugrad.ops.attributes import check_flag
from plugrad.ops.creation import full
from plugrad.ops.optimizers import choose_step_dtype
from plugrad.optimizers.optimizer import Optimizer

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.ops.optimizers import UpdateStep
    from plugrad.optimizers.optimizer import LearningRate
    from plugrad.tensor.tensor import Tensor
    from plugrad.transforms.variable import Variable


class Adagrad(Optimizer):
    """Adaptive gradients (Duchi et al., 2011): ``a += g**2; v -= lr * g / (sqrt(a) + epsilon)``.

    >>> plugrad.optimizers.Adagrad(0.1).initial_accumulator_value
    0.1

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        initial_accumulator_value: the first value of a.
        epsilon: a small number that keeps the divisor above 0.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-10,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate)
        self._check_coefficients(
            initial_accumulator_value=initial_accumulator_value, epsilon=epsilon, lower_bound=0
        )
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def _slot_names(self) -> tuple[str, ...]:
        return ("accumulator",)

    def _initial_slot(self, variable: Variable, slot_name: str) -> Tensor:
        """Return the initial sum of squares."""
        value, dtype = self.initial_accumulator_value, choose_step_dtype(variable.dtype)
        return full(variable.shape, value, dtype=dtype, device=variable.backend)

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step."""
        return optimizers.adagrad

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return learning_rate, self.epsilon


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012), whose steps have the unit of the variable.

    ``s = rho * s + (1 - rho) * g**2; d = sqrt(u + epsilon) / sqrt(s + epsilon) * g;
    u = rho * u + (1 - rho) * d**2; v -= lr * d``.

    >>> plugrad.optimizers.Adadelta().rho
    0.95

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        rho: the fraction of s and u that remains in each step.
        epsilon: a small number that keeps both roots above 0.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative, or `rho` is not less than 1.
    """

    def __init__(
        self, learning_rate: LearningRate = 0.001, rho: float = 0.95, epsilon: float = 1e-6
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate)
        self._check_coefficients(rho=rho, lower_bound=0, upper_bound=1)
        self._check_coefficients(epsilon=epsilon, lower_bound=0)
        self.rho = rho
        self.epsilon = epsilon

    def _slot_names(self) -> tuple[str, ...]:
        return ("s", "u")

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step."""
        return optimizers.adadelta

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return learning_rate, self.rho, 1 - self.rho, self.epsilon


class RMSProp(Optimizer):
    """RMSProp (Tieleman and Hinton, 2012), which divides by the root of the mean square gradient.

    ``s = decay * s + (1 - decay) * g**2; a = momentum * a + g / (sqrt(s) + epsilon); v -= lr * a``.
    With ``centered=True`` the square of the mean gradient is subtracted from s before the root is
    taken (Graves, 2013).

    >>> plugrad.optimizers.RMSProp(0.01, centered=True).decay
    0.9

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        decay: the fraction of s, and of the mean gradient, that remains in each step.
        momentum: the fraction of a that remains in each step.
        epsilon: a small number that keeps the divisor above 0.
        centered: whether to divide by the standard deviation of the gradient instead.

    Raises:
        ArgumentError: a coefficient is not a number, or `centered` not a bool.
        ArgumentValueError: a coefficient is negative, or `decay` is not less than 1.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        *,
        centered: bool = False,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate)
        self._check_coefficients(decay=decay, lower_bound=0, upper_bound=1)
        self._check_coefficients(momentum=momentum, epsilon=epsilon, lower_bound=0)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered: bool = check_flag(centered, "RMSProp", "centered")

    def _slot_names(self) -> tuple[str, ...]:
        return ("s", "momentum", "mean") if self.centered else ("s", "momentum")

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step, centered or not."""
        return optimizers.centered_rmsprop if self.centered else optimizers.rmsprop

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return learning_rate, self.decay, 1 - self.decay, self.momentum, self.epsilon


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2014): ``v -= lr * m / (sqrt(s) + epsilon)``.

    m and s are the moving averages of the gradient and of its square, corrected for the bias of a
    start at 0.

    >>> plugrad.optimizers.Adam().learning_rate
    0.001

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        beta1: the fraction of m that remains in each step.
        beta2: the fraction of s that remains in each step.
        epsilon: a small number that keeps the divisor above 0.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative, or `beta1` or `beta2` is not less than 1.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate)
        self._check_coefficients(beta1=beta1, beta2=beta2, lower_bound=0, upper_bound=1)
        self._check_coefficients(epsilon=epsilon, lower_bound=0)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    @property
    def _decay_factor(self) -> float:
        """The fraction of the variable, times the learning rate, to subtract in each step."""
        return 0

    def _slot_names(self) -> tuple[str, ...]:
        return "m", "s"

    @property
    def _update_rule(self) -> UpdateStep:
        """Return the kernel that computes a step."""
        return optimizers.adam

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        # Two numbers hold the corrections of the bias, so that a step takes no more operations than
        # the formula has: m / (sqrt(s) / root + epsilon) is root m / (sqrt(s) + epsilon root).
        root = (1 - self.beta2**step_number) ** 0.5
        return (
            learning_rate * root / (1 - self.beta1**step_number),
            1 - learning_rate * self._decay_factor,
            *(self.beta1, 1 - self.beta1),
            *(self.beta2, 1 - self.beta2),
            self.epsilon * root,
        )


class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019): also ``v -= lr * weight_decay * v``.

    >>> plugrad.optimizers.AdamW().weight_decay
    0.01

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        beta1: as for `Adam`.
        beta2: as for `Adam`.
        epsilon: as for `Adam`.
        weight_decay: the fraction of the variable, times the learning rate, to subtract in each step.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative, or `beta1` or `beta2` is not less than 1.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate, beta1, beta2, epsilon)
        self._check_coefficients(weight_decay=weight_decay, lower_bound=0)
        self.weight_decay = weight_decay

    @property
    def _decay_factor(self) -> float:
        """The weight decay."""
        return self.weight_decay


class Adamax(Adam):
    """`Adam` with the infinity norm (Kingma and Ba, 2014): ``u = max(beta2 * u, |g| + epsilon); v -= lr * m / u``.

    m is the moving average of the gradient, corrected for the bias of a start at 0.

    >>> plugrad.optimizers.Adamax().learning_rate
    0.002

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        beta1: the fraction of m that remains in each step.
        beta2: the factor by which u decays in each step.
        epsilon: a small number that keeps u above 0.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative, or `beta1` or `beta2` is not less than 1.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate, beta1, beta2, epsilon)

    def _slot_names(self) -> tuple[str, ...]:
        return "m", "u"

    @property
    def _update_rule(self) -> Kernel[..., list[Tensor]]:
        """Return the kernel that computes a step."""
        return optimizers.adamax

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        corrected = learning_rate / (1 - self.beta1**step_number)
        return corrected, self.beta1, 1 - self.beta1, self.beta2, self.epsilon
