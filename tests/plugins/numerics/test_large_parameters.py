"""Distributions of large parameters, at which terms of densities, entropies and divergences cancel."""

import numpy as np
import pytest
import scipy.stats as st

import plugrad
from plugrad_numerics import distributions


def make_distribution(name, values, dtype):
    return getattr(distributions, name)(
        *(v if type(v) is int else plugrad.asarray(np.float32(v), dtype=dtype) for v in values)
    )


LARGE_PARAMETERS = {
    "Gamma": ((1e6, 2.0), (1.01e6, 2.0), 5e5),
    "Chi2": ((1e6,), (1.01e6,), 1e6),
    "InverseGamma": ((1e6, 2.0), (1.01e6, 2.0), 2e-6),
    "Beta": ((1e6, 2e6), (1.01e6, 2e6), 0.3333),
    "Dirichlet": (([1e6, 2e6],), ([1.01e6, 2e6],), [0.3333, 0.6667]),
    "StudentT": ((1e8, 0.0, 1.0), (100.0, 0.0, 1.0), 2.0),
    "Poisson": ((1e6,), (1.01e6,), 999000.0),
    "Binomial": ((10**5, 0.3), (10**5, 0.301), 30100.0),
    "NegativeBinomial": ((1e6, 0.3), (1e6, 0.301), 2.334e6),
    "Geometric": ((1e-6,), (1.01e-6,), 1e6),
    "Kumaraswamy": ((1e4, 1e4), (1.01e4, 1e4), 0.999),
}
"""The parameters of two distributions whose terms cancel, and a number."""


@pytest.mark.parametrize("name", LARGE_PARAMETERS)
def test_single_precision_is_enough_for_large_parameters(name):
    *both, x = LARGE_PARAMETERS[name]
    for backend in ("cpu", "wasm"):
        found = {}
        with plugrad.use(backend):
            for dtype in ("float32", "float64"):
                p, q = (make_distribution(name, values, dtype) for values in both)
                values = p.log_prob(np.float32(x)), p.entropy(), distributions.kl(p, q)
                found[dtype] = [v.numpy() for v in (*values, p.mean, p.variance)]
        assert found["float32"][0].dtype == "float32"
        for single, double in zip(found["float32"], found["float64"], strict=True):
            np.testing.assert_allclose(single, double, rtol=2e-5, atol=1e-6)


def test_student_s_distribution_of_many_degrees_of_freedom_is_nearly_normal():
    with plugrad.use("cpu"):
        for df in (1e4, 1e7, 1e10, 1e15):
            d = make_distribution("StudentT", (df, 0.0, 1.0), "float64")
            np.testing.assert_allclose(
                d.log_prob([0.0, 2.0]),
                st.norm.logpdf([0, 2]) + np.array([-1, 7]) / 4 / df,
                atol=1e-8,
            )
            np.testing.assert_allclose(d.entropy(), st.norm.entropy() + 1 / df, rtol=1e-8)


@pytest.mark.parametrize("rate", [1e6, 1e7])
def test_poisson_numbers_of_large_rates_in_single_precision(rate):
    for backend in ("cpu", "wasm"):
        with plugrad.use(backend):
            d = make_distribution("Poisson", (rate,), "float32")
            x = d.sample((20000,), generator=plugrad.random.Generator(34)).numpy().astype("float64")
        assert abs(x.mean() - rate) < 4 * (rate / x.size) ** 0.5
        assert abs(x.var() / rate - 1) < 0.04  # four standard deviations


def test_gamma_numbers_of_large_concentrations_have_gradients_in_single_precision():
    def draw(a):
        d = distributions.Gamma(a, plugrad.ones_like(a))
        return plugrad.sum(d.sample(generator=plugrad.random.Generator(34)))

    for backend in ("cpu", "wasm"):
        with plugrad.use(backend):
            found = plugrad.grad(draw)(plugrad.full((50,), 1e6)).numpy()
        # A number is about a + z * sqrt(a) of a normal number z.
        np.testing.assert_allclose(found, 1, atol=3e-3)


def test_half_cauchy_distributions_have_heavy_tails(backend):
    found = distributions.HalfCauchy(2.0).log_prob(1e30)
    assert found.item() == pytest.approx(st.halfcauchy(scale=2).logpdf(1e30), rel=1e-5)
