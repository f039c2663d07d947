"""Kullback-Leibler divergences of pairs of distributions that have one in closed form."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError
from plugrad_numerics import continuous, discrete, gamma_family
from plugrad_numerics.entropies import rel_entr
from plugrad_numerics.gamma_functions import betaln, digamma, gamma, gammaln
from plugrad_numerics.multivariate import MultivariateNormal, half_log_determinant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_numerics.distribution import Distribution

EULER = continuous.EULER


def kl(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of q from p: the mean of ``p.log_prob(x) - q.log_prob(x)`` for samples x of p.

    >>> distributions.kl(distributions.Normal(0.0, 1.0), distributions.Normal(1.0, 1.0))
    tensor(0.5, dtype=float32)

    It exists for two distributions of one class, other than HalfCauchy, Kumaraswamy, Logistic, NegativeBinomial,
    StudentT and TruncatedNormal, and for two of Gamma, Chi2 and Exponential.

    Raises:
        ArgumentError: there is none in closed form for these classes.
    """
    if type(p) in AS_GAMMA and type(q) in AS_GAMMA and type(p) is not type(q):
        p, q = AS_GAMMA[type(p)](p), AS_GAMMA[type(q)](q)
    rule = RULES.get(type(p)) if type(p) is type(q) else None
    if rule is None:
        raise ArgumentError(
            f"kl: {type(p).__name__} and {type(q).__name__} have no divergence in closed form; estimate it by the "
            "mean of p.log_prob(x) - q.log_prob(x) for x = p.sample(shape)"
        )
    return rule(p, q)


def _normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio**2 + ((p.loc - q.loc) / q.scale) ** 2 - 1) - plugrad.log(ratio)


def _half_normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio**2 - 1) - plugrad.log(ratio)


def _uniform(p: Any, q: Any) -> Tensor:
    found = plugrad.log((q.high - q.low) / (p.high - p.low))
    return plugrad.where((q.low <= p.low) & (p.high <= q.high), found, inf)


def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - plugrad.log(ratio)


def _laplace(p: Any, q: Any) -> Tensor:
    distance = plugrad.abs(p.loc - q.loc)
    near = p.scale * plugrad.exp(-distance / p.scale)
    return plugrad.log(q.scale / p.scale) + (near + distance) / q.scale - 1


def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    moved = plugrad.exp(-shift + gammaln(1 + ratio))
    return plugrad.log(q.scale / p.scale) + EULER * (ratio - 1) + shift + moved - 1


def _cauchy(p: Any, q: Any) -> Tensor:
    squares = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return plugrad.log(squares / (4 * p.scale * q.scale))


def _weibull(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    ratio = b * plugrad.log(p.scale / q.scale)
    moved = plugrad.exp(ratio) * gamma(1 + b / a)
    return plugrad.log(a / b) - ratio + EULER * (b / a - 1) + moved - 1


def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * plugrad.log(p.scale / q.scale) - plugrad.log(ratio) + ratio - 1
    return plugrad.where(p.scale >= q.scale, found, inf)


def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    ratio = q.rate / p.rate
    found = (a - b) * digamma(a) - gammaln(a) + gammaln(b)
    return found - b * plugrad.log(ratio) + a * (ratio - 1)


def _chi2(p: Any, q: Any) -> Tensor:
    return _gamma(p.as_gamma(), q.as_gamma())


def _beta(p: Any, q: Any) -> Tensor:
    total = (q.a + q.b - p.a - p.b) * digamma(p.a + p.b)
    inner = (p.a - q.a) * digamma(p.a) + (p.b - q.b) * digamma(p.b)
    return betaln(q.a, q.b) - betaln(p.a, p.b) + inner + total


def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = digamma(plugrad.sum(a, axis=-1, keepdims=True))
    inner = plugrad.sum((a - b) * (digamma(a) - total), axis=-1)
    return q.log_normalizer() - p.log_normalizer() + inner


def _multivariate_normal(p: Any, q: Any) -> Tensor:
    first, second = (plugrad.linalg.cholesky(d.covariance) for d in (p, q))
    offset = (q.loc - p.loc)[..., None]
    z = plugrad.linalg.solve_triangular(second, offset, lower=True)
    inner = plugrad.linalg.solve_triangular(second, first, lower=True)
    squares = plugrad.sum(inner**2, axis=(-2, -1)) + plugrad.sum(z**2, axis=(-2, -1))
    logarithm = half_log_determinant(second) - half_log_determinant(first)
    return 0.5 * (squares - p.loc.shape[-1]) + logarithm


def _bernoulli(p: Any, q: Any) -> Tensor:
    a, b = p.probability, q.probability
    return rel_entr(a, b) + rel_entr(1 - a, 1 - b)


def _geometric(p: Any, q: Any) -> Tensor:
    return _bernoulli(p, q) / p.probability


def _poisson(p: Any, q: Any) -> Tensor:
    return rel_entr(p.rate, q.rate) - p.rate + q.rate


def _binomial(p: Any, q: Any) -> Tensor:
    if p.count != q.count:
        raise ArgumentValueError(
            f"kl: the counts {p.count} and {q.count} of two binomial distributions must be equal"
        )
    return p.count * _bernoulli(p, q)


def _categorical(p: Any, q: Any) -> Tensor:
    first, second = p.log_probabilities(), q.log_probabilities()
    is_possible = first > -inf
    offset = plugrad.where(is_possible, first, 0) - plugrad.where(is_possible, second, 0)
    return plugrad.sum(plugrad.where(is_possible, plugrad.exp(first) * offset, 0), axis=-1)


RULES: Final[dict[type, Callable[[Any, Any], Tensor]]] = {
    continuous.Normal: _normal,
    continuous.LogNormal: _normal,
    continuous.HalfNormal: _half_normal,
    continuous.Uniform: _uniform,
    continuous.Exponential: _exponential,
    continuous.Laplace: _laplace,
    continuous.Gumbel: _gumbel,
    continuous.Cauchy: _cauchy,
    continuous.Weibull: _weibull,
    continuous.Pareto: _pareto,
    gamma_family.Gamma: _gamma,
    gamma_family.InverseGamma: _gamma,
    gamma_family.Chi2: _chi2,
    gamma_family.Beta: _beta,
    gamma_family.Dirichlet: _dirichlet,
    MultivariateNormal: _multivariate_normal,
    discrete.Bernoulli: _bernoulli,
    discrete.Geometric: _geometric,
    discrete.Poisson: _poisson,
    discrete.Binomial: _binomial,
    discrete.Categorical: _categorical,
}
AS_GAMMA: Final[dict[type, Callable[[Any], Distribution]]] = {
    gamma_family.Gamma: lambda p: p,
    gamma_family.Chi2: lambda p: p.as_gamma(),
    continuous.Exponential: lambda p: gamma_family.Gamma(plugrad.ones_like(p.rate), p.rate),
}
