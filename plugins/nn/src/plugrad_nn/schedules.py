"""Learning-rate schedules: functions from the number of steps taken to a learning rate.

An optimizer takes one in the place of a number. The names are those of Keras.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from plugrad.extend import ArgumentValueError
from plugrad_nn.arguments import check_flag, check_integer, check_number


@dataclass(frozen=True)
class ExponentialDecay:
    """``initial_learning_rate * decay_rate ** (step / decay_steps)``.

    >>> rate = nn.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    >>> rate(0), rate(10), rate(20)
    (0.1, 0.05, 0.025)

    Args:
        initial_learning_rate: the first learning rate.
        decay_steps: the number of steps in which it is multiplied by `decay_rate`.
        decay_rate: a positive number.
        staircase: whether it changes only every `decay_steps` steps.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float
    staircase: bool = False

    def __post_init__(self) -> None:
        _check_numbers(self, "initial_learning_rate", "decay_rate")
        check_flag("ExponentialDecay", "staircase", self.staircase)

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        periods = step / self.decay_steps
        return self.initial_learning_rate * self.decay_rate ** (
            math.floor(periods) if self.staircase else periods
        )


@dataclass(frozen=True)
class InverseTimeDecay:
    """``initial_learning_rate / (1 + decay_rate * step / decay_steps)``.

    >>> rate = nn.schedules.InverseTimeDecay(0.1, decay_steps=10, decay_rate=1.0)
    >>> rate(0), rate(10)
    (0.1, 0.05)

    Args:
        initial_learning_rate: the first learning rate.
        decay_steps: the number of steps after which the divisor has grown by `decay_rate`.
        decay_rate: a number, 0 or more.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float

    def __post_init__(self) -> None:
        _check_numbers(self, "initial_learning_rate", "decay_rate")

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return self.initial_learning_rate / (1 + self.decay_rate * step / self.decay_steps)


@dataclass(frozen=True)
class PolynomialDecay:
    """From `initial_learning_rate` to `end_learning_rate` in `decay_steps`, along a power of the remaining steps.

    ``(initial - end) * (1 - step / decay_steps) ** power + end``.

    >>> rate = nn.schedules.PolynomialDecay(0.1, decay_steps=10, end_learning_rate=0.0)
    >>> rate(0), rate(5), rate(99)
    (0.1, 0.05, 0.0)

    Args:
        initial_learning_rate: the first learning rate.
        decay_steps: the number of steps after which the last learning rate is reached.
        end_learning_rate: the last learning rate.
        power: the exponent; 1 gives a straight line.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    initial_learning_rate: float
    decay_steps: int
    end_learning_rate: float = 0.0001
    power: float = 1.0

    def __post_init__(self) -> None:
        _check_numbers(self, "initial_learning_rate", "end_learning_rate", "power")

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        remaining = 1 - min(step / self.decay_steps, 1)
        change = self.initial_learning_rate - self.end_learning_rate
        return change * remaining**self.power + self.end_learning_rate


@dataclass(frozen=True)
class CosineDecay:
    """A half-period of a cosine after a linear warm-up (Loshchilov and Hutter, 2017; Goyal et al., 2017).

    >>> rate = nn.schedules.CosineDecay(0.1, decay_steps=10, warmup_steps=2)
    >>> [round(rate(step), 3) for step in (0, 1, 2, 7, 12, 99)]
    [0.0, 0.05, 0.1, 0.05, 0.0, 0.0]

    Args:
        learning_rate: the largest learning rate.
        decay_steps: the number of steps of the decay, which follows the start.
        alpha: the last learning rate, as a fraction of the largest.
        warmup_steps: the number of steps in which the learning rate grows from 0.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    learning_rate: float
    decay_steps: int
    alpha: float = 0.0
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        _check_numbers(self, "learning_rate", "alpha")
        check_integer("CosineDecay", "warmup_steps", self.warmup_steps)

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        if step < self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        part = min((step - self.warmup_steps) / self.decay_steps, 1)
        height = (1 + math.cos(math.pi * part)) / 2
        return self.learning_rate * (self.alpha + (1 - self.alpha) * height)


@dataclass(frozen=True)
class PiecewiseConstantDecay:
    """The first of `values` up to the first of `boundaries`, then the second value, and so on.

    >>> rate = nn.schedules.PiecewiseConstantDecay((100, 200), (0.1, 0.01, 0.001))
    >>> rate(100), rate(101), rate(999)
    (0.1, 0.01, 0.001)

    Args:
        boundaries: numbers of steps in increasing order; the learning rate changes after them.
        values: learning rates, one more than there are boundaries.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    boundaries: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        boundaries, values = tuple(self.boundaries), tuple(self.values)
        for boundary in boundaries:
            check_integer("PiecewiseConstantDecay", "boundaries", boundary)
        for value in values:
            check_number("PiecewiseConstantDecay", "values", value, least=0)
        if len(values) != len(boundaries) + 1 or list(boundaries) != sorted(set(boundaries)):
            raise ArgumentValueError(
                f"PiecewiseConstantDecay: boundaries={boundaries} must increase, and values={values} must "
                "be one more"
            )

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        return self.values[bisect_left(self.boundaries, step)]


@dataclass(frozen=True)
class CosineDecayRestarts:
    """A half-period of a cosine with warm restarts (Loshchilov and Hutter, 2017).

    >>> rate = nn.schedules.CosineDecayRestarts(0.1, first_decay_steps=4)
    >>> [round(rate(step), 3) for step in (0, 2, 4, 8, 12)]
    [0.1, 0.05, 0.1, 0.05, 0.1]

    Args:
        initial_learning_rate: the first learning rate.
        first_decay_steps: the number of steps of the first period.
        t_mul: by how much each period is longer than the one before it.
        m_mul: by how much each period begins higher than the one before it.
        alpha: the last learning rate of a period, as a fraction of its first.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above, or `t_mul` is less than 1.
    """

    initial_learning_rate: float
    first_decay_steps: int
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def __post_init__(self) -> None:
        name = "CosineDecayRestarts"
        check_integer(name, "first_decay_steps", self.first_decay_steps, 1)
        check_number(name, "t_mul", self.t_mul, least=1)
        for field in ("initial_learning_rate", "m_mul", "alpha"):
            check_number(name, field, getattr(self, field), least=0)

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        begin, length, height = 0.0, float(self.first_decay_steps), self.initial_learning_rate
        while step >= begin + length:
            begin, length, height = begin + length, length * self.t_mul, height * self.m_mul
        part = (step - begin) / length
        return height * (self.alpha + (1 - self.alpha) * (1 + math.cos(math.pi * part)) / 2)


@dataclass(frozen=True)
class OneCycle:
    """A cosine up to the maximum learning rate and another one down to almost 0 (Smith and Topin, 2019).

    >>> rate = nn.schedules.OneCycle(0.5, total_steps=10)
    >>> [round(rate(step), 3) for step in (0, 2, 9)]
    [0.02, 0.5, 0.0]

    Args:
        max_learning_rate: the largest learning rate.
        total_steps: the number of steps of the cycle; later ones keep its last learning rate.
        start_fraction: the part of the steps in which the learning rate grows, more than 0 and less than 1.
        divisor: by what the largest learning rate is divided to give the first.
        final_divisor: by what the first one is divided to give the last.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    max_learning_rate: float
    total_steps: int
    start_fraction: float = 0.3
    divisor: float = 25.0
    final_divisor: float = 10_000.0

    def __post_init__(self) -> None:
        check_integer("OneCycle", "total_steps", self.total_steps, 2)
        check_number("OneCycle", "max_learning_rate", self.max_learning_rate, least=0)
        check_number("OneCycle", "start_fraction", self.start_fraction, least=0, below=1)
        for field in ("divisor", "final_divisor"):
            check_number("OneCycle", field, getattr(self, field), least=1)
        if self.start_fraction * self.total_steps <= 1:
            raise ArgumentValueError(
                f"OneCycle: start_fraction={self.start_fraction} of total_steps={self.total_steps} must be more than "
                "one step"
            )

    def __call__(self, step: int) -> float:
        """Return the learning rate after a number of steps."""
        first = self.max_learning_rate / self.divisor
        top, end = self.start_fraction * self.total_steps - 1, self.total_steps - 1
        if step <= top:
            return _interpolate_by_cosine(first, self.max_learning_rate, step / top)
        part = min((step - top) / (end - top), 1)
        return _interpolate_by_cosine(self.max_learning_rate, first / self.final_divisor, part)


def _interpolate_by_cosine(begin: float, end: float, fraction: float) -> float:
    """Return the value at a fraction of the way between two numbers, along a half-period of a cosine."""
    return end + (begin - end) * (1 + math.cos(math.pi * fraction)) / 2


def _check_numbers(schedule: object, *field_names: str) -> None:
    """Raise unless all named fields are at least 0 and there is at least one decay step."""
    owner = type(schedule).__name__
    check_integer(owner, "decay_steps", getattr(schedule, "decay_steps"), 1)  # noqa: B009
    for name in field_names:
        check_number(owner, name, getattr(schedule, name), least=0)
