"""The base class of distributions, which converts their parameters to tensors."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import fields, replace
from functools import wraps
from inspect import Signature, signature
from math import inf, nan, prod
from typing import TYPE_CHECKING, Any, ParamSpec

import plugrad
from plugrad.extend import ArgumentError, explain_wrong_calls, float64
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor
    from plugrad.random import Generator

ParameterTypes = ParamSpec("ParameterTypes")
"""The types of the arguments of a function that computes in float64."""


class DistributionType(ABCMeta):
    """The type of distribution classes, which explains wrong arguments."""

    if not TYPE_CHECKING:  # type checkers know the arguments

        @property
        def __signature__(cls) -> Signature:
            """The parameters of the distribution, which `help` and editors show instead of those of `__call__`."""
            of_init = signature(cls.__init__)
            parameters = [*of_init.parameters.values()][1:]
            return Signature(parameters)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Return a distribution.

            Raises:
                ArgumentError: there is no such parameter, or one is missing.
            """
            try:
                return super().__call__(*args, **kwargs)
            except TypeError:
                if not cls.__abstractmethods__:
                    explain_wrong_calls(cls.__init__)(object.__new__(cls), *args, **kwargs)
                raise


class Distribution(metaclass=DistributionType):
    """A probability distribution, or a batch of them: its parameters broadcast.

    Parameters are tensors or numbers, and become tensors of one floating dtype. Their values are not looked at: those
    that are not allowed give NaN. Results have gradients for the parameters. Samples have them, too, where
    `is_reparametrized`; of the others, samples are constants.
    """

    is_reparametrized = True
    """Whether samples have gradients for the parameters."""
    event_rank = 0
    """How many axes one sample has."""

    def __post_init__(self) -> None:
        names = [f.name for f in fields(self) if f.name not in self.constants()]  # type: ignore[arg-type]
        values = as_floats(type(self).__name__, *(getattr(self, name) for name in names))
        if self.event_rank == 0:
            values = list(plugrad.broadcast_arrays(*values))
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def constants(cls) -> frozenset[str]:
        """The names of parameters that are Python numbers, not tensors."""
        return frozenset()

    @property
    def _parameter_with_sample_shape(self) -> Tensor:
        """A parameter whose shape is the batch shape followed by the event shape."""
        found: Tensor = getattr(self, fields(self)[0].name)  # type: ignore[arg-type]
        return found

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape to which the parameters broadcast."""
        shape = self._parameter_with_sample_shape.shape
        return shape[: len(shape) - self.event_rank]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        shape = self._parameter_with_sample_shape.shape
        return shape[len(shape) - self.event_rank :]

    def sample(self, shape: Sequence[int] = (), *, generator: Generator | None = None) -> Tensor:
        """Draw samples; their shape is the given one, followed by the batch shape and the event shape.

        Args:
            shape: how many samples.
            generator: where random numbers come from; by default `plugrad.random.default`.
        """
        if not isinstance(shape, tuple | list):
            raise ArgumentError(
                f"sample: shape={shape!r} must be a tuple of integers, such as (100,)"
            )
        random_source = _SampleSource(
            generator or plugrad.random.default, self._parameter_with_sample_shape, tuple(shape)
        )
        return self._draw_samples(random_source)

    @abstractmethod
    def _draw_samples(self, random_source: _SampleSource) -> Tensor:
        """Return samples, made of the random numbers of a source in their shape."""

    @abstractmethod
    def log_prob(self, x: Any) -> Tensor:
        """The logarithm of the density, or of the probability, at x; -inf outside of the support, NaN at NaN."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """The entropy in nats; for a continuous distribution, the differential entropy."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """The expected value."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """The expected squared difference from the mean."""

    def _as_value(self, x: Any) -> Tensor:
        """Return an argument as a tensor of the parameters' dtype and device."""
        first = self._parameter_with_sample_shape
        if not isinstance(x, plugrad.Tensor):
            x = plugrad.asarray(x, device=first.device)
        return x.astype(first.dtype)


class _SampleSource:
    """Random numbers of the dtype and on the device of a parameter, in the shape of samples."""

    def __init__(self, generator: Generator, like: Tensor, shape: tuple[int, ...]) -> None:
        self._generator, self._dtype, self._device = generator, like.dtype, like.device
        self.shape = (*shape, *like.shape)

    def with_shape(self, *shape: int) -> _SampleSource:
        """Return a source of numbers in another shape."""
        found = object.__new__(_SampleSource)
        found.__dict__.update(self.__dict__)
        found.shape = shape
        return found

    def normal(self) -> Tensor:
        """Draw standard normal numbers."""
        return self._generator.standard_normal(self.shape, dtype=self._dtype, device=self._device)

    def uniform(self) -> Tensor:
        """Draw numbers between 0 and 1, both excluded."""
        least = 2.0**-25 if self._dtype == "float32" else 2.0**-54
        numbers = self._generator.uniform(self.shape, dtype=self._dtype, device=self._device)
        return plugrad.clip(numbers, least, 1 - 2 * least)

    @property
    def size(self) -> int:
        """The number of random numbers in a draw."""
        return prod(self.shape)


def in_double_precision(
    function: Callable[ParameterTypes, Tensor],
) -> Callable[ParameterTypes, Tensor]:
    """Make a function of distributions compute in float64 if the device has it, because terms of its result cancel.

    The result is rounded to the dtype of the parameters.
    """

    @wraps(function)
    def compute_in_double_precision(
        *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs
    ) -> Tensor:
        parameters = [_last_parameter(d) for d in args if isinstance(d, Distribution)]
        if float64 not in parameters[0].backend.dtypes():
            return function(*args, **kwargs)
        wide: Any = [_as_double(d) if isinstance(d, Distribution) else d for d in args]
        found = function(*wide, **kwargs)
        return found.astype(plugrad.result_type(*(p.dtype for p in parameters)))

    return compute_in_double_precision


def _last_parameter(distribution: Distribution) -> Tensor:
    """Return the last parameter, which is a tensor for every distribution."""
    found: Tensor = getattr(distribution, fields(distribution)[-1].name)  # type: ignore[arg-type]
    return found


def _as_double(distribution: Distribution) -> Distribution:
    """Return the same distribution with parameters of float64."""
    if _last_parameter(distribution).dtype == float64:
        return distribution
    names = [f.name for f in fields(distribution) if f.name not in distribution.constants()]  # type: ignore[arg-type]
    changes = {name: getattr(distribution, name).astype(float64) for name in names}
    return replace(distribution, **changes)  # type: ignore[type-var]


def log_of_no_probability(x: Tensor) -> Tensor:
    """Return the logarithm of the probability outside of the support: -inf, and NaN where x is NaN."""
    return plugrad.where(plugrad.isnan(x), nan, -inf)


def where_inside(condition: Tensor, value: Tensor, safe: float) -> Tensor:
    """Return values where a condition holds, and elsewhere a safe constant, whose gradient is 0."""
    return plugrad.where(condition, value, safe)
