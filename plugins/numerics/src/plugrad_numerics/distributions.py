"""Probability distributions: samples, log_prob, entropy, kl, with gradients.

Parameters broadcast; ``sample(shape)`` puts a shape in front of that of the parameters. Samples have gradients where
`is_reparametrized`. Names and parameters are those of TensorFlow Probability and PyTorch where these agree.
"""

from plugrad_numerics.continuous import (
    Cauchy as Cauchy,
    Exponential as Exponential,
    Gumbel as Gumbel,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    Kumaraswamy as Kumaraswamy,
    Laplace as Laplace,
    Logistic as Logistic,
    LogNormal as LogNormal,
    Normal as Normal,
    Pareto as Pareto,
    TruncatedNormal as TruncatedNormal,
    Uniform as Uniform,
    Weibull as Weibull,
)
from plugrad_numerics.discrete import (
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    Categorical as Categorical,
    Geometric as Geometric,
    NegativeBinomial as NegativeBinomial,
    Poisson as Poisson,
)
from plugrad_numerics.distribution import Distribution as Distribution
from plugrad_numerics.divergences import kl as kl
from plugrad_numerics.gamma_family import (
    Beta as Beta,
    Chi2 as Chi2,
    Dirichlet as Dirichlet,
    Gamma as Gamma,
    InverseGamma as InverseGamma,
    StudentT as StudentT,
)
from plugrad_numerics.multivariate import MultivariateNormal as MultivariateNormal
