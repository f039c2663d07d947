"""The setting `debug` runs what is traced untraced, too, and compares the bits."""

import itertools

import numpy as np
import pytest

import plugrad
from core.traced_values import X, same
from plugrad import optimizers
from plugrad.errors import TracingError
from plugrad.extend import host_value, undo_on_failure
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE


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
        undo_on_failure(lambda: taken.__setitem__(0, before))
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


def gradient_of_recurrence(factor):
    """Return the gradient of a sum over the rounds of a loop: with respect to the matrix that all of them read."""

    def loss(w, xs):
        def step(h, x):
            h = plugrad.tanh(x @ w + h @ w) * factor()
            return h, h

        return plugrad.sum(plugrad.scan(step, plugrad.zeros((8, 16), dtype=w.dtype), xs)[1] ** 2)

    return plugrad.grad(loss)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_loops_may_add_in_another_order(backend, dtype, rng):
    if dtype == "float64" and backend == "webgpu":
        pytest.skip("WebGPU has no float64")
    w, xs = (plugrad.asarray(rng.normal(size=n).astype(dtype)) for n in ((16, 16), (30, 8, 16)))
    gradient = gradient_of_recurrence(lambda: 1)
    traced, untraced = plugrad.jit(gradient)(w, xs).numpy(), gradient(w, xs).numpy()
    largest = np.abs(untraced).max()
    np.testing.assert_allclose(traced, untraced, 0, RELATIVE_TOLERANCE_OF_DTYPE[dtype] * largest)


def test_another_value_in_the_gradient_of_a_loop_is_an_error(backend, rng):
    w, xs = (plugrad.asarray(rng.normal(size=n).astype("f4")) for n in ((16, 16), (30, 8, 16)))
    numbers = itertools.count(1)
    changing = plugrad.jit(gradient_of_recurrence(lambda: 1 + 1e-3 * next(numbers)))
    with pytest.raises(TracingError, match=r"element \[\d+, \d+\] of result number 0 as "):
        changing(w, xs)
