"""The base class of distributions, which converts their parameters to tensors."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import fields
from inspect import Signature, signature
from math import prod
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError, explain_wrong_calls
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad.random import Generator


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
        """The logarithm of the density, or of the probability, at x; -inf outside of the support."""

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


def where_inside(condition: Tensor, value: Tensor, safe: float) -> Tensor:
    """Return values where a condition holds, and elsewhere a safe constant, whose gradient is 0."""
    return plugrad.where(condition, value, safe)
