"""Random numbers: the same for a seed everywhere, and distributed as they should be."""

import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy

import plugrad
from families.case import FLOAT_DTYPES, Case, ErrorCase, conformance_cases
from families.domains import uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
)
from plugrad.host import random as body
from plugrad.kernels import random
from plugrad.tensor.backend import Backend
from plugrad.testing.rows import fixed_values
from plugrad.testing.tables.random import philox

MAX_WORD = 0xFFFFFFFF


def np_multinomial(logits, state, *, num_samples, normalized):
    """Reference for multinomial, sample by sample."""
    words = philox(state, (logits.shape[0], num_samples)).view("uint32")
    drawn = np.zeros(words.shape, int)
    for row, sample in np.ndindex(drawn.shape):
        weights = logits[row] if normalized else np.exp(logits[row] - logits[row].max())
        sums = np.cumsum(weights)
        drawn[row, sample] = np.argmax(sums > (words[row, sample] >> 8) * 2.0**-24 * sums[-1])
    return drawn


def generator_state(key, counter=0):
    """Return the state of a generator: the words of a key and a counter."""
    return np.frombuffer((key | counter << 64).to_bytes(24, "little"), "<i4")


def test_reference_is_philox():
    """Compares with the known answers of Random123, by the authors of the paper."""
    for state, words in [
        ((0,) * 6, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((MAX_WORD,) * 6, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0xA4093822, 0x299F31D0, 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ]:
        drawn = philox(state, (4,)).view("uint32")
        assert drawn.tolist() == [int(word, 16) for word in words.split()]


def multinomial_case(shape, domain, seed, **attrs):
    return Case(
        random.multinomial,
        np_multinomial,
        [domain, fixed_values(generator_state(seed), dtype="int32")],
        [shape, (6,)],
        attrs,
        FLOAT_DTYPES,
        result="int32",
        is_differentiable=False,
    )


CASES = [
    *conformance_cases("random"),
    *(
        multinomial_case((3, 5), uniform(-2, 2), seed, num_samples=7, normalized=False)
        for seed in (0, 1, 2**32 + 5, 2**64 - 1)
    ),
    multinomial_case((2, 4), uniform(0, 3), 3, num_samples=50, normalized=True),
    multinomial_case((1, 1), uniform(-2, 2), 4, num_samples=3, normalized=False),
    multinomial_case((5, 130), uniform(-1, 1), 5, num_samples=1, normalized=False),
    multinomial_case((0, 3), uniform(-1, 1), 6, num_samples=2, normalized=False),
    multinomial_case((3, 2), uniform(-1, 1), 6, num_samples=0, normalized=False),
    multinomial_case((2, 3), uniform(800, 900), 7, num_samples=9, normalized=False),
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng, case.main_dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_classes_without_probability_are_never_drawn(backend):
    x = plugrad.asarray([[0.0, 1.0, 0.0, 2.0, 0.0]])
    state = plugrad.asarray(generator_state(0))
    y = random.multinomial(x, state, num_samples=3000, normalized=True)
    assert set(y.numpy().ravel()) == {1, 3}


def test_a_row_that_is_no_distribution_leaves_the_others_alone(backend):
    x = plugrad.asarray([[np.nan, 1.0], [0.0, 100.0], [100.0, 0.0]])
    state = plugrad.asarray(generator_state(0))
    y = random.multinomial(x, state, num_samples=20, normalized=False).numpy()
    assert ((y >= 0) & (y < 2)).all()
    assert (y[1] == 1).all()
    assert (y[2] == 0).all()


# --- the generator --------------------------------------------------------------------------------

SAMPLE_COUNT = 20_000
DRAWS = {
    "uniform": lambda g, **how: g.uniform((3, 50), -2, 3, **how),
    "standard_normal": lambda g, **how: g.standard_normal((3, 50), **how),
    "normal": lambda g, **how: g.normal((3, 50), 1.0, 2.0, **how),
    "truncated_normal": lambda g, **how: g.truncated_normal((3, 50), 1.0, 2.0, **how),
    "gamma": lambda g, **how: g.gamma((3, 50), 0.5, 2.0, **how),
    "integers": lambda g, **how: g.integers((3, 50), -5, 7, **how),
    "bernoulli": lambda g, **how: g.bernoulli((3, 50), 0.3, **how),
    "permutation": lambda g, **how: g.permutation(50, **how),
}
FLOAT_DRAWS = [name for name in DRAWS if name not in ("integers", "bernoulli", "permutation")]


def generator(seed=0):
    return plugrad.random.Generator(seed)


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers_on_every_backend(name, backend):
    y = DRAWS[name](generator(0))
    assert y.device == f"{backend}:0"
    with plugrad.use("cpu"):
        there = DRAWS[name](generator(0))
    assert (y.shape, y.dtype) == (there.shape, there.dtype)
    if y.dtype == "float32":
        # GPUs divide with an error of up to 3 ulp, and truncated normal numbers divide several times.
        is_gpu = y.device.startswith("webgpu") and not y.backend.active_device.is_software
        np.testing.assert_array_max_ulp(y.numpy(), there.numpy(), 16 if is_gpu else 2)
    else:
        np.testing.assert_array_equal(y.numpy(), there.numpy())


def test_normal_numbers_have_the_same_bits_on_every_backend(backend):
    y = generator(7).normal(100_001).numpy()
    words = body.random_normal(generator_state(7), shape=(100_001,))
    np.testing.assert_array_equal(y, words, strict=True)


@pytest.mark.parametrize("name", DRAWS)
def test_another_seed_and_another_call_give_other_numbers(name, backend):
    a = generator(0)
    first, again, other = DRAWS[name](a), DRAWS[name](a), DRAWS[name](generator(1))
    assert first.tolist() != again.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("name", FLOAT_DRAWS)
def test_numbers_of_float16_are_those_of_float32_rounded(name):
    with plugrad.use("cpu"):
        exact = DRAWS[name](generator(3), dtype="float32").numpy()
        y = DRAWS[name](generator(3), dtype="float16")
        assert y.dtype == "float16"
        np.testing.assert_allclose(y.numpy(), exact, rtol=2.0**-10, atol=2.0**-17)
        assert DRAWS[name](generator(3)).dtype == "float32"


@pytest.mark.parametrize("name", FLOAT_DRAWS)
def test_numbers_of_float64_use_more_bits(name):
    with plugrad.use("cpu"):
        y = DRAWS[name](generator(3), dtype="float64")
        assert y.dtype == "float64"
        assert (y.numpy().astype("float32") != y.numpy()).mean() > 0.9


def test_the_dtype_does_not_change_which_whole_numbers_are_drawn():
    with plugrad.use("cpu"):
        expected = DRAWS["integers"](generator(3)).tolist()
        for dtype in ("int8", "int16", "int32", "int64"):
            y = DRAWS["integers"](generator(3), dtype=dtype)
            assert (y.dtype, y.tolist()) == (dtype, expected)


def test_dtype_of_flags(backend):
    y = DRAWS["bernoulli"](generator(3))
    assert y.dtype == "bool"
    z = DRAWS["bernoulli"](generator(3), dtype="float32")
    np.testing.assert_array_equal(z.numpy(), y.numpy().astype("float32"), strict=True)


@pytest.mark.parametrize("name", DRAWS)
def test_the_device_is_chosen(name, backend):
    assert DRAWS[name](generator(), device="cpu").device == "cpu:0"


def test_failed_draw_in_an_unsupported_dtype_advances_no_counter(backend):
    a, b = generator(0), generator(0)
    for dtype in {"float64", "float16"} - plugrad.which().backend.dtypes():
        with pytest.raises(UnsupportedDtype, match=f"{backend}.*does not have {dtype}"):
            a.normal((2,), dtype=dtype)
    assert a.normal((2,)).tolist() == b.normal((2,)).tolist()


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda g: g.uniform(SAMPLE_COUNT, -2, 3), ("uniform", -2, 5)),
        (lambda g: g.standard_normal(SAMPLE_COUNT), ("norm",)),
        (lambda g: g.normal(SAMPLE_COUNT, -3, 0.5), ("norm", -3, 0.5)),
        (lambda g: g.truncated_normal(SAMPLE_COUNT, 1, 3), ("truncnorm", -2, 2, 1, 3)),
        (lambda g: g.gamma(SAMPLE_COUNT, 2.5, 4), ("gamma", 2.5, 0, 1 / 4)),
        (lambda g: g.gamma(SAMPLE_COUNT, 0.3), ("gamma", 0.3)),
    ],
)
def test_distribution(draw, expected, backend):
    name, *parameters = expected
    distribution = getattr(scipy.stats, name)(*parameters)
    probabilities: list[float] = []
    for seed in range(10):
        values = draw(generator(seed)).numpy().astype("float64")
        probabilities.append(scipy.stats.kstest(values, distribution.cdf).pvalue)
        error = distribution.std() / np.sqrt(SAMPLE_COUNT)
        assert abs(values.mean() - distribution.mean()) < 4 * error
        assert abs(values.std() / distribution.std() - 1) < 0.05
        skew = distribution.stats("s")
        assert abs(scipy.stats.skew(values) - skew) < 0.2 + 0.1 * skew
        # Neighbours, and numbers as far apart as those of a block of words, do not depend on each other.
        ranks = scipy.stats.rankdata(values)
        for lag in (1, 2, 3, 4, 8):
            correlation = np.corrcoef(ranks[:-lag], ranks[lag:])[0, 1]
            assert abs(correlation) < 4 / np.sqrt(SAMPLE_COUNT)
    # Probabilities of what has the distribution are themselves uniform.
    assert scipy.stats.kstest(probabilities, "uniform").pvalue > 0.001


@pytest.mark.parametrize(("low", "high"), [(-2, 3), (0, 2), (-1, 1), (5, 8), (-(2**31), 2**31)])
def test_whole_numbers_are_equally_likely(low, high, backend):
    """TensorFlow.js truncates fractions, which makes 0 twice as likely."""
    values = generator(0).integers(SAMPLE_COUNT, low, high).numpy().astype("int64")
    assert low <= values.min()
    assert values.max() < high
    bins = np.floor((values - low) * min(high - low, 16) / (high - low))
    counts = np.bincount(bins.astype(int), minlength=min(high - low, 16))
    assert scipy.stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize(
    ("span", "dtype"),
    [
        (3, "int32"),
        (2**16 - 1, "int32"),
        (2**16 + 1, "int32"),
        (1_000_003, "int32"),
        (2**31 - 1, "int32"),
        (2**32 - 5, "int64"),
        (2**33 + 7, "int64"),
        (2**63 - 25, "int64"),
        (2**64 - 59, "uint64"),
    ],
)
def test_whole_numbers_are_the_integer_part_of_a_product(span, dtype):
    """The factors are the span and a fraction of several random words, the highest word first."""
    low = 0 if dtype == "uint64" else -(span // 2)
    with plugrad.use("cpu"):
        drawn = generator(9).integers(101, low, low + span, dtype=dtype).tolist()
        source, count = generator(9), 2 if span <= 2**32 else 4
        words = [source.integers(101, 0, 2**32, dtype="int64").tolist() for _ in range(count)]
    for n, found in enumerate(drawn):
        number = sum(word[n] << 32 * (count - 1 - place) for place, word in enumerate(words))
        assert found == low + (number * span >> 32 * count)


def test_whole_numbers_of_the_widest_types():
    with plugrad.use("cpu"):
        for dtype in ("int64", "uint64"):
            limits = np.iinfo(dtype)
            y = generator(0).integers(1000, limits.min, int(limits.max) + 1, dtype=dtype).numpy()
            assert y.min() < limits.min + limits.max // 100
            assert y.max() > limits.max - limits.max // 50
        assert generator(0).integers((), 7, 8, dtype="uint64").item() == 7


def test_flags_have_their_probability(backend):
    for p in (0.0, 0.1, 0.5, 1.0):
        part = float(plugrad.mean(generator(0).bernoulli(SAMPLE_COUNT, p, dtype="float32")))
        assert abs(part - p) <= 4 * np.sqrt(p * (1 - p) / SAMPLE_COUNT)


def test_bounds_are_kept_where_rounding_would_reach_them():
    with plugrad.use("cpu"):
        for low, high in ((0, 1), (1, 1.25), (-8, 0.1)):
            values = generator(0).uniform(200_000, low, high, dtype="float16").numpy()
            assert values.max() < np.float16(high)
            assert values.min() >= np.float16(low)
        assert generator(0).uniform(3, 2, 2).tolist() == [2, 2, 2]
        assert np.abs(generator(0).truncated_normal(200_000, dtype="float16").numpy()).max() <= 2


def test_samples_of_classes_have_their_probabilities(backend):
    """TensorFlow.js draws the same numbers for all rows."""
    logits = np.log([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]])
    y = generator(0).multinomial(plugrad.asarray(logits.astype("float32")), SAMPLE_COUNT).numpy()
    for row, weights in zip(y, np.exp(logits), strict=True):
        counts = np.bincount(row, minlength=4)
        assert scipy.stats.chisquare(counts, weights / weights.sum() * SAMPLE_COUNT).pvalue > 0.01
    assert np.mean(y[1] == y[2]) < 0.35  # 0.3 for rows that do not know of each other


def test_samples_of_one_row_have_one_axis(backend):
    assert generator(0).multinomial([0.0, 1.0], 5).shape == (5,)
    y = generator(0).multinomial([1.0, 0.0], 5, normalized=True)
    assert (y.dtype, y.tolist()) == ("int32", [0] * 5)


def test_permutation_of_a_tensor(backend):
    x = plugrad.asarray(np.arange(12, dtype="float32").reshape(3, 4))
    y = generator(0).permutation(x, axis=1)
    order = generator(0).permutation(4).tolist()
    np.testing.assert_array_equal(y.numpy(), x.numpy()[:, order])
    assert sorted(generator(1).permutation([3, 1, 2]).tolist()) == [1, 2, 3]
    dx = plugrad.grad(lambda x: plugrad.sum(generator(0).permutation(x) * [1.0, 2.0, 3.0]))
    assert sorted(dx(plugrad.zeros(3)).tolist()) == [1, 2, 3]
    assert generator(0).permutation(0).shape == (0,)


def test_shapes(backend):
    assert generator().normal(()).shape == ()
    assert generator().truncated_normal(()).shape == ()
    assert generator().integers((), 0, 5).shape == ()
    assert generator().gamma((0, 3), 1).shape == (0, 3)
    assert generator().uniform(4).shape == (4,)


def test_state_is_kept_and_restored(backend):
    a = generator(0)
    a.normal(3)
    state = a.state
    expected = a.normal(3).tolist()
    assert a.normal(3).tolist() != expected
    a.state = state
    assert a.normal(3).tolist() == expected


def test_a_generator_can_be_pickled(backend):
    a = generator(0)
    a.normal(3)
    b = pickle.loads(pickle.dumps(a))
    assert b.normal(3).tolist() == a.normal(3).tolist()


def test_the_state_of_another_algorithm_is_refused():
    a = generator(0)
    numbers = {"state": [1, 2, 3, 4]}
    states = [
        {"bit_generator": "SFC64", "state": numbers, "has_uint32": 0, "uinteger": 0},
        None,
        {"algorithm": "Philox4x32-10", "key": 0},
        {**a.state, "algorithm": "SFC64"},
        {**a.state, "algorithm": np.array(["Philox", "Philox"])},
        {**a.state, "key": -1},
        {**a.state, "key": 2**64},
        {**a.state, "counter": 2**128},
        {**a.state, "counter": 0.5},
    ]
    for state in states:
        with pytest.raises(ArgumentValueError, match=r"Philox4x32-10.*begin one with a seed"):
            a.state = state
    with pytest.raises(ArgumentValueError, match="begin one with a seed"):
        plugrad.random.Generator.__new__(plugrad.random.Generator).__setstate__(
            (None, {"_seed": 0, "_source": None})  # what earlier releases pickled
        )
    assert a.state == generator(0).state


def test_the_counter_wraps_around_at_its_end(backend):
    a = generator(5)
    a.state = {**a.state, "counter": 2**128 - 1}
    drawn = a.integers(8, 0, 2**32, dtype="int64").tolist()
    assert drawn[4:] == generator(5).integers(4, 0, 2**32, dtype="int64").tolist()
    assert a.state["counter"] == 1


def test_a_seed_is_a_key_and_large_ones_are_condensed(backend):
    for seed in (0, 2**32, 2**64 - 1):
        assert generator(seed).state["key"] == seed
    large = {generator(2**64 + n).state["key"] for n in range(100)}
    assert len(large) == 100
    assert generator(2**200).normal(3).tolist() == generator(2**200).normal(3).tolist()


def test_spawned_generators_are_independent(backend):
    first, second = generator(0).spawn(2)
    a, b = first.normal(SAMPLE_COUNT).numpy(), second.normal(SAMPLE_COUNT).numpy()
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03
    assert generator(0).spawn(1)[0].normal(3).tolist() == a[:3].tolist()


def test_generators_without_a_seed_give_different_numbers(backend):
    assert generator(None).normal(3).tolist() != generator(None).normal(3).tolist()


def test_functions_of_the_module_share_one_generator(backend):
    plugrad.random.seed(0)
    first = plugrad.random.normal(3).tolist()
    assert first == generator(0).normal(3).tolist()
    assert plugrad.random.normal(3).tolist() != first
    plugrad.random.seed(0)
    assert plugrad.random.normal(3).tolist() == first
    plugrad.random.seed()
    assert plugrad.random.normal(3).tolist() != first


def test_threads_get_different_numbers():
    with plugrad.use("cpu"):
        plugrad.random.seed(0)
    drawn = []

    def work():
        with plugrad.use("cpu"):
            for _ in range(20):
                drawn.extend(plugrad.random.uniform(500).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = generator(0).uniform(40_000, device="cpu").tolist()
    assert sorted(drawn) == sorted(expected)


# --- what a traced program calls anew ------------------------------------------------------------


@pytest.fixture
def host_functions(monkeypatch):
    """Collect the host functions that supply the key and counter of each draw."""
    found = []
    own = Backend.host_value

    def host_value(self, function, shape, dtype):
        found.append(function)
        return own(self, function, shape, dtype)

    monkeypatch.setattr(Backend, "host_value", host_value)
    return found


def rerun_host_functions(functions):
    """Return the keys and counters of a second call of a traced program."""
    return [function().tolist() for function in functions]


@pytest.mark.parametrize("name", DRAWS)
def test_second_traced_call_draws_the_numbers_of_a_second_draw(name, host_functions):
    with plugrad.use("cpu"):
        traced, untraced = generator(0), generator(0)
        DRAWS[name](traced)
        program = list(host_functions)
        host_functions.clear()
        DRAWS[name](untraced)
        position = untraced.state
        DRAWS[name](untraced)
        assert traced.state == position
        again = rerun_host_functions(program)
        assert traced.state == untraced.state
    untraced.state = position
    assert again == rerun_host_functions(host_functions[len(program) :])


def test_a_program_that_seeds_a_generator_draws_the_same_in_each_call(host_functions):
    with plugrad.use("cpu", transfer=True):  # as a trace does
        inside = generator(3)
        first = inside.normal(5).tolist()
        inside.normal(5)
    program = list(host_functions)
    first_words, second_words = rerun_host_functions(program), rerun_host_functions(program)
    assert first_words == second_words
    assert [words[:3] for words in first_words] == [[3, 0, 0], [3, 0, 2]]
    assert inside.state["counter"] == 4  # where it is after a call
    assert first == generator(3).normal(5, device="cpu").tolist()


def test_a_generator_from_outside_of_a_traced_function_continues(host_functions):
    outside = generator(3)
    with plugrad.use("cpu", transfer=True):
        outside.normal(4)
    assert [rerun_host_functions(host_functions)[0][2] for _ in range(2)] == [1, 2]


def test_a_generator_without_a_seed_continues_in_traced_calls(host_functions):
    with plugrad.use("cpu", transfer=True):
        generator(None).normal(4)
    assert rerun_host_functions(host_functions) != rerun_host_functions(host_functions)


def test_masks_of_dropout_have_no_gradient_and_normal_numbers_pass_it_on(backend):
    x = plugrad.ones(1000)
    slope = plugrad.grad(lambda x: plugrad.sum(plugrad.dropout(x, 0.25, seed=1)))(x)
    np.testing.assert_allclose(slope.numpy(), plugrad.dropout(x, 0.25, seed=1).numpy())

    def loss(mean, std):
        return plugrad.sum((mean + std * generator(2).normal(50)) ** 2)

    z = generator(2).normal(50).numpy().astype("float64")
    by_mean, by_std = plugrad.grad(loss, argnums=(0, 1))(0.5, 2.0)
    np.testing.assert_allclose(by_mean.item(), np.sum(2 * (0.5 + 2 * z)), rtol=1e-4)
    np.testing.assert_allclose(by_std.item(), np.sum(2 * (0.5 + 2 * z) * z), rtol=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it reserves terabytes")
def test_draws_that_exceed_memory_are_rejected_quickly():
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import plugrad
from plugrad.errors import OutOfMemory
g = plugrad.random.Generator(0)
with plugrad.use("cpu"):
    for draw in (g.bernoulli, g.uniform, g.normal, g.gamma, lambda n, *_: g.integers(n, 0, 5)):
        try:
            draw(2**31 - 1, *([2.0] if draw == g.gamma else []))
        except OutOfMemory as error:
            print(type(error).__name__)
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout.split() == ["OutOfMemory"] * 5, done.stderr


ERROR_CASES = [
    ErrorCase(lambda: generator(-1), ArgumentValueError, ["seed=-1", "0 or more"]),
    ErrorCase(lambda: generator(0.5), ArgumentError, ["seed=0.5", "integer"]),
    ErrorCase(lambda: plugrad.random.seed("a"), ArgumentError, ["seed='a'", "integer"]),
    ErrorCase(lambda: generator().normal((2, -1)), ShapeError, ["(2, -1)", "negative"]),
    ErrorCase(lambda: generator().normal((2, 2.2)), ShapeError, ["(2, 2.2)", "integers"]),
    ErrorCase(lambda: generator().normal(2, std=-1), ArgumentValueError, ["std=-1"]),
    ErrorCase(lambda: generator().normal(2, np.nan), ArgumentValueError, ["mean=nan", "finite"]),
    ErrorCase(lambda: generator().normal(2, dtype="int32"), DTypeError, ["int32", "astype"]),
    ErrorCase(lambda: generator().truncated_normal(2, 0, np.inf), ArgumentValueError, ["std=inf"]),
    ErrorCase(lambda: generator().uniform(2, 1, 0), ArgumentValueError, ["low=1", "high=0"]),
    ErrorCase(lambda: generator().uniform(2, dtype="int32"), DTypeError, ["uniform", "integers"]),
    ErrorCase(lambda: generator().gamma(2, 0), ArgumentValueError, ["alpha=0", "above 0"]),
    ErrorCase(lambda: generator().gamma(2, 1, -1), ArgumentValueError, ["beta=-1", "above 0"]),
    ErrorCase(lambda: generator().integers(2, 3, 3), ArgumentValueError, ["low=3", "high=3"]),
    ErrorCase(
        lambda: generator().integers(2, 0, 300, dtype="uint8"), ArgumentValueError, ["300", "uint8"]
    ),
    ErrorCase(lambda: generator().integers(2, 0, 3, dtype="float32"), DTypeError, ["float32"]),
    ErrorCase(
        lambda: generator().bernoulli(2, 1.5), ArgumentValueError, ["p=1.5", "between 0 and 1"]
    ),
    ErrorCase(lambda: generator().permutation(-1), ArgumentValueError, ["x=-1", "between 0 and"]),
    ErrorCase(lambda: generator().permutation([1], axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(lambda: generator().multinomial(0.5, 1), ShapeError, ["multinomial", "()"]),
    ErrorCase(lambda: generator().multinomial([[]], 1), ShapeError, ["Multinomial", "(1, 0)"]),
    ErrorCase(lambda: generator().multinomial([1.0], -1), ArgumentValueError, ["num_samples=-1"]),
    ErrorCase(
        lambda: random.random_bits(plugrad.zeros(5, dtype="int32"), shape=(2,)),
        ShapeError,
        ["RandomBits", "(6,)", "(5,)"],
    ),
    ErrorCase(
        lambda: random.random_bits(plugrad.zeros(6), shape=(2,)),
        DTypeError,
        ["RandomBits", "float32", "int32"],
    ),
    ErrorCase(
        lambda: random.multinomial(
            plugrad.zeros((1, 2)), plugrad.zeros(6), num_samples=1, normalized=False
        ),
        DTypeError,
        ["Multinomial", "state", "float32"],
    ),
    ErrorCase(
        lambda: generator().uniform(2, 0, 1e300), ArgumentValueError, ["high=1e+300", "float32"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
