"""Kullback-Leibler divergences of pairs of distributions, in closed form or by a sum over the nodes of an integral."""

from __future__ import annotations

from dataclasses import fields
from math import inf, pi
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError
from plugrad_numerics import continuous, discrete, gamma_family
from plugrad_numerics.distribution import in_double_precision
from plugrad_numerics.double_exponential import (
    exponential_nodes_and_weights,
    line_nodes_and_weights,
)
from plugrad_numerics.entropies import log1mexp, rel_entr
from plugrad_numerics.gamma_functions import betaln, digamma, gamma, gammaln
from plugrad_numerics.multivariate import MultivariateNormal, half_log_determinant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_numerics.distribution import Distribution

EULER_GAMMA = continuous.EULER_GAMMA


def kl(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of q from p: the mean of ``p.log_prob(x) - q.log_prob(x)`` for samples x of p.

    >>> distributions.kl(distributions.Normal(0.0, 1.0), distributions.Normal(1.0, 1.0))
    tensor(0.5, dtype=float32)

    It exists for two distributions of one class, and for two of Gamma, Chi2 and Exponential. That of HalfCauchy,
    Kumaraswamy, Logistic, NegativeBinomial and StudentT is an integral, computed to some 1e-10 in double precision;
    scales that differ by more than a factor of 100 cost digits.

    Raises:
        ArgumentError: there is none for these classes.
    """
    if (
        type(p) in CONVERSIONS_TO_GAMMA
        and type(q) in CONVERSIONS_TO_GAMMA
        and type(p) is not type(q)
    ):
        p, q = CONVERSIONS_TO_GAMMA[type(p)](p), CONVERSIONS_TO_GAMMA[type(q)](q)
    rule = KL_RULES.get(type(p)) if type(p) is type(q) else None
    if rule is None:
        raise ArgumentError(
            f"kl: {type(p).__name__} and {type(q).__name__} have no divergence; estimate it by the "
            "mean of p.log_prob(x) - q.log_prob(x) for x = p.sample(shape)"
        )
    return rule(p, q)


def _kl_normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio**2 + ((p.loc - q.loc) / q.scale) ** 2 - 1) - plugrad.log(ratio)


def _kl_half_normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    return 0.5 * (ratio**2 - 1) - plugrad.log(ratio)


def _kl_uniform(p: Any, q: Any) -> Tensor:
    found = plugrad.log((q.high - q.low) / (p.high - p.low))
    return plugrad.where((q.low <= p.low) & (p.high <= q.high), found, inf)


def _kl_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - plugrad.log(ratio)


def _kl_laplace(p: Any, q: Any) -> Tensor:
    distance = plugrad.abs(p.loc - q.loc)
    near = p.scale * plugrad.exp(-distance / p.scale)
    return plugrad.log(q.scale / p.scale) + (near + distance) / q.scale - 1


def _kl_gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    moved = plugrad.exp(-shift + gammaln(1 + ratio))
    return plugrad.log(q.scale / p.scale) + EULER_GAMMA * (ratio - 1) + shift + moved - 1


def _kl_cauchy(p: Any, q: Any) -> Tensor:
    squares = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return plugrad.log(squares / (4 * p.scale * q.scale))


@in_double_precision
def _kl_weibull(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    ratio = b * plugrad.log(p.scale / q.scale)
    moved = plugrad.exp(ratio) * gamma(1 + b / a)
    return plugrad.log(a / b) - ratio + EULER_GAMMA * (b / a - 1) + moved - 1


def _kl_pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * plugrad.log(p.scale / q.scale) - plugrad.log(ratio) + ratio - 1
    return plugrad.where(p.scale >= q.scale, found, inf)


@in_double_precision
def _kl_gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    ratio = q.rate / p.rate
    found = (a - b) * digamma(a) - gammaln(a) + gammaln(b)
    return found - b * plugrad.log(ratio) + a * (ratio - 1)


def _kl_chi2(p: Any, q: Any) -> Tensor:
    return _kl_gamma(p.as_gamma(), q.as_gamma())


@in_double_precision
def _kl_beta(p: Any, q: Any) -> Tensor:
    total = (q.a + q.b - p.a - p.b) * digamma(p.a + p.b)
    inner = (p.a - q.a) * digamma(p.a) + (p.b - q.b) * digamma(p.b)
    return betaln(q.a, q.b) - betaln(p.a, p.b) + inner + total


@in_double_precision
def _kl_dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = digamma(plugrad.sum(a, axis=-1, keepdims=True))
    inner = plugrad.sum((a - b) * (digamma(a) - total), axis=-1)
    return q.log_normalizer() - p.log_normalizer() + inner


def _kl_multivariate_normal(p: Any, q: Any) -> Tensor:
    first, second = (plugrad.linalg.cholesky(d.covariance) for d in (p, q))
    offset = (q.loc - p.loc)[..., None]
    z = plugrad.linalg.solve_triangular(second, offset, lower=True)
    inner = plugrad.linalg.solve_triangular(second, first, lower=True)
    squares = plugrad.sum(inner**2, axis=(-2, -1)) + plugrad.sum(z**2, axis=(-2, -1))
    logarithm = half_log_determinant(second) - half_log_determinant(first)
    return 0.5 * (squares - p.loc.shape[-1]) + logarithm


def _kl_logistic(p: Any, q: Any) -> Tensor:
    # With probability exp(-s) of a smaller one, a number is loc - scale * log(exp(s) - 1).
    (p, q), (s, weights) = _expand_along_nodes(p, q, exponential_nodes_and_weights)
    above = log1mexp(-s)
    own = above - s - plugrad.log(p.scale)
    return plugrad.sum(weights * (own - q.log_prob(p.loc - p.scale * (s + above))), axis=-1)


def _kl_half_cauchy(p: Any, q: Any) -> Tensor:
    (p, q), (s, weights) = _expand_along_nodes(p, q, exponential_nodes_and_weights)
    # The tangent of a part of a right angle, near both ends of which single precision needs the nearer one.
    is_near = s > 0.7
    near = plugrad.tan(pi / 2 * plugrad.exp(-plugrad.where(is_near, s, 1)))
    far = 1 / plugrad.tan(-pi / 2 * plugrad.expm1(-plugrad.where(is_near, 0.5, s)))
    x = p.scale * plugrad.where(is_near, near, far)
    return plugrad.sum(weights * (p.log_prob(x) - q.log_prob(x)), axis=-1)


@in_double_precision
def _kl_kumaraswamy(p: Any, q: Any) -> Tensor:
    known = plugrad.log(p.a * p.b / (q.a * q.b)) - (p.b - 1) / p.b
    known = known - (p.a - q.a) / p.a * (digamma(p.b + 1) + EULER_GAMMA)
    # 1 - x**p.a is exp(-s / p.b) of an exponential number s, and the mean of log(1 - x**q.a) is left.
    (p, q), (s, weights) = _expand_along_nodes(p, q, exponential_nodes_and_weights)
    power = plugrad.minimum(q.a / p.a * log1mexp(-s / p.b), -1e-30)
    return known - plugrad.sum(weights * (q.b - 1) * log1mexp(power), axis=-1)


@in_double_precision
def _kl_student_t(p: Any, q: Any) -> Tensor:
    (p, q), (z, weights) = _expand_along_nodes(p, q, line_nodes_and_weights)
    x = p.loc + p.scale * z
    own = p.log_prob(x)
    terms = plugrad.exp(own) * (own - q.log_prob(x))
    return plugrad.sum(weights * p.scale * terms, axis=-1)


def _kl_truncated_normal(p: Any, q: Any) -> Tensor:
    mean, variance = p.mean, p.variance
    ratio = q.log_probability_between_bounds() - p.log_probability_between_bounds()
    squares = [(variance + (mean - d.loc) ** 2) / d.scale**2 for d in (q, p)]
    found = ratio + plugrad.log(q.scale / p.scale) + 0.5 * (squares[0] - squares[1])
    return plugrad.where((q.low <= p.low) & (p.high <= q.high), found, inf)


@in_double_precision
def _kl_negative_binomial(p: Any, q: Any) -> Tensor:
    found = p.mean_of_log_ratio(p.count, q.count) - gammaln(p.count) + gammaln(q.count)
    found = found + p.count * plugrad.log(p.probability) - q.count * plugrad.log(q.probability)
    return found + p.mean * (plugrad.log1p(-p.probability) - plugrad.log1p(-q.probability))


def _expand_along_nodes(p: Any, q: Any, nodes: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Any:
    """Return p and q with a new axis for quadrature nodes, and the nodes and weights along that axis."""
    values = [[getattr(d, f.name)[..., None] for f in fields(d)] for d in (p, q)]
    return (type(p)(*values[0]), type(q)(*values[1])), nodes(values[0][0])


@in_double_precision
def _kl_bernoulli(p: Any, q: Any) -> Tensor:
    a, b = p.probability, q.probability
    return rel_entr(a, b) + rel_entr(1 - a, 1 - b)


def _kl_geometric(p: Any, q: Any) -> Tensor:
    return _kl_bernoulli(p, q) / p.probability


@in_double_precision
def _kl_poisson(p: Any, q: Any) -> Tensor:
    return rel_entr(p.rate, q.rate) - p.rate + q.rate


def _kl_binomial(p: Any, q: Any) -> Tensor:
    if p.count != q.count:
        raise ArgumentValueError(
            f"kl: the counts {p.count} and {q.count} of two binomial distributions must be equal"
        )
    return p.count * _kl_bernoulli(p, q)


def _kl_categorical(p: Any, q: Any) -> Tensor:
    first, second = p.log_probabilities(), q.log_probabilities()
    is_possible = first > -inf
    offset = plugrad.where(is_possible, first, 0) - plugrad.where(is_possible, second, 0)
    return plugrad.sum(plugrad.where(is_possible, plugrad.exp(first) * offset, 0), axis=-1)


KL_RULES: Final[dict[type, Callable[[Any, Any], Tensor]]] = {
    continuous.Normal: _kl_normal,
    continuous.LogNormal: _kl_normal,
    continuous.HalfNormal: _kl_half_normal,
    continuous.Uniform: _kl_uniform,
    continuous.Exponential: _kl_exponential,
    continuous.Laplace: _kl_laplace,
    continuous.Gumbel: _kl_gumbel,
    continuous.Cauchy: _kl_cauchy,
    continuous.Weibull: _kl_weibull,
    continuous.Pareto: _kl_pareto,
    continuous.Logistic: _kl_logistic,
    continuous.HalfCauchy: _kl_half_cauchy,
    continuous.Kumaraswamy: _kl_kumaraswamy,
    continuous.TruncatedNormal: _kl_truncated_normal,
    gamma_family.StudentT: _kl_student_t,
    gamma_family.Gamma: _kl_gamma,
    gamma_family.InverseGamma: _kl_gamma,
    gamma_family.Chi2: _kl_chi2,
    gamma_family.Beta: _kl_beta,
    gamma_family.Dirichlet: _kl_dirichlet,
    MultivariateNormal: _kl_multivariate_normal,
    discrete.Bernoulli: _kl_bernoulli,
    discrete.Geometric: _kl_geometric,
    discrete.Poisson: _kl_poisson,
    discrete.Binomial: _kl_binomial,
    discrete.NegativeBinomial: _kl_negative_binomial,
    discrete.Categorical: _kl_categorical,
}
"""The functions for divergences of two distributions of one class."""
CONVERSIONS_TO_GAMMA: Final[dict[type, Callable[[Any], Distribution]]] = {
    gamma_family.Gamma: lambda p: p,
    gamma_family.Chi2: lambda p: p.as_gamma(),
    continuous.Exponential: lambda p: gamma_family.Gamma(plugrad.ones_like(p.rate), p.rate),
}
"""The functions that return a distribution of a class as a gamma distribution."""
