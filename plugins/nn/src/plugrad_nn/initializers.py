"""Initializers, which draw the first values of parameters.

An initializer is a function of (generator, shape, dtype). In the shape of a kernel, the last axis has
the outputs, the one before it the inputs, and the others the cells of a filter. `fan_in` is the number
of inputs that one output depends on, `fan_out` the number of outputs that depend on one input. The
names are those of Keras.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import check_choice, check_number

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.random import Generator


class Initializer(Protocol):
    """A function that returns the initial value of a parameter."""

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        ...


@dataclass(frozen=True)
class Constant:
    """One number for all elements; `zeros` and `ones` are instances.

    >>> nn.initializers.Constant(0.5)(plugrad.random.Generator(0), (2,))
    tensor([0.5, 0.5], dtype=float32)

    Raises:
        ArgumentError, ArgumentValueError: the value is not a finite number.
    """

    value: float

    def __post_init__(self) -> None:
        check_number("Constant", "value", self.value)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        return plugrad.full(shape, float(self.value), dtype=dtype or plugrad.float32)


@dataclass(frozen=True)
class Uniform:
    """Uniformly distributed numbers from `low` to `high`.

    >>> nn.initializers.Uniform()
    Uniform(low=-0.05, high=0.05)

    Raises:
        ArgumentError, ArgumentValueError: a bound is not a finite number, or `low` exceeds `high`.
    """

    low: float = -0.05
    high: float = 0.05

    def __post_init__(self) -> None:
        check_number("Uniform", "low", self.low)
        check_number("Uniform", "high", self.high, least=self.low)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        return generator.uniform(shape, self.low, self.high, dtype=dtype)


@dataclass(frozen=True)
class Normal:
    """Normally distributed numbers.

    >>> nn.initializers.Normal(std=0.02)
    Normal(mean=0.0, std=0.02)

    Raises:
        ArgumentError, ArgumentValueError: `mean` or `std` is not a finite number, or `std` is negative.
    """

    mean: float = 0.0
    std: float = 0.05

    def __post_init__(self) -> None:
        check_number("Normal", "mean", self.mean)
        check_number("Normal", "std", self.std, least=0)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        return generator.normal(shape, self.mean, self.std, dtype=dtype)


@dataclass(frozen=True)
class TruncatedNormal:
    """Normally distributed numbers within two standard deviations of the mean.

    >>> x = nn.initializers.TruncatedNormal(std=1.0)(plugrad.random.Generator(0), (100,))
    >>> bool(plugrad.all(plugrad.abs(x) <= 2))
    True

    Their own standard deviation is 0.88 times `std`, because the tails are cut off.

    Raises:
        ArgumentError, ArgumentValueError: `mean` or `std` is not a finite number, or `std` is negative.
    """

    mean: float = 0.0
    std: float = 0.05

    def __post_init__(self) -> None:
        check_number("TruncatedNormal", "mean", self.mean)
        check_number("TruncatedNormal", "std", self.std, least=0)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        return generator.truncated_normal(shape, self.mean, self.std, dtype=dtype)


# The standard deviation of a standard normal distribution that is cut off at -2 and 2.
_TRUNCATED_NORMAL_DEVIATION = math.sqrt(
    1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2))
)


@dataclass(frozen=True)
class VarianceScaling:
    """Random numbers with mean 0 and variance ``scale / fan``, which preserve the scale of activations.

    >>> kernel = nn.initializers.he_normal(plugrad.random.Generator(0), (400, 50))
    >>> round(float(plugrad.std(kernel)) * 400**0.5, 1)  # the square root of 2
    1.4

    The instances are those of Glorot and Bengio (2010), of He et al. (2015) and of LeCun et al. (1998).

    Args:
        scale: a positive number.
        fan: "in", "out" or "avg", which is the mean of both.
        distribution: "truncated_normal", "normal" or "uniform".

    Raises:
        ArgumentError: the scale is not a number.
        ArgumentValueError: an argument is none of the above.
    """

    scale: float = 1.0
    fan: Literal["in", "out", "avg"] = "in"
    distribution: Literal["truncated_normal", "normal", "uniform"] = "truncated_normal"

    def __post_init__(self) -> None:
        check_number("VarianceScaling", "scale", self.scale, least=0)
        check_choice("VarianceScaling", "fan", self.fan, ("in", "out", "avg"))
        kinds = ("truncated_normal", "normal", "uniform")
        check_choice("VarianceScaling", "distribution", self.distribution, kinds)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default."""
        fan_in, fan_out = fans(shape)
        fan = {"in": fan_in, "out": fan_out, "avg": (fan_in + fan_out) / 2}[self.fan]
        std = math.sqrt(self.scale / max(fan, 1))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * std
            return generator.uniform(shape, -limit, limit, dtype=dtype)
        if self.distribution == "normal":
            return generator.normal(shape, 0.0, std, dtype=dtype)
        return generator.truncated_normal(
            shape, 0.0, std / _TRUNCATED_NORMAL_DEVIATION, dtype=dtype
        )


@dataclass(frozen=True)
class Orthogonal:
    """Matrices with orthonormal rows or columns, whichever are fewer, times `gain` (Saxe et al., 2014).

    >>> q = nn.initializers.Orthogonal()(plugrad.random.Generator(0), (3, 3))
    >>> bool(plugrad.all(plugrad.abs(q @ plugrad.permute_dims(q, (1, 0)) - plugrad.eye(3)) < 1e-6))
    True

    A shape with more than two axes is that of a matrix with the last axis as columns.

    Raises:
        ArgumentError, ArgumentValueError: the gain is not a finite number.
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        check_number("Orthogonal", "gain", self.gain)

    def __call__(self, generator: Generator, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of a shape, float32 by default.

        Raises:
            ShapeError: the shape has fewer than two axes.
        """
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal: shape={shape} must have two axes or more")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        # Decomposed on the host, so that the values are the same on every backend.
        drawn = generator.standard_normal((max(rows, columns), min(rows, columns))).numpy()
        q, r = np.linalg.qr(drawn.astype(np.float64))
        q = q * np.copysign(1, np.diag(r))  # makes the distribution uniform (Mezzadri, 2007)
        matrix = self.gain * (q if rows >= columns else q.T)
        floats = str(dtype or plugrad.float32)
        return plugrad.asarray(np.ascontiguousarray(matrix, floats).reshape(shape))


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a kernel shape.

    >>> nn.initializers.fans((3, 3, 16, 32))
    (144, 288)
    """
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    cells = math.prod(shape[:-2])
    return cells * shape[-2], cells * shape[-1]


zeros = Constant(0.0)
ones = Constant(1.0)
glorot_normal = VarianceScaling(1.0, "avg", "truncated_normal")
glorot_uniform = VarianceScaling(1.0, "avg", "uniform")
he_normal = VarianceScaling(2.0, "in", "truncated_normal")
he_uniform = VarianceScaling(2.0, "in", "uniform")
lecun_normal = VarianceScaling(1.0, "in", "truncated_normal")
lecun_uniform = VarianceScaling(1.0, "in", "uniform")
orthogonal = Orthogonal()
uniform = Uniform()
