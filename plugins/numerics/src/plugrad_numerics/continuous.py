"""Distributions of real numbers whose samples are functions of uniform or normal ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, nan, pi, sqrt
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_numerics.distribution import (
    Distribution,
    in_double_precision,
    log_of_no_probability,
)
from plugrad_numerics.double_exponential import unit_nodes_and_weights
from plugrad_numerics.entropies import log1p_square, xlogy
from plugrad_numerics.error_functions import erfcx, log_ndtr, ndtr, ndtri
from plugrad_numerics.gamma_functions import digamma, gamma, gammaln

if TYPE_CHECKING:
    from plugrad import Tensor

EULER_GAMMA = 0.5772156649015329
LOG_2_PI = log(2 * pi)
NEGLIGIBLE_COST = 40.0
"""A density that is less by ``exp(-NEGLIGIBLE_COST)`` adds nothing in double precision."""
TAIL_QUANTILE_MAX_LOG = -80.0
"""The logarithm of a probability below which the normal quantile is not computed from the probability itself."""
TAIL_QUANTILE_STEPS = 4
"""The steps of Newton's method after which such a quantile is exact in double precision."""


def _normal_quantile_of_logarithm(logarithm: Tensor) -> Tensor:
    """Return the number below which a standard normal number lies with a probability, given its logarithm."""
    is_tail = logarithm < TAIL_QUANTILE_MAX_LOG
    usual = ndtri(plugrad.exp(plugrad.where(is_tail, -1.0, logarithm)))
    tail = plugrad.where(is_tail, logarithm, TAIL_QUANTILE_MAX_LOG)
    z = -plugrad.sqrt(-2 * tail)
    for _ in range(TAIL_QUANTILE_STEPS):
        z = z - (log_ndtr(z) - tail) * sqrt(pi / 2) * erfcx(-z / sqrt(2))
    return plugrad.where(is_tail, z, usual)


@dataclass(frozen=True)
class Normal(Distribution):
    """The normal distribution with a mean and a standard deviation.

    >>> distributions.Normal(0.0, 1.0).log_prob(0.0)
    tensor(-0.9189385, dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.loc + self.scale * random_source.normal()

    def log_prob(self, x: Any) -> Tensor:
        z = (self._as_value(x) - self.loc) / self.scale
        return -0.5 * z * z - plugrad.log(self.scale) - 0.5 * LOG_2_PI

    def cdf(self, x: Any) -> Tensor:
        """The probability of a number up to x."""
        return ndtr((self._as_value(x) - self.loc) / self.scale)

    def entropy(self) -> Tensor:
        return plugrad.log(self.scale) + 0.5 * (1 + LOG_2_PI)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale


@dataclass(frozen=True)
class LogNormal(Distribution):
    """The distribution of numbers whose logarithm is normally distributed.

    >>> distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487212, dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return plugrad.exp(self.loc + self.scale * random_source.normal())

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        logarithm = plugrad.log(plugrad.where(x > 0, x, 1))
        found = Normal(self.loc, self.scale).log_prob(logarithm) - logarithm
        return plugrad.where(x > 0, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        return Normal(self.loc, self.scale).entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return plugrad.exp(self.loc + 0.5 * self.scale**2)

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return plugrad.expm1(square) * plugrad.exp(2 * self.loc + square)


@dataclass(frozen=True)
class HalfNormal(Distribution):
    """The distribution of the absolute values of normal numbers around 0.

    >>> distributions.HalfNormal(1.0).mean
    tensor(0.7978846, dtype=float32)
    """

    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.scale * plugrad.abs(random_source.normal())

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        z = x / self.scale
        found = -0.5 * z * z - plugrad.log(self.scale) + 0.5 * log(2 / pi)
        return plugrad.where(x >= 0, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        return plugrad.log(self.scale) + 0.5 * log(pi / 2) + 0.5

    @property
    def mean(self) -> Tensor:
        return self.scale * sqrt(2 / pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / pi)


@dataclass(frozen=True)
class Uniform(Distribution):
    """The uniform distribution between two numbers.

    >>> distributions.Uniform(1.0, 3.0).entropy()
    tensor(0.6931472, dtype=float32)
    """

    low: Any
    high: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.low + (self.high - self.low) * random_source.uniform()

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        found = -plugrad.log(self.high - self.low)
        return plugrad.where((x >= self.low) & (x <= self.high), found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        return plugrad.log(self.high - self.low)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12


@dataclass(frozen=True)
class Exponential(Distribution):
    """The exponential distribution, whose mean is 1 / rate.

    >>> distributions.Exponential(2.0).mean
    tensor(0.5, dtype=float32)
    """

    rate: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return -plugrad.log(random_source.uniform()) / self.rate

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        return plugrad.where(
            x >= 0, plugrad.log(self.rate) - self.rate * x, log_of_no_probability(x)
        )

    def entropy(self) -> Tensor:
        return 1 - plugrad.log(self.rate)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return 1 / self.rate**2


@dataclass(frozen=True)
class Laplace(Distribution):
    """The Laplace distribution, with exponential tails on both sides.

    >>> distributions.Laplace(0.0, 1.0).entropy()
    tensor(1.6931472, dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        u = random_source.uniform() - 0.5
        return self.loc - self.scale * plugrad.sign(u) * plugrad.log1p(-2 * plugrad.abs(u))

    def log_prob(self, x: Any) -> Tensor:
        return -plugrad.abs(self._as_value(x) - self.loc) / self.scale - plugrad.log(2 * self.scale)

    def entropy(self) -> Tensor:
        return 1 + plugrad.log(2 * self.scale)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2


@dataclass(frozen=True)
class Logistic(Distribution):
    """The logistic distribution, whose distribution function is a sigmoid.

    >>> distributions.Logistic(0.0, 1.0).entropy()
    tensor(2., dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        u = random_source.uniform()
        return self.loc + self.scale * (plugrad.log(u) - plugrad.log1p(-u))

    def log_prob(self, x: Any) -> Tensor:
        z = plugrad.abs((self._as_value(x) - self.loc) / self.scale)
        return -z - 2 * plugrad.log1p(plugrad.exp(-z)) - plugrad.log(self.scale)

    def entropy(self) -> Tensor:
        return plugrad.log(self.scale) + 2

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (pi**2 / 3)


@dataclass(frozen=True)
class Gumbel(Distribution):
    """The Gumbel distribution, which the largest of many values has.

    >>> distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772157, dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.loc - self.scale * plugrad.log(-plugrad.log(random_source.uniform()))

    def log_prob(self, x: Any) -> Tensor:
        z = (self._as_value(x) - self.loc) / self.scale
        return -z - plugrad.exp(-z) - plugrad.log(self.scale)

    def entropy(self) -> Tensor:
        return plugrad.log(self.scale) + 1 + EULER_GAMMA

    @property
    def mean(self) -> Tensor:
        return self.loc + EULER_GAMMA * self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (pi**2 / 6)


@dataclass(frozen=True)
class Cauchy(Distribution):
    """The Cauchy distribution, which has neither mean nor variance: both are NaN.

    >>> distributions.Cauchy(0.0, 1.0).log_prob(0.0)
    tensor(-1.1447299, dtype=float32)
    """

    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.loc + self.scale * plugrad.tan(pi * (random_source.uniform() - 0.5))

    def log_prob(self, x: Any) -> Tensor:
        z = (self._as_value(x) - self.loc) / self.scale
        return -log(pi) - plugrad.log(self.scale) - log1p_square(z)

    def entropy(self) -> Tensor:
        return plugrad.log(4 * pi * self.scale)

    @property
    def mean(self) -> Tensor:
        return self.loc * nan

    @property
    def variance(self) -> Tensor:
        return self.scale * nan


@dataclass(frozen=True)
class HalfCauchy(Distribution):
    """The distribution of the absolute values of Cauchy numbers around 0.

    >>> distributions.HalfCauchy(1.0).log_prob(0.0)
    tensor(-0.4515827, dtype=float32)
    """

    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.scale * plugrad.tan(pi / 2 * random_source.uniform())

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        z = x / self.scale
        found = log(2 / pi) - plugrad.log(self.scale) - log1p_square(z)
        return plugrad.where(x >= 0, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        return plugrad.log(2 * pi * self.scale)

    @property
    def mean(self) -> Tensor:
        return self.scale * inf

    @property
    def variance(self) -> Tensor:
        return self.scale * inf


@dataclass(frozen=True)
class Weibull(Distribution):
    """The Weibull distribution of a scale and a concentration, such as of times until something fails.

    >>> distributions.Weibull(1.0, 2.0).mean
    tensor(0.88622695, dtype=float32)
    """

    scale: Any
    concentration: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.scale * (-plugrad.log(random_source.uniform())) ** (1 / self.concentration)

    def log_prob(self, x: Any) -> Tensor:
        x, k = self._as_value(x), self.concentration
        ratio = plugrad.where(x >= 0, x, 1) / self.scale
        power = plugrad.exp(k * plugrad.log(plugrad.where(ratio > 0, ratio, 1)))
        found = plugrad.log(k / self.scale) + xlogy(k - 1, ratio)
        found = found - plugrad.where(ratio > 0, power, 0)
        return plugrad.where(x >= 0, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER_GAMMA * (1 - 1 / k) + plugrad.log(self.scale / k) + 1

    @property
    def mean(self) -> Tensor:
        return self.scale * gamma(1 + 1 / self.concentration)

    @property
    @in_double_precision
    def variance(self) -> Tensor:
        first = gamma(1 + 1 / self.concentration)
        return self.scale**2 * (gamma(1 + 2 / self.concentration) - first * first)


@dataclass(frozen=True)
class Pareto(Distribution):
    """The Pareto distribution of numbers above a scale, with a tail of power -alpha.

    >>> distributions.Pareto(1.0, 3.0).mean
    tensor(1.5, dtype=float32)
    """

    scale: Any
    alpha: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.scale * plugrad.exp(-plugrad.log(random_source.uniform()) / self.alpha)

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        is_inside = x >= self.scale
        logarithm = plugrad.log(plugrad.where(is_inside, x, self.scale))
        found = (
            plugrad.log(self.alpha)
            + self.alpha * plugrad.log(self.scale)
            - (self.alpha + 1) * logarithm
        )
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        return plugrad.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    @property
    def mean(self) -> Tensor:
        safe = plugrad.where(self.alpha > 1, self.alpha, 2)
        return plugrad.where(self.alpha > 1, safe * self.scale / (safe - 1), inf)

    @property
    def variance(self) -> Tensor:
        a = plugrad.where(self.alpha > 2, self.alpha, 3)
        return plugrad.where(self.alpha > 2, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), inf)


@dataclass(frozen=True)
class Kumaraswamy(Distribution):
    """The Kumaraswamy distribution between 0 and 1, like `Beta` but with a simple distribution function.

    >>> distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5, dtype=float32)
    """

    a: Any
    b: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        inner = -plugrad.expm1(plugrad.log(random_source.uniform()) / self.b)
        return plugrad.exp(plugrad.log(inner) / self.a)

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        is_inside = (x >= 0) & (x <= 1)
        safe = plugrad.where(is_inside, x, 0.5)
        logarithm = plugrad.log(plugrad.where(safe > 0, safe, 1))
        rest = plugrad.where(safe > 0, -plugrad.expm1(self.a * logarithm), 1)
        found = xlogy(self.a - 1, safe) + xlogy(self.b - 1, rest)
        return plugrad.where(
            is_inside, plugrad.log(self.a * self.b) + found, log_of_no_probability(x)
        )

    def entropy(self) -> Tensor:
        harmonic = digamma(self.b + 1) + EULER_GAMMA
        return (1 - 1 / self.b) + (1 - 1 / self.a) * harmonic - plugrad.log(self.a * self.b)

    def _moment(self, n: int) -> Tensor:
        one = 1 + n / self.a
        return self.b * plugrad.exp(gammaln(one) + gammaln(self.b) - gammaln(one + self.b))

    @property
    @in_double_precision
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    @in_double_precision
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2


@dataclass(frozen=True)
class TruncatedNormal(Distribution):
    """The normal distribution of `loc` and `scale`, cut off below `low` and above `high`.

    >>> round(distributions.TruncatedNormal(0.0, 1.0, -1.0, 1.0).variance.item(), 4)
    0.2911
    """

    loc: Any
    scale: Any
    low: Any
    high: Any

    def _standardized_bounds(self) -> tuple[Tensor, Tensor]:
        """Return both ends as distances from `loc` in units of `scale`; infinite ones have no gradient."""
        ends = [
            plugrad.where(
                plugrad.isinf(end),
                end,
                (plugrad.where(plugrad.isinf(end), 0, end) - self.loc) / self.scale,
            )
            for end in (self.low, self.high)
        ]
        return ends[0], ends[1]

    def _lower_tail(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return whether the interval is mirrored into the lower tail, and the logarithms of two probabilities.

        They are those of a number below its upper end, and of one below its lower end as a part of that.
        """
        first, last = self._standardized_bounds()
        is_mirrored = first + last > 0
        low = plugrad.where(is_mirrored, -last, first)
        below_high = log_ndtr(plugrad.where(is_mirrored, -first, last))
        is_open = plugrad.isinf(low)
        share = plugrad.where(is_open, -inf, log_ndtr(plugrad.where(is_open, 0, low)) - below_high)
        return is_mirrored, below_high, share

    def _quadrature(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the number of the interval that is nearest to `loc`, and an integral over the interval.

        The integral is that of ``exp(-cost)``. The cost of a number is how far the logarithm of its density is below
        that of the nearest one. The result is the nearest number, the distances from it in units of `scale`, their
        costs, and their parts of the integral, along a new last axis. In contrast to differences of densities at the
        ends, nothing cancels where the interval is narrow or far away.
        """
        # What is computed from it would be the same with any other number, so that its gradient is 0.
        nearest = plugrad.stop_gradient(
            plugrad.minimum(plugrad.maximum(self.loc, self.low), self.high)
        )
        slope = (nearest - self.loc) / self.scale
        steepness = plugrad.abs(plugrad.stop_gradient(slope))
        reach = (
            2 * NEGLIGIBLE_COST / (steepness + plugrad.hypot(steepness, sqrt(2 * NEGLIGIBLE_COST)))
        )
        ends: list[Tensor] = []
        for end, farthest in ((self.low, -reach), (self.high, reach)):
            is_open = plugrad.isinf(end)
            distance = (plugrad.where(is_open, nearest, end) - nearest) / self.scale
            distance = plugrad.where(is_open, farthest, distance)
            ends.append(plugrad.minimum(plugrad.maximum(distance, -reach), reach)[..., None])
        nodes, weights = unit_nodes_and_weights(slope)
        low, width = ends[0], ends[1] - ends[0]
        distances = low + width * nodes
        costs = distances * (slope[..., None] + 0.5 * distances)
        return nearest, distances, costs, plugrad.exp(-costs) * weights * width

    def log_probability_between_bounds(self) -> Tensor:
        """The logarithm of the probability between both ends of the normal distribution that is not cut off."""
        nearest, _, _, parts = self._quadrature()
        slope = (nearest - self.loc) / self.scale
        return plugrad.log(plugrad.sum(parts, axis=-1)) - 0.5 * (slope * slope + LOG_2_PI)

    def _draw_samples(self, random_source: Any) -> Tensor:
        is_mirrored, below_high, share = self._lower_tail()
        rank = below_high + plugrad.log1p(random_source.uniform() * plugrad.expm1(share))
        z = _normal_quantile_of_logarithm(rank)
        found = self.loc + self.scale * plugrad.where(is_mirrored, -z, z)
        return plugrad.clip(found, self.low, self.high)

    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        found = Normal(self.loc, self.scale).log_prob(x) - self.log_probability_between_bounds()
        return plugrad.where((x >= self.low) & (x <= self.high), found, log_of_no_probability(x))

    def entropy(self) -> Tensor:
        _, _, costs, parts = self._quadrature()
        total = plugrad.sum(parts, axis=-1)
        return plugrad.log(self.scale * total) + plugrad.sum(parts * costs, axis=-1) / total

    def _offset_and_variance(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nearest number to `loc`, and in units of `scale` the mean's distance from it and the variance."""
        nearest, distances, _, parts = self._quadrature()
        shares = parts / plugrad.sum(parts, axis=-1, keepdims=True)
        offset = plugrad.sum(shares * distances, axis=-1, keepdims=True)
        variance = plugrad.sum(shares * (distances - offset) ** 2, axis=-1)
        return nearest, offset[..., 0], variance

    @property
    def mean(self) -> Tensor:
        nearest, offset, _ = self._offset_and_variance()
        return nearest + self.scale * offset

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * self._offset_and_variance()[2]
