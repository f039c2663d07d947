"""The setting `debug` runs what is traced untraced, too, and compares the bits."""

import itertools

import numpy as np
import pytest

import plugrad
from core.traced_values import X, same
from plugrad import optimizers
from plugrad.errors import TracingError
from plugrad.extend import host_value, on_failure


@pytest.fixture(autouse=True)
def _debug():
    plugrad.zeros(1)  # the device is open before packs would warn
    with plugrad.config.override("debug", True):
        yield


def losses(wrap, steps):
    """Return what a training with random numbers gives: losses, the variables, and the next number."""
    x = plugrad.asarray(X.numpy())
    optimizer = optimizers.Adam(lambda step: 0.1 / (1 + step))
    w, mean = plugrad.Variable(x + 1, name="w"), plugrad.Variable(x, name="mean")

    def step(x):
        mean.assign(mean * 0.9 + x * 0.1)
        noise = plugrad.random.normal((3,))
        return optimizer.minimize(lambda: plugrad.sum((w * x + noise) ** 2), [w])

    plugrad.random.seed(3)
    run = wrap(step)
    found = [run(x) for _ in range(steps)]
    return *found, +w, +mean, plugrad.random.uniform((2,)), optimizer.iterations


def test_a_training_step_counts_and_draws_once(backend):
    *traced, steps = losses(plugrad.jit, 3)
    *untraced, expected = losses(lambda f: f, 3)
    for x, y in zip(traced, untraced, strict=True):
        same(x, y)
    assert steps == expected == 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_equals_nan_whatever_its_sign_is(dtype):
    signs = itertools.cycle([1, -1])
    x = plugrad.asarray(np.array([np.nan], "float32")).astype(dtype)
    assert np.isnan(plugrad.jit(lambda x: x if next(signs) > 0 else -x)(x).numpy()).all()


numbers = itertools.count()
DIFFERING = {
    "a number of Python": (lambda x: x * next(numbers), r"element \[\d\] of result number 0 as "),
    "a static result": (lambda x: (x, next(numbers)), r"returns \(\*, \d+\), and \(\*, \d+\) untr"),
    "the number of draws": (
        lambda x: x + sum(plugrad.random.uniform((3,)) for _ in range(next(numbers) % 2 + 1)),
        r"computes \d values on the host, such as .* and \d untraced",
    ),
    "a shape": (
        lambda x: plugrad.zeros(next(numbers)),
        r"result number 0 as float32\[\d+\], and as float32\[\d+\]",
    ),
    "a new value": (
        lambda x: VARIABLE.assign(x * next(numbers)),
        r"of the new value of variable 'v' as ",
    ),
}
VARIABLE = plugrad.Variable([1.0, 2.0, 3.0], name="v")


@pytest.mark.parametrize("name", DIFFERING)
def test_what_python_computes_anew_is_an_error(name):
    function, told = DIFFERING[name]
    with pytest.raises(TracingError, match=rf"jit: .*<lambda> .*{told}"):
        plugrad.jit(function)(X)


def test_functions_whose_counting_cannot_be_undone_are_called_once_in_each_call():
    count, seen = itertools.count(), []
    f = plugrad.jit(lambda x: x + host_value(lambda: next(count)))
    for _ in range(3):
        seen.append(f(plugrad.asarray(0.0)).item())
    assert seen == [0.0, 1.0, 2.0]


def test_functions_that_say_how_to_undo_are_called_again():
    taken = [0]

    def next_number():
        before = taken[0]
        on_failure(lambda: taken.__setitem__(0, before))
        taken[0] += 1
        return taken[0]

    f = plugrad.jit(lambda x: x + host_value(next_number))
    assert [f(plugrad.asarray(0.0)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert taken == [3]


def test_functions_in_functions_gradients_and_loops():
    inner = plugrad.jit(lambda x: x * plugrad.random.uniform((3,)))

    def f(x):
        total, _ = plugrad.scan(lambda c, _: (inner(c) + x, None), x, length=3)
        return plugrad.sum(plugrad.cond(plugrad.sum(total) > 0, lambda y: y, plugrad.square, total))

    x = plugrad.asarray(X.numpy())
    plugrad.random.seed(1)
    traced = plugrad.jit(plugrad.grad(f))(x)
    plugrad.random.seed(1)
    same(traced, plugrad.grad(f)(x))
    np.testing.assert_allclose(
        plugrad.grad(plugrad.jit(lambda x: plugrad.sum(x * x)))(x).numpy(), 2 * X.numpy()
    )
