"""Distributions made of gamma numbers. Their samples have implicit gradients (Figurnov, Mohamed and Mnih, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import is_traced
from plugrad_numerics.distribution import (
    Distribution,
    in_double_precision,
    log_of_no_probability,
)
from plugrad_numerics.entropies import log1p_square, xlog1py, xlogy
from plugrad_numerics.gamma_functions import betaln, betaln_values, digamma, gammaln
from plugrad_numerics.incomplete import gammainc, gammainc_values
from plugrad_numerics.tables import call_elementwise

if TYPE_CHECKING:
    from plugrad import Tensor

MAX_GAMMA_PROPOSALS: Final = 8
"""How many proposals are drawn, each of which is accepted with a probability of 0.95 or more."""


def draw_gamma(concentration: Tensor, random_source: Any) -> Tensor:
    """Draw gamma numbers of rate 1, with the gradient for the concentration that keeps their quantiles.

    Marsaglia and Tsang (2000) propose numbers and accept most of them; of eight, the first that is accepted is taken.
    Below a concentration of 1, a number of the next one is multiplied by a power of a uniform one.
    """
    a = plugrad.stop_gradient(concentration)
    is_small = a < 1
    greater = plugrad.where(is_small, a + 1, a)
    d = greater - 1 / 3
    c = 1 / plugrad.sqrt(9 * d)
    found, is_found = d, greater < 0
    for _ in range(MAX_GAMMA_PROPOSALS):
        x, u = random_source.normal(), random_source.uniform()
        v = (1 + c * x) ** 3
        safe = plugrad.where(v > 0, v, 1)
        is_accepted = (v > 0) & (plugrad.log(u) < 0.5 * x * x + d * (1 - safe + plugrad.log(safe)))
        found = plugrad.where(is_accepted & ~is_found, d * safe, found)
        is_found = is_found | is_accepted
    power = plugrad.log(random_source.uniform()) / plugrad.where(is_small, a, 1)
    z = plugrad.where(is_small, found * plugrad.exp(power), found)
    z = plugrad.stop_gradient(z)
    if not concentration.is_being_differentiated() and not is_traced(concentration):
        return z
    # A change of the concentration moves z so that the part of numbers below it stays.
    part = call_elementwise("gammainc", lambda a, x: gammainc_values(a, x)[0], concentration, z)
    density = plugrad.exp(Gamma(a, plugrad.ones_like(a)).log_prob(z))
    return z - (part - plugrad.stop_gradient(part)) / density


def _betaln(a: Tensor, b: Tensor) -> Tensor:
    """Return the logarithm of the beta function without double-double arithmetic, which takes longer."""
    return call_elementwise("betaln", betaln_values, a, b)


@dataclass(frozen=True)
class Gamma(Distribution):
    """The gamma distribution of a concentration and a rate.

    >>> distributions.Gamma(2.0, 4.0).mean
    tensor(0.5, dtype=float32)
    """

    concentration: Any
    rate: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return draw_gamma(self.concentration, random_source) / self.rate

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x, a = self._as_value(x), self.concentration
        safe = plugrad.where(x >= 0, x, 1)
        found = xlogy(a, self.rate) + xlogy(a - 1, safe) - self.rate * safe - gammaln(a)
        return plugrad.where(x >= 0, found, log_of_no_probability(x))

    def cdf(self, x: Any) -> Tensor:
        """The probability of a number up to x."""
        return gammainc(self.concentration, plugrad.maximum(self._as_value(x), 0) * self.rate)

    @in_double_precision
    def entropy(self) -> Tensor:
        a = self.concentration
        return a - plugrad.log(self.rate) + gammaln(a) + (1 - a) * digamma(a)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2


@dataclass(frozen=True)
class Chi2(Distribution):
    """The distribution of the sum of the squares of `df` normal numbers.

    >>> distributions.Chi2(3.0).variance
    tensor(6., dtype=float32)
    """

    df: Any

    def as_gamma(self) -> Gamma:
        """The same distribution as a gamma distribution."""
        return Gamma(self.df / 2, plugrad.ones_like(self.df) / 2)

    def _draw_samples(self, random_source: Any) -> Tensor:
        return 2 * draw_gamma(self.df / 2, random_source)

    def log_prob(self, x: Any) -> Tensor:
        return self.as_gamma().log_prob(x)

    def entropy(self) -> Tensor:
        return self.as_gamma().entropy()

    @property
    def mean(self) -> Tensor:
        return self.df

    @property
    def variance(self) -> Tensor:
        return 2 * self.df


@dataclass(frozen=True)
class InverseGamma(Distribution):
    """The distribution of ``rate / z`` for gamma numbers z.

    >>> distributions.InverseGamma(3.0, 4.0).mean
    tensor(2., dtype=float32)
    """

    concentration: Any
    rate: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        return self.rate / draw_gamma(self.concentration, random_source)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x, a = self._as_value(x), self.concentration
        safe = plugrad.where(x > 0, x, 1)
        found = xlogy(a, self.rate) - (a + 1) * plugrad.log(safe) - self.rate / safe - gammaln(a)
        return plugrad.where(x > 0, found, log_of_no_probability(x))

    @in_double_precision
    def entropy(self) -> Tensor:
        a = self.concentration
        return a + plugrad.log(self.rate) + gammaln(a) - (1 + a) * digamma(a)

    @property
    def mean(self) -> Tensor:
        a = plugrad.where(self.concentration > 1, self.concentration, 2)
        return plugrad.where(self.concentration > 1, self.rate / (a - 1), inf)

    @property
    def variance(self) -> Tensor:
        a = plugrad.where(self.concentration > 2, self.concentration, 3)
        found = self.rate**2 / ((a - 1) ** 2 * (a - 2))
        return plugrad.where(self.concentration > 2, found, inf)


@dataclass(frozen=True)
class Beta(Distribution):
    """The beta distribution between 0 and 1.

    >>> distributions.Beta(2.0, 2.0).log_prob(0.5)
    tensor(0.4054651, dtype=float32)
    """

    a: Any
    b: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        first, second = draw_gamma(self.a, random_source), draw_gamma(self.b, random_source)
        return first / (first + second)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        x = self._as_value(x)
        is_inside = (x >= 0) & (x <= 1)
        safe = plugrad.where(is_inside, x, 0.5)
        found = xlogy(self.a - 1, safe) + xlog1py(self.b - 1, -safe) - _betaln(self.a, self.b)
        return plugrad.where(is_inside, found, log_of_no_probability(x))

    @in_double_precision
    def entropy(self) -> Tensor:
        a, b = self.a, self.b
        return (
            betaln(a, b)
            - (a - 1) * digamma(a)
            - (b - 1) * digamma(b)
            + (a + b - 2) * digamma(a + b)
        )

    @property
    def mean(self) -> Tensor:
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> Tensor:
        total = self.a + self.b
        return self.a * self.b / (total**2 * (total + 1))


@dataclass(frozen=True)
class StudentT(Distribution):
    """Student's distribution of `df` degrees of freedom, shifted by `loc` and scaled by `scale`.

    >>> distributions.StudentT(5.0, 1.0, 2.0).mean
    tensor(1., dtype=float32)
    """

    df: Any
    loc: Any
    scale: Any

    def _draw_samples(self, random_source: Any) -> Tensor:
        z = random_source.normal()
        return self.loc + self.scale * z * plugrad.sqrt(
            self.df / (2 * draw_gamma(self.df / 2, random_source))
        )

    def log_prob(self, x: Any) -> Tensor:
        z = (self._as_value(x) - self.loc) / self.scale
        half = (self.df + 1) / 2
        constant = -_betaln(self.df / 2, 0.5 + 0 * self.df) - 0.5 * plugrad.log(self.df)
        return constant - plugrad.log(self.scale) - half * log1p_square(z / plugrad.sqrt(self.df))

    @in_double_precision
    def entropy(self) -> Tensor:
        v = self.df / 2
        is_large = v > 100  # digamma(v + 1 / 2) - digamma(v) is a series there
        safe = plugrad.where(is_large, 1, v)
        inverse = 1 / plugrad.where(is_large, v, 100)
        square = inverse * inverse
        series = inverse / 2 + square * (1 / 8 - square * (1 / 64 - square / 128))
        gap = plugrad.where(is_large, series, digamma(safe + 0.5) - digamma(safe))
        spread = 0.5 * plugrad.log(self.df) + _betaln(v, 0.5 + 0 * v)
        return (v + 0.5) * gap + spread + plugrad.log(self.scale)

    @property
    def mean(self) -> Tensor:
        return plugrad.where(self.df > 1, self.loc, nan)

    @property
    def variance(self) -> Tensor:
        df = plugrad.where(self.df > 2, self.df, 3)
        found = self.scale**2 * df / (df - 2)
        return plugrad.where(self.df > 2, found, plugrad.where(self.df > 1, inf, nan))


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """The Dirichlet distribution of shares that add up to 1, along the last axis.

    >>> distributions.Dirichlet([1.0, 3.0]).mean
    tensor([0.25, 0.75], dtype=float32)
    """

    concentration: Any
    event_rank = 1

    def _draw_samples(self, random_source: Any) -> Tensor:
        numbers = draw_gamma(self.concentration, random_source)
        return numbers / plugrad.sum(numbers, axis=-1, keepdims=True)

    @in_double_precision
    def log_prob(self, x: Any) -> Tensor:
        a = self.concentration
        terms = plugrad.sum(xlogy(a - 1, self._as_value(x)), axis=-1)
        return terms - self.log_normalizer()

    def log_normalizer(self) -> Tensor:
        """The logarithm of the integral of the powers of the shares."""
        a = self.concentration
        return plugrad.sum(gammaln(a), axis=-1) - gammaln(plugrad.sum(a, axis=-1))

    @in_double_precision
    def entropy(self) -> Tensor:
        a = self.concentration
        total = plugrad.sum(a, axis=-1)
        count = a.shape[-1]
        inner = plugrad.sum((a - 1) * digamma(a), axis=-1)
        return self.log_normalizer() + (total - count) * digamma(total) - inner

    @property
    def mean(self) -> Tensor:
        return self.concentration / plugrad.sum(self.concentration, axis=-1, keepdims=True)

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1 - mean) / (plugrad.sum(self.concentration, axis=-1, keepdims=True) + 1)
