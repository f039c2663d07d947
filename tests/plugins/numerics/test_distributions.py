"""Distributions against SciPy: densities, moments, entropies, divergences, samples and their gradients."""

from inspect import isabstract, signature

import numpy as np
import pytest
import scipy.stats as st
from scipy.integrate import quad

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError
from plugrad.testing import check_gradient
from plugrad_numerics import distributions


class _Kumaraswamy(st.rv_continuous):
    """The Kumaraswamy distribution, which SciPy lacks: ``x**a`` has the distribution Beta(1, b)."""

    def _pdf(self, x, a, b):
        return st.beta(1, b).pdf(x**a) * a * x ** (a - 1)

    def _cdf(self, x, a, b):
        return st.beta(1, b).cdf(x**a)

    def _ppf(self, p, a, b):
        return st.beta(1, b).ppf(p) ** (1 / a)


kumaraswamy = _Kumaraswamy(a=0.0, b=1.0, name="kumaraswamy", shapes="a, b")
CONTINUOUS_DISTRIBUTIONS = {
    "Normal": ((0.3, 1.2), (0.1, 0.9), lambda m, s: st.norm(m, s)),
    "LogNormal": ((0.3, 0.7), (0.1, 0.9), lambda m, s: st.lognorm(s, scale=np.exp(m))),
    "HalfNormal": ((1.3,), (0.9,), lambda s: st.halfnorm(scale=s)),
    "Uniform": ((-1.0, 2.5), (-1.5, 3.0), lambda a, b: st.uniform(a, b - a)),
    "Exponential": ((1.7,), (0.8,), lambda r: st.expon(scale=1 / r)),
    "Laplace": ((0.3, 1.2), (0.1, 0.9), lambda m, s: st.laplace(m, s)),
    "Logistic": ((0.3, 1.2), (0.1, 0.9), lambda m, s: st.logistic(m, s)),
    "Gumbel": ((0.3, 1.2), (0.1, 0.9), lambda m, s: st.gumbel_r(m, s)),
    "Cauchy": ((0.3, 1.2), (0.1, 0.9), lambda m, s: st.cauchy(m, s)),
    "HalfCauchy": ((1.2,), (0.4,), lambda s: st.halfcauchy(scale=s)),
    "Weibull": ((1.3, 2.2), (0.9, 1.4), lambda s, k: st.weibull_min(k, scale=s)),
    "Pareto": ((1.3, 3.2), (1.1, 2.0), lambda s, a: st.pareto(a, scale=s)),
    "Kumaraswamy": ((1.3, 2.2), (0.7, 1.4), kumaraswamy),
    "TruncatedNormal": (
        (0.3, 1.2, -1.0, 2.0),
        (0.1, 0.9, -1.5, 2.5),
        lambda m, s, a, b: st.truncnorm((a - m) / s, (b - m) / s, m, s),
    ),
    "Gamma": ((2.3, 1.7), (1.2, 0.9), lambda a, r: st.gamma(a, scale=1 / r)),
    "Chi2": ((3.4,), (2.2,), lambda k: st.chi2(k)),
    "InverseGamma": ((3.3, 1.7), (2.2, 0.9), lambda a, r: st.invgamma(a, scale=r)),
    "Beta": ((0.8, 1.7), (1.2, 0.9), lambda a, b: st.beta(a, b)),
    "StudentT": ((4.5, 0.3, 1.2), (2.5, 0.1, 0.9), lambda k, m, s: st.t(k, m, s)),
}
DISCRETE_DISTRIBUTIONS = {
    "Bernoulli": ((0.3,), (0.6,), lambda p: st.bernoulli(p)),
    "Geometric": ((0.3,), (0.6,), lambda p: st.geom(p, loc=-1)),
    "Poisson": ((3.3,), (2.1,), lambda r: st.poisson(r)),
    "Binomial": ((7, 0.3), (7, 0.6), lambda n, p: st.binom(n, p)),
    "NegativeBinomial": ((2.5, 0.3), (1.7, 0.4), lambda n, p: st.nbinom(n, p)),
}
ALL_DISTRIBUTIONS = {**CONTINUOUS_DISTRIBUTIONS, **DISCRETE_DISTRIBUTIONS}
NAMES_IN_SCIPY = [name for name, case in ALL_DISTRIBUTIONS.items() if case[2] is not None]
FLOAT64 = "float64"


def as_parameter(value, dtype):
    return value if type(value) is int else plugrad.asarray(value, dtype=dtype)


def make_distribution(name, values, dtype="float32"):
    return getattr(distributions, name)(*(as_parameter(v, dtype) for v in values))


def log_density(name, peer, x):
    return peer.logpmf(x) if name in DISCRETE_DISTRIBUTIONS else peer.logpdf(x)


def entropy(name, peer):
    if name != "NegativeBinomial":
        return peer.entropy()
    terms = peer.logpmf(np.arange(400))  # SciPy stops at a tail of 1e-10
    return -np.sum(np.exp(terms) * terms)


def test_there_are_at_least_25_distributions():
    found = [
        d
        for d in vars(distributions).values()
        if isinstance(d, type) and d is not distributions.Distribution
    ]
    assert len(found) == 27
    assert {d.__name__ for d in found} == {
        *ALL_DISTRIBUTIONS,
        "Categorical",
        "Dirichlet",
        "MultivariateNormal",
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES_IN_SCIPY)
def test_densities_moments_and_entropies(name, backend):
    values, _, make_peer = ALL_DISTRIBUTIONS[name]
    peer = make_peer(*values)
    for dtype, allowed in (("float32", 2e-4), (FLOAT64, 1e-12)):
        if dtype == FLOAT64 and backend != "cpu":
            continue
        d = make_distribution(name, values, dtype)
        x = peer.rvs(20, random_state=1).astype(dtype)
        expected = log_density(name, peer, x.astype(FLOAT64))
        found = d.log_prob(x)
        assert (found.dtype, found.shape) == (dtype, (20,))
        np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed)
        if name == "Kumaraswamy":  # SciPy integrates
            allowed = max(allowed, 1e-8)
        if "Cauchy" not in name:
            np.testing.assert_allclose(d.mean, peer.mean(), rtol=allowed)
            np.testing.assert_allclose(d.variance, peer.var(), rtol=allowed * 5)
        np.testing.assert_allclose(d.entropy(), entropy(name, peer), rtol=allowed, atol=allowed)


@pytest.mark.parametrize("name", NAMES_IN_SCIPY)
def test_the_density_at_nan_is_nan(name, backend):
    d = make_distribution(name, ALL_DISTRIBUTIONS[name][0])
    assert np.isnan(d.log_prob(plugrad.nan).item())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES_IN_SCIPY)
def test_samples_follow_the_distribution_of_scipy(name):
    values, _, make_peer = ALL_DISTRIBUTIONS[name]
    peer = make_peer(*values)
    with plugrad.use("cpu"):
        x = (
            make_distribution(name, values, FLOAT64)
            .sample((4000,), generator=plugrad.random.Generator(34))
            .numpy()
        )
    if name in CONTINUOUS_DISTRIBUTIONS:
        assert st.kstest(x, peer.cdf).pvalue > 1e-3
    else:
        counts = np.bincount(x.astype(int), minlength=40)[:40]
        expected = 4000 * peer.pmf(np.arange(40))
        frequent = expected > 5
        statistic = np.sum((counts - expected)[frequent] ** 2 / expected[frequent])
        assert st.chi2(frequent.sum()).sf(statistic) > 1e-3


@pytest.mark.parametrize("rate", [0.1, 9.5, 12.0, 60.0])
def test_samples_of_poisson_numbers(rate):
    with plugrad.use("cpu"):
        d = make_distribution("Poisson", (rate,), FLOAT64)
        x = d.sample((4000,), generator=plugrad.random.Generator(5)).numpy()
    assert abs(x.mean() - rate) < 4 * np.sqrt(rate / 4000)
    assert x.var() == pytest.approx(rate, rel=0.12)


def test_a_poisson_rate_of_0(backend):
    rates = np.array([0.0, 1.0], "float32")
    found = distributions.Poisson(rates).entropy().numpy()
    np.testing.assert_allclose(found, [0, st.poisson(1).entropy()], rtol=1e-5)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Poisson", "Categorical", "Dirichlet"])
def test_samples_on_every_backend(name, backend):
    values = {"Categorical": ([0.0, 1.0],), "Dirichlet": ([1.0, 2.0],)}.get(
        name
    ) or ALL_DISTRIBUTIONS[name][0]
    d = make_distribution(name, values)
    x = d.sample((1000, 2), generator=plugrad.random.Generator(1))
    assert x.shape == (1000, 2, *d.batch_shape, *d.event_shape)
    assert x.device == plugrad.which().device if hasattr(plugrad.which(), "device") else True
    axis = (0, 1)
    np.testing.assert_allclose(x.numpy().mean(axis), d.mean.numpy(), atol=0.12, rtol=0.12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [n for n, case in CONTINUOUS_DISTRIBUTIONS.items() if case[2] is not None and n != "StudentT"],
)
def test_samples_keep_their_quantiles(name):
    """The gradient of a sample is that of SciPy's quantile function at the sample's cumulative probability."""
    values, _, make_peer = CONTINUOUS_DISTRIBUTIONS[name]
    with plugrad.use("cpu"):

        def draw(*given):
            return getattr(distributions, name)(*given).sample(
                (6,), generator=plugrad.random.Generator(8)
            )

        tensors = [as_parameter(v, FLOAT64) for v in values]
        x = draw(*tensors).numpy()
        slopes = [plugrad.jacobian(draw, i)(*tensors).numpy() for i in range(len(tensors))]
    for i, value in enumerate(values):
        if name == "Beta":
            continue  # made of two gamma numbers, each of which keeps its own
        ends = []
        for step in (1e-5, -1e-5):
            moved = [*values[:i], value + step, *values[i + 1 :]]
            ends.append(make_peer(*moved).cdf(x))
        expected = -(ends[0] - ends[1]) / 2e-5 / make_peer(*values).pdf(x)
        np.testing.assert_allclose(slopes[i], expected, rtol=2e-5, atol=1e-6)


def test_gradients_of_means_of_samples():
    with plugrad.use("cpu"):
        a, b = plugrad.asarray(np.array([2.0, 3.0]))
        for make_one, exact in (
            (distributions.Beta, lambda a, b: (b / (a + b) ** 2, -a / (a + b) ** 2)),
            (distributions.Gamma, lambda a, b: (1 / b, -a / b**2)),
        ):

            def mean(a, b, make_one=make_one):
                return plugrad.mean(
                    make_one(a, b).sample((1000,), generator=plugrad.random.Generator(2))
                )

            found = plugrad.grad(mean, (0, 1))(a, b)
            expected = exact(2.0, 3.0)
            np.testing.assert_allclose([g.item() for g in found], expected, rtol=0.1, atol=0.01)
            # Also where it is traced before it is differentiated.
            traced = plugrad.grad(plugrad.jit(mean), (0, 1))(a, b)
            assert [g.item() for g in traced] == pytest.approx([g.item() for g in found])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in NAMES_IN_SCIPY if ALL_DISTRIBUTIONS[n][1]])
def test_divergences(name):
    first, second, make_peer = ALL_DISTRIBUTIONS[name]
    p, q = make_peer(*first), make_peer(*second)
    if name in DISCRETE_DISTRIBUTIONS:
        x = np.arange(2 if name == "Bernoulli" else 8 if name == "Binomial" else 200)
        expected = np.sum(p.pmf(x) * (p.logpmf(x) - q.logpmf(x)))
    else:
        low, high = p.support()
        middle = p.median()
        term = lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)) if p.pdf(x) > 0 else 0.0  # noqa: E731
        expected = sum(quad(term, *ends, limit=200)[0] for ends in ((low, middle), (middle, high)))
    with plugrad.use("cpu"):
        found = distributions.kl(
            make_distribution(name, first, FLOAT64), make_distribution(name, second, FLOAT64)
        )
        same = distributions.kl(
            make_distribution(name, first, FLOAT64), make_distribution(name, first, FLOAT64)
        )
    assert found.item() == pytest.approx(expected, rel=1e-6)
    assert abs(same.item()) < 1e-12


@pytest.mark.parametrize(
    "name",
    ["Logistic", "HalfCauchy", "Kumaraswamy", "TruncatedNormal", "StudentT", "NegativeBinomial"],
)
def test_divergences_that_are_integrals(name, backend):
    """They have the shape of the parameters, can be traced, and agree in single precision."""
    first, second, _ = ALL_DISTRIBUTIONS[name]
    with plugrad.use("cpu"):
        expected = distributions.kl(
            make_distribution(name, first, FLOAT64), make_distribution(name, second, FLOAT64)
        ).item()
    p = make_distribution(name, [[[v], [v]] for v in first])
    q = make_distribution(name, [[v, v, v] for v in second])
    assert (p.batch_shape, q.batch_shape) == ((2, 1), (3,))
    found = distributions.kl(p, q)
    assert (found.dtype, found.shape) == ("float32", (2, 3))
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    family = getattr(distributions, name)
    tensors = [plugrad.asarray(v) for v in first]
    traced = plugrad.jit(lambda *given: distributions.kl(family(*given), q))(*tensors)
    np.testing.assert_allclose(traced, expected, rtol=2e-4)


def test_truncated_normal_outside_of_another_one_diverges(backend):
    p, q = (make_distribution("TruncatedNormal", (0.0, 1.0, -1.0, high)) for high in (2.0, 1.5))
    assert distributions.kl(p, q).item() == np.inf
    assert np.isfinite(distributions.kl(q, p).item())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL_DISTRIBUTIONS)
def test_gradients(name):
    values, others, _ = ALL_DISTRIBUTIONS[name]
    numbers = [v for v in values if type(v) is not int]
    fixed = [v for v in values if type(v) is int]
    x = {"Uniform": 0.7, "Pareto": 2.2, "Bernoulli": 1.0}.get(
        name, 3.0 if name in DISCRETE_DISTRIBUTIONS else 0.6
    )
    with plugrad.use("cpu"):
        tensors = [plugrad.asarray(np.array(v)) for v in numbers]
        family = getattr(distributions, name)
        check_gradient(lambda *given: family(*fixed, *given).log_prob(x), *tensors)
        check_gradient(lambda *given: family(*fixed, *given).entropy(), *tensors)
        if others:
            other = make_distribution(name, others, FLOAT64)
            check_gradient(lambda *given: distributions.kl(family(*fixed, *given), other), *tensors)


@pytest.mark.parametrize("name", ALL_DISTRIBUTIONS)
def test_every_backend_matches_cpu(name, backend):
    """Samples with one seed, divergences and gradients agree; the cpu's gradients equal finite differences."""
    values, others, _ = ALL_DISTRIBUTIONS[name]
    x = {"Uniform": 0.7, "Pareto": 2.2, "Bernoulli": 1.0}.get(
        name, 3.0 if name in DISCRETE_DISTRIBUTIONS else 0.6
    )
    fixed = [v for v in values if type(v) is int]

    def compute():
        family = getattr(distributions, name)
        given = [as_parameter(v, "float32") for v in values if type(v) is not int]
        sample = family(*fixed, *given).sample((50,), generator=plugrad.random.Generator(3))
        gradients = plugrad.grads(lambda *given: family(*fixed, *given).log_prob(x))(*given)
        kl = [
            distributions.kl(family(*fixed, *given), make_distribution(name, others, "float32"))
        ] * bool(others)
        return [y.numpy() for y in (sample, *gradients, *kl)]

    found = compute()
    with plugrad.use("cpu"):
        expected = compute()
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-3, atol=1e-4)


def test_distributions_of_vectors_match_scipy(backend, rng):
    d = distributions.Dirichlet(plugrad.asarray([[1.5, 2.5, 3.0], [1.0, 1.0, 1.0]]))
    peer = st.dirichlet([1.5, 2.5, 3.0])
    assert (d.batch_shape, d.event_shape) == ((2,), (3,))
    x = peer.rvs(1, random_state=1)[0].astype("float32")
    assert d.log_prob(x).numpy()[0] == pytest.approx(peer.logpdf(x), rel=1e-4)
    assert d.entropy().numpy()[0] == pytest.approx(peer.entropy(), rel=1e-4)
    np.testing.assert_allclose(d.variance.numpy()[0], peer.var(), rtol=1e-5)
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    normal = distributions.MultivariateNormal(
        plugrad.asarray([1.0, -1.0]), plugrad.asarray(covariance.astype("float32"))
    )
    peer = st.multivariate_normal([1, -1], covariance)
    assert normal.log_prob([0.3, 0.4]).item() == pytest.approx(peer.logpdf([0.3, 0.4]), rel=1e-5)
    assert normal.entropy().item() == pytest.approx(peer.entropy(), rel=1e-5)
    sample = normal.sample((4000,), generator=plugrad.random.Generator(1)).numpy()
    np.testing.assert_allclose(np.cov(sample.T), covariance, atol=0.15)


def test_divergences_of_vectors():
    with plugrad.use("cpu"):
        a, b = (distributions.Dirichlet(np.array(x)) for x in ([1.5, 2.5], [1.2, 0.9]))
        same = distributions.kl(*(distributions.Beta(*d.concentration.numpy()) for d in (a, b)))
        assert distributions.kl(a, b).item() == pytest.approx(same.item())
        m, c = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
        p, q = (distributions.MultivariateNormal(m * k, c * k) for k in (1, 2))
        inverse = np.linalg.inv(2 * c)
        expected = 0.5 * (np.trace(inverse @ c) + m @ inverse @ m - 2 + np.log(4))
        assert distributions.kl(p, q).item() == pytest.approx(expected)
        check_gradient(
            lambda m, c: distributions.kl(distributions.MultivariateNormal(m, c + c.mT), q),
            plugrad.asarray(m),
            plugrad.asarray(c),
        )


def test_gradients_of_vectors_and_positions():
    with plugrad.use("cpu"):
        shares, concentration = (
            plugrad.asarray(np.array(x)) for x in ([0.2, 0.5, 0.3], [1.5, 2.5, 3.0])
        )
        dirichlet = distributions.Dirichlet
        check_gradient(lambda c, x: dirichlet(c).log_prob(x), concentration, shares)
        check_gradient(lambda c: dirichlet(c).entropy(), concentration)
        other = dirichlet(np.array([1.2, 0.9, 2.0]))
        check_gradient(lambda c: distributions.kl(dirichlet(c), other), concentration)
        m, c = (
            plugrad.asarray(np.array([1.0, -1.0])),
            plugrad.asarray(np.array([[2.0, 0.5], [0.5, 1.0]])),
        )
        normal = lambda m, c: distributions.MultivariateNormal(m, c + c.mT)  # noqa: E731
        check_gradient(
            lambda m, c, x: normal(m, c).log_prob(x),
            m,
            c,
            plugrad.asarray([0.3, 0.7], dtype="float64"),
        )
        check_gradient(lambda m, c: normal(m, c).entropy(), m, c)
        check_gradient(
            lambda m, c: normal(m, c).sample((4,), generator=plugrad.random.Generator(0)), m, c
        )
        logits = plugrad.asarray(np.array([[0.3, -1.0, 2.0], [0.0, 0.7, 0.1]]))
        check_gradient(lambda z: distributions.Categorical(z).log_prob([0, 2]), logits)
        check_gradient(lambda z: distributions.Categorical(z).entropy(), logits)
        uniform = distributions.Categorical(np.zeros((2, 3)))
        check_gradient(lambda z: distributions.kl(distributions.Categorical(z), uniform), logits)


@pytest.mark.parametrize("name", CONTINUOUS_DISTRIBUTIONS)
def test_gradients_for_the_value(name):
    with plugrad.use("cpu"):
        d = make_distribution(name, CONTINUOUS_DISTRIBUTIONS[name][0], FLOAT64)
        x = {"Uniform": 0.7, "Pareto": 2.2}.get(name, 0.6)
        check_gradient(d.log_prob, plugrad.asarray(np.array(x)))


def test_categorical_distributions(backend):
    logits = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]], "float32")
    d = distributions.Categorical(logits)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(d.log_prob([0, 2]), np.log([p[0, 0], p[1, 2]]), rtol=1e-5)
    np.testing.assert_allclose(d.entropy(), -np.sum(p * np.log(p), 1), rtol=1e-5)
    assert d.log_prob([3, -1]).tolist() == [-np.inf, -np.inf]
    assert d.sample((5,)).shape == (5, 2)
    assert d.sample().dtype == "int32"
    other = distributions.Categorical(np.array([1.0, 0.0, 0.0], "float32"))
    q = np.exp(other.logits.numpy()) / np.exp(other.logits.numpy()).sum()
    np.testing.assert_allclose(distributions.kl(d, other), np.sum(p * np.log(p / q), 1), rtol=1e-4)


def test_parameters_broadcast_and_values_outside_have_no_probability(backend):
    d = distributions.Normal([[0.0], [1.0]], [1.0, 2.0, 3.0])
    assert d.batch_shape == d.sample().shape == d.entropy().shape == (2, 3)
    assert d.sample((4,)).shape == (4, 2, 3)
    for name in ("Gamma", "Beta", "Exponential", "Poisson", "LogNormal", "Weibull", "Binomial"):
        assert make_distribution(name, ALL_DISTRIBUTIONS[name][0]).log_prob(-1.0).item() == -np.inf
    assert make_distribution("Poisson", (2.0,)).log_prob(1.5).item() == -np.inf


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: distributions.kl(
                make_distribution("Normal", (0.0, 1.0)), make_distribution("Gamma", (1.0, 1.0))
            ),
            ArgumentError,
        ),
        (
            lambda: distributions.kl(
                make_distribution("Chi2", (1.0,)), make_distribution("Logistic", (0.0, 1.0))
            ),
            ArgumentError,
        ),
        (
            lambda: distributions.kl(
                make_distribution("Binomial", (2, 0.5)), make_distribution("Binomial", (3, 0.5))
            ),
            ArgumentValueError,
        ),
        (lambda: distributions.Binomial(2.5, 0.5), ArgumentError),
        (lambda: make_distribution("Normal", (0.0, 1.0)).sample(5), ArgumentError),
        (
            lambda: distributions.MultivariateNormal([0.0, 0.0], np.eye(3, dtype="float32")),
            ShapeError,
        ),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()


def test_divergences_of_the_gamma_family(backend):
    one = distributions.kl(
        make_distribution("Exponential", (2.0,)), make_distribution("Gamma", (1.0, 2.0))
    )
    assert abs(one.item()) < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(5.0, 6.0), (-np.inf, -6.0), (8.0, np.inf), (-30.0, -20.0), (20.0, np.inf), (-1.0, np.inf)],
)
def test_normal_distributions_cut_off_far_from_the_mean(low, high, dtype):
    expected = st.truncnorm(low, high)
    with plugrad.use("cpu"):
        found = distributions.TruncatedNormal(
            *(plugrad.asarray(x, dtype=dtype) for x in (0.0, 1.0, low, high))
        )
        places = plugrad.asarray(expected.ppf([0.1, 0.5, 0.9]), dtype=dtype)
        tolerance = 1e-9 if dtype == "float64" else 3e-5
        np.testing.assert_allclose(
            found.log_prob(places).numpy(),
            expected.logpdf(places.numpy().astype("float64")),
            rtol=tolerance,
            atol=tolerance,
        )
        assert found.mean.item() == pytest.approx(expected.mean(), rel=tolerance)
        samples = found.sample((2000,), generator=plugrad.random.Generator(3)).numpy()
        for gradient in plugrad.grad(
            lambda mean, scale: distributions.TruncatedNormal(
                mean, scale, found.low, found.high
            ).log_prob(places[1]),
            (0, 1),
        )(found.loc, found.scale):
            assert np.isfinite(gradient.item())
    assert st.kstest(samples, expected.cdf).pvalue > 1e-3
    if dtype == "float64":
        assert found.variance.item() == pytest.approx(expected.var(), rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (20.0, 21.0),
        (100.0, np.inf),
        (-np.inf, -30.0),
        (0.0, 2.0**-10),
        (-(2.0**-17), 2.0**-17),
        (-1.0, 2.0),
        (-np.inf, np.inf),
    ],
)
def test_moments_of_normal_distributions_cut_off_far_away_or_closely(low, high, backend):
    arguments = [np.float32(x) for x in (0.0, 1.0, low, high)]
    found = distributions.TruncatedNormal(*arguments)
    nearest = np.clip(0.0, low, high)
    ends = (max(low, nearest - 12), min(high, nearest + 12)) if nearest == 0 else (low, high)
    ends = np.clip(ends, nearest - 40 / (1 + abs(nearest)), nearest + 40 / (1 + abs(nearest)))

    def integrate(f):
        return quad(
            lambda x: f(x) * np.exp((nearest - x) * (nearest + x) / 2),
            *ends,
            epsabs=0,
            epsrel=1e-10,
        )[0]

    total = integrate(lambda x: 1.0)
    offset = integrate(lambda x: x - nearest) / total if low != -high else 0.0
    variance = integrate(lambda x: (x - nearest - offset) ** 2) / total
    squares = integrate(lambda x: (x - nearest) * (x + nearest)) / total / 2
    assert found.mean.item() == pytest.approx(
        nearest + offset, rel=3e-7, abs=1e-6 * min(high - low, 1)
    )
    assert found.variance.item() == pytest.approx(variance, rel=5e-6)
    assert found.entropy().item() == pytest.approx(np.log(total) + squares, rel=5e-6)
    for name in ("mean", "variance"):
        gradients = plugrad.grad(
            lambda *x, name=name: getattr(distributions.TruncatedNormal(*x), name), (0, 1, 2, 3)
        )(*arguments)
        assert all(np.isfinite(x.item()) for x in gradients)
        if name == "mean":
            assert gradients[0].item() == pytest.approx(variance, rel=1e-4)


def test_densities_at_the_ends_and_far_away_match_scipy(backend):
    cases = [
        ("Gamma", (1.0, 2.0), [0.0], st.gamma(1, scale=0.5)),
        ("Gamma", (0.5, 2.0), [0.0, -1.0], st.gamma(0.5, scale=0.5)),
        ("Chi2", (2.0,), [0.0], st.chi2(2)),
        ("Beta", (1.0, 3.0), [0.0, 1.0], st.beta(1, 3)),
        ("Beta", (0.5, 1.0), [0.0, 1.0, 2.0], st.beta(0.5, 1)),
        ("Weibull", (2.0, 1.0), [0.0, -1.0], st.weibull_min(1, scale=2)),
        ("Kumaraswamy", (1.0, 1.0), [0.0, 1.0], st.uniform()),
        ("Cauchy", (0.0, 1.0), [1e-30, 1.0, 1e30], st.cauchy()),
        ("StudentT", (2.0, 0.0, 1.0), [1e-30, 1.0, 1e30], st.t(2)),
    ]
    for name, arguments, places, expected in cases:
        found = getattr(distributions, name)(*arguments).log_prob(np.float32(places))
        np.testing.assert_allclose(found.numpy(), expected.logpdf(places), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"loc": 0.0, "scales": 1.0},
            r"Normal: it has no argument 'scales' \(did you mean 'scale'",
        ),
        ({"loc": 0.0}, r"Normal: missing a required argument: 'scale'; write Normal\(loc, scale\)"),
    ],
)
def test_parameters_that_a_distribution_does_not_have(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        distributions.Normal(**arguments)
    with pytest.raises(TypeError, match="abstract"):
        distributions.Distribution()


def test_distributions_show_their_parameters():
    assert [*signature(distributions.Normal).parameters] == ["loc", "scale"]
    assert [*signature(distributions.TruncatedNormal).parameters] == ["loc", "scale", "low", "high"]
    kinds = [kind for kind in vars(distributions).values() if isinstance(kind, type)]
    assert not any("*args" in str(signature(k)) for k in kinds if not isabstract(k))
