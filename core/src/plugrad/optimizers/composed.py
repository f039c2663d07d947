"""Optimizers whose steps are composed of ops, which every backend has and `plugrad.jit` fuses."""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, Final

from plugrad.ops.optimizers import ComposedStep
from plugrad.ops.unary import sign, sqrt
from plugrad.optimizers.adaptive import Adam
from plugrad.optimizers.optimizer import Optimizer

if TYPE_CHECKING:
    from plugrad.optimizers.optimizer import LearningRate

MIN_RECTIFIED_LENGTH: Final = 5
"""The length of the average of squares above which its variance is finite and `RAdam` divides by it."""


def _step_by_moments(
    v: Any,
    g: Any,
    m: Any,
    s: Any,
    kept_fraction: Any,
    rate: Any,
    gradient_rate: Any,
    beta1: Any,
    one_minus_beta1: Any,
    beta2: Any,
    one_minus_beta2: Any,
    scale: Any,
    epsilon: Any,
) -> tuple[Any, ...]:
    """Return the variable v after a step with gradient g, and the averages m of gradients and s of their squares."""
    m = m * beta1 + g * one_minus_beta1
    s = s * beta2 + g * g * one_minus_beta2
    return v * kept_fraction - (m * rate + g * gradient_rate) / (sqrt(s) * scale + epsilon), m, s


def _step_by_signs(
    v: Any,
    g: Any,
    m: Any,
    rate: Any,
    kept_fraction: Any,
    beta1: Any,
    one_minus_beta1: Any,
    beta2: Any,
    one_minus_beta2: Any,
) -> tuple[Any, ...]:
    """Return the variable v after a step of equal size for all elements, and the average m of gradients g."""
    return v * kept_fraction - sign(
        m * beta1 + g * one_minus_beta1
    ) * rate, m * beta2 + g * one_minus_beta2


MOMENT_UPDATE_RULE: Final = ComposedStep(_step_by_moments, 9)
"""The step of `NAdam` and `RAdam`, composed of ops."""
SIGN_UPDATE_RULE: Final = ComposedStep(_step_by_signs, 6)
"""The step of `Lion`, composed of ops."""


class NAdam(Adam):
    """`Adam` with Nesterov's momentum (Dozat, 2016): ``v -= lr * (next * m + now * g) / (sqrt(s) + epsilon)``.

    m and s are the moving averages of the gradient and of its square. The weights of m and g correct for the bias
    of a start at 0, and the momentum grows towards `beta1`: in step t it is
    ``beta1 * (1 - 0.96**(t * momentum_decay) / 2)``.

    >>> plugrad.optimizers.NAdam().learning_rate
    0.002

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        beta1: the fraction of m that remains in each step.
        beta2: the fraction of s that remains in each step.
        epsilon: a small number that keeps the divisor above 0.
        momentum_decay: how fast the momentum grows.

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
        momentum_decay: float = 0.004,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate, beta1, beta2, epsilon)
        self._check_coefficients(momentum_decay=momentum_decay, lower_bound=0)
        self.momentum_decay = momentum_decay
        self._products: list[float] = []
        self._multiplied: tuple[float, float] | None = None

    @property
    def _update_rule(self) -> ComposedStep:
        """Return the function of ops that computes a step."""
        return MOMENT_UPDATE_RULE

    def _momentum(self, step_number: int) -> float:
        """Return the momentum of a step, which approaches beta1."""
        return self.beta1 * (1 - 0.5 * 0.96 ** (step_number * self.momentum_decay))

    def _momentum_product(self, step_count: int) -> float:
        """Return the product of the momenta of the first `step_count` steps; earlier products are cached."""
        key = self.beta1, self.momentum_decay
        if self._multiplied != key:
            self._multiplied, self._products = key, [1.0]
        known = self._products
        more = range(len(known), step_count + 1)
        known += list(accumulate(map(self._momentum, more), mul, initial=known[-1]))[1:]
        return known[step_count]

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        product = self._momentum_product(step_number)
        following = self._momentum(step_number + 1)
        return (
            1.0,
            learning_rate * following / (1 - product * following),
            learning_rate * (1 - self._momentum(step_number)) / (1 - product),
            *(self.beta1, 1 - self.beta1),
            *(self.beta2, 1 - self.beta2),
            (1 - self.beta2**step_number) ** -0.5,
            self.epsilon,
        )


class RAdam(Adam):
    """`Adam` whose divisor is left out in the first steps and rectified later (Liu et al., 2020).

    The average s of squares is long enough to divide by when ``length = L - 2 * t * beta2**t / (1 - beta2**t)``, with
    ``L = 2 / (1 - beta2) - 1``, is more than 5. Before, a step is ``v -= lr * m``; then it is
    ``v -= lr * r * m / (sqrt(s) + epsilon)`` with
    ``r = sqrt((length - 4) * (length - 2) * L / ((L - 4) * (L - 2) * length))``.

    >>> plugrad.optimizers.RAdam().learning_rate
    0.001

    Arguments and errors are as for `Adam`.
    """

    @property
    def _update_rule(self) -> ComposedStep:
        """Return the function of ops that computes a step."""
        return MOMENT_UPDATE_RULE

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        rest = self.beta2**step_number
        longest = 2 / (1 - self.beta2) - 1
        length = longest - 2 * step_number * rest / (1 - rest)
        corrected = learning_rate / (1 - self.beta1**step_number)
        scale, epsilon = 0.0, 1.0
        if length > MIN_RECTIFIED_LENGTH:
            numerator = (length - 4) * (length - 2) * longest
            divisor = (longest - 4) * (longest - 2) * length
            corrected *= (numerator / divisor * (1 - rest)) ** 0.5
            scale, epsilon = 1.0, self.epsilon
        return (
            1.0,
            corrected,
            0.0,
            *(self.beta1, 1 - self.beta1),
            *(self.beta2, 1 - self.beta2),
            scale,
            epsilon,
        )


class Lion(Optimizer):
    """Sign descent with momentum: ``v -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * v)``.

    See Chen et al., "Symbolic discovery of optimization algorithms" (2023). m is the moving average
    ``beta2 * m + (1 - beta2) * g`` of the gradient. The learning rate is 3 to 10 times smaller than that of `Adam`, and
    the weight decay as much larger.

    >>> plugrad.optimizers.Lion().beta2
    0.99

    Args:
        learning_rate: a number, or a function from the number of steps taken to a number.
        beta1: the weight of m against g in the step.
        beta2: the fraction of m that remains in each step.
        weight_decay: the fraction of the variable, times the learning rate, to subtract in each step.

    Raises:
        ArgumentError: a coefficient is not a number.
        ArgumentValueError: a coefficient is negative, or `beta1` or `beta2` is not less than 1.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.0001,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
    ) -> None:
        """Check and store the coefficients."""
        super().__init__(learning_rate)
        self._check_coefficients(beta1=beta1, beta2=beta2, lower_bound=0, upper_bound=1)
        self._check_coefficients(weight_decay=weight_decay, lower_bound=0)
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay

    def _slot_names(self) -> tuple[str, ...]:
        return ("m",)

    @property
    def _update_rule(self) -> ComposedStep:
        """Return the function of ops that computes a step."""
        return SIGN_UPDATE_RULE

    def _step_coefficients(self, step_number: int, learning_rate: float) -> tuple[float, ...]:
        return (
            learning_rate,
            1 - learning_rate * self.weight_decay,
            *(self.beta1, 1 - self.beta1),
            *(self.beta2, 1 - self.beta2),
        )
