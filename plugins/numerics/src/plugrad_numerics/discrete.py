"""Distributions of whole numbers. Samples are constants, of the dtype of the parameters or, of `Categorical`, int32."""

from __future__ import annotations

from dataclasses import dataclass
from math import e, inf, pi
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError
from plugrad_numerics.distribution import (
    Distribution,
    in_double_precision,
    log_of_no_probability,
)
from plugrad_numerics.double_exponential import half_line_nodes_and_weights
from plugrad_numerics.entropies import entr, xlog1py, xlogy
from plugrad_numerics.gamma_family import draw_gamma
from plugrad_numerics.gamma_functions import gammaln

if TYPE_CHECKING:
    from plugrad import Tensor

POISSON_ENTROPY_TERMS: Final = 256
"""How many terms the sum for the entropy has."""
POISSON_MAX_UNIFORMS: Final = 48
"""How many uniform numbers are multiplied at most for a rate below 10: more are needed once in 1e18 draws."""
POISSON_MAX_PROPOSALS: Final = 16
"""How many proposals are drawn for a rate from 10 on; the first that is accepted counts."""


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """The distribution of 1 with a probability, and of 0 otherwise.

    >>> distributions.Bernoulli(0.25).entropy()
    tensor(0.56233513, dtype=float32)
    """

    probability: Any
    is_reparametrized = False

    def _draw_samples(self, random_source: Any) -> Tensor:
        p = plugrad.stop_gradient(self.probability)
        return (random_source.uniform() < p).astype(p.dtype)

    def log_prob(self, x: Any) -> Tensor:
        x, p = self._as_value(x), self.probability
        found = xlogy(x, p) + xlog1py(1 - x, -p)
        return plugrad.where((x == 0) | (x == 1), found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        p = self.probability
        return entr(p) - xlog1py(1 - p, -p)

    @property
    def mean(self) -> Tensor:
        return self.probability

    @property
    def variance(self) -> Tensor:
        return self.probability * (1 - self.probability)


@dataclass(frozen=True)
class Geometric(Distribution):
    """The distribution of the number of failures before the first success.

    >>> distributions.Geometric(0.25).mean
    tensor(3., dtype=float32)
    """

    probability: Any
    is_reparametrized = False

    def _draw_samples(self, random_source: Any) -> Tensor:
        p = plugrad.stop_gradient(self.probability)
        return plugrad.floor(plugrad.log(random_source.uniform()) / plugrad.log1p(-p))

    def log_prob(self, x: Any) -> Tensor:
        x, p = self._as_value(x), self.probability
        is_inside = is_nonnegative_integer(x)
        found = xlog1py(plugrad.where(is_inside, x, 0), -p) + plugrad.log(p)
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        p = self.probability
        return (entr(p) - xlog1py(1 - p, -p)) / p

    @property
    def mean(self) -> Tensor:
        return (1 - self.probability) / self.probability

    @property
    def variance(self) -> Tensor:
        return (1 - self.probability) / self.probability**2


@dataclass(frozen=True)
class Poisson(Distribution):
    """The Poisson distribution of a rate.

    >>> distributions.Poisson(2.0).log_prob(0.0)
    tensor(-2., dtype=float32)
    """

    rate: Any
    is_reparametrized = False

    def _draw_samples(self, random_source: Any) -> Tensor:
        return draw_poisson(plugrad.stop_gradient(self.rate), random_source)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        is_inside = is_nonnegative_integer(x)
        safe = plugrad.where(is_inside, x, 0)
        found = xlogy(safe, self.rate) - self.rate - gammaln(safe + 1)
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        """The entropy: a sum of 256 terms for rates below 100, else a series (Evans and Boersma, 1988)."""
        is_large = self.rate >= 100
        rate = plugrad.where(is_large, 1.0, self.rate)[..., None]
        numbers = plugrad.arange(POISSON_ENTROPY_TERMS, dtype=rate.dtype, device=rate.device)
        terms = xlogy(numbers, rate) - rate - gammaln(numbers + 1)
        terms = plugrad.where(plugrad.isinf(terms), 0.0, terms)  # numbers above 0 at a rate of 0
        low = -plugrad.sum(plugrad.exp(terms) * terms, axis=-1)
        inverse = 1 / plugrad.where(is_large, self.rate, 100.0)
        series = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360 + inverse * 9 / 80)))
        return plugrad.where(is_large, 0.5 * plugrad.log(2 * pi * e / inverse) - series, low)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate


def draw_poisson(rate: Tensor, random_source: Any) -> Tensor:
    """Draw Poisson numbers.

    Below 10, uniform numbers are multiplied until the product is less than exp(-rate); from there on, numbers are
    proposed and accepted as Hörmann's method PTRS does (1993).
    """
    is_small = rate < 10
    small, large = plugrad.where(is_small, rate, 1.0), plugrad.where(is_small, 10.0, rate)
    total, count = 0.0, 0.0
    for _ in range(POISSON_MAX_UNIFORMS):
        total = total - plugrad.log(random_source.uniform())
        count = count + (total <= small).astype(rate.dtype)
    b = 0.931 + 2.53 * plugrad.sqrt(large)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    found, is_found = plugrad.floor(large), large < 0
    for _ in range(POISSON_MAX_PROPOSALS):
        u, v = random_source.uniform() - 0.5, random_source.uniform()
        distance = 0.5 - plugrad.abs(u)
        k = plugrad.floor((2 * a / distance + b) * u + large + 0.43)
        is_quick = (distance >= 0.07) & (v <= quick)
        is_refused = (k < 0) | ((distance < 0.013) & (v > distance))
        safe = plugrad.maximum(k, 0)
        left = plugrad.log(v * inverse_alpha / (a / (distance * distance) + b))
        right = Poisson(large).log_prob(safe)
        is_accepted = is_quick | (~is_refused & (left <= right))
        found = plugrad.where(is_accepted & ~is_found, k, found)
        is_found = is_found | is_accepted
    return plugrad.where(is_small, count, found)


def is_nonnegative_integer(x: Tensor) -> Tensor:
    """Return which elements are whole numbers of 0 or more."""
    return (x >= 0) & (x == plugrad.floor(x))


@dataclass(frozen=True)
class Binomial(Distribution):
    """The distribution of the number of successes in `count` trials, a Python number.

    >>> distributions.Binomial(4, 0.5).mean
    tensor(2., dtype=float32)

    A sample draws a number for each trial.
    """

    count: int
    probability: Any
    is_reparametrized = False

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 0:
            raise ArgumentError(f"Binomial: count={self.count!r} must be an integer of 0 or more")
        super().__post_init__()

    @classmethod
    def constants(cls) -> frozenset[str]:
        return frozenset({"count"})

    @property
    def _parameter_with_sample_shape(self) -> Tensor:
        return self.probability

    def _draw_samples(self, random_source: Any) -> Tensor:
        p = plugrad.stop_gradient(self.probability)
        uniform = random_source.with_shape(self.count, *random_source.shape).uniform()
        return plugrad.sum((uniform < p).astype(p.dtype), axis=0)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x, p = self._as_value(x), self.probability
        is_inside = is_nonnegative_integer(x) & (x <= self.count)
        safe = plugrad.where(is_inside, x, 0)
        rest = self.count - safe
        ways = gammaln(safe * 0 + self.count + 1) - gammaln(safe + 1) - gammaln(rest + 1)
        found = ways + xlogy(safe, p) + xlog1py(rest, -p)
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        p = self.probability[..., None]
        numbers = plugrad.arange(self.count + 1, dtype=p.dtype, device=p.device)
        terms = Binomial(self.count, p).log_prob(numbers)
        is_possible = terms > -inf
        terms = plugrad.where(is_possible, terms, 0)
        return -plugrad.sum(plugrad.where(is_possible, plugrad.exp(terms) * terms, 0), axis=-1)

    @property
    def mean(self) -> Tensor:
        return self.count * self.probability

    @property
    def variance(self) -> Tensor:
        return self.count * self.probability * (1 - self.probability)


@dataclass(frozen=True)
class NegativeBinomial(Distribution):
    """The distribution of the number of failures before `count` successes, which need not be a whole number.

    >>> distributions.NegativeBinomial(2.0, 0.5).mean
    tensor(2., dtype=float32)

    Entropy and divergence are integrals, computed to some 1e-11 in double precision.
    """

    count: Any
    probability: Any
    is_reparametrized = False

    def _draw_samples(self, random_source: Any) -> Tensor:
        count, p = plugrad.stop_gradient(self.count), plugrad.stop_gradient(self.probability)
        return draw_poisson(draw_gamma(count, random_source) * (1 - p) / p, random_source)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x, n, p = self._as_value(x), self.count, self.probability
        is_inside = is_nonnegative_integer(x)
        safe = plugrad.where(is_inside, x, 0)
        ways = gammaln(safe + n) - gammaln(safe + 1) - gammaln(n)
        found = ways + n * plugrad.log(p) + xlog1py(safe, -p)
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    @in_double_precision
    def entropy(self) -> Tensor:
        n, p = self.count, self.probability
        ways = self.mean_of_log_ratio(n, plugrad.ones_like(n)) - gammaln(n)
        return -(ways + n * plugrad.log(p) + self.mean * plugrad.log1p(-p))

    def mean_of_log_ratio(self, a: Tensor, b: Tensor) -> Tensor:
        """The expected value of ``log(gamma(x + a) / gamma(x + b))``.

        Malmstén's integral for the logarithm of gamma (DLMF 5.9.16) has only exp(-x t) of x, whose mean is known.
        """
        n, p, a, b = (value[..., None] for value in (self.count, self.probability, a, b))
        t, weights = half_line_nodes_and_weights(p)
        means = plugrad.exp(-n * plugrad.log1p((1 - p) / p * -plugrad.expm1(-t)))
        exponent = (b - a) * t
        is_large = exponent > 40
        gap = plugrad.exp(-b * t) * plugrad.expm1(plugrad.where(is_large, 0, exponent))
        gap = plugrad.where(is_large, plugrad.exp(-a * t), gap) / plugrad.expm1(-t)
        return plugrad.sum(weights * ((a - b) * plugrad.exp(-t) - means * gap), axis=-1)

    @property
    def mean(self) -> Tensor:
        return self.count * (1 - self.probability) / self.probability

    @property
    def variance(self) -> Tensor:
        return self.count * (1 - self.probability) / self.probability**2


@dataclass(frozen=True)
class Categorical(Distribution):
    """The distribution of positions along the last axis of logits.

    >>> distributions.Categorical([0.0, 0.0]).entropy()
    tensor(0.6931472, dtype=float32)

    Samples are int32.
    """

    logits: Any
    is_reparametrized = False
    event_rank = 1

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return ()

    def _draw_samples(self, random_source: Any) -> Tensor:
        noise = -plugrad.log(-plugrad.log(random_source.uniform()))
        return plugrad.argmax(plugrad.stop_gradient(self.logits) + noise, axis=-1).astype("int32")

    def log_probabilities(self) -> Tensor:
        """The logarithm of the probability of each position."""
        return plugrad.log_softmax(self.logits, axis=-1)

    def log_prob(self, x: Any) -> Tensor:
        positions = (
            x if isinstance(x, plugrad.Tensor) else plugrad.asarray(x, device=self.logits.device)
        )
        logs = self.log_probabilities()
        count = logs.shape[-1]
        numbers = plugrad.arange(count, dtype="int32", device=logs.device)
        chosen = plugrad.where(positions.astype("int32")[..., None] == numbers, logs, 0)
        is_inside = (positions >= 0) & (positions < count)
        return plugrad.where(is_inside, plugrad.sum(chosen, axis=-1), -inf)

    def entropy(self) -> Tensor:
        logs = self.log_probabilities()
        is_possible = logs > -inf
        safe = plugrad.where(is_possible, logs, 0)
        return -plugrad.sum(plugrad.where(is_possible, plugrad.exp(safe) * safe, 0), axis=-1)

    @property
    def mean(self) -> Tensor:
        return plugrad.sum(self._class_indices() * plugrad.softmax(self.logits, axis=-1), axis=-1)

    @property
    def variance(self) -> Tensor:
        offset = self._class_indices() - self.mean[..., None]
        return plugrad.sum(offset**2 * plugrad.softmax(self.logits, axis=-1), axis=-1)

    def _class_indices(self) -> Tensor:
        return plugrad.arange(
            self.logits.shape[-1], dtype=self.logits.dtype, device=self.logits.device
        )
