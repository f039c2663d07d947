"""The setting `debug` runs what is traced untraced, too, and compares the bits."""

import itertools

import numpy as np
import pytest

import plugrad
from core.traced_values import VECTOR_X, assert_identical
from plugrad import optimizers
from plugrad.errors import TracingError
from plugrad.extend import host_value, undo_on_failure
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE


@pytest.fixture(autouse=True)
def _debug_setting():
    plugrad.zeros(1)  # the device is open before packs would warn
    with plugrad.config.override("debug", True):
        yield


def run_training(wrap, steps):
    """Return the losses, variables and next random number of a training."""
    x = plugrad.asarray(VECTOR_X.numpy())
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
    *traced, steps = run_training(plugrad.jit, 3)
    *untraced, expected = run_training(lambda f: f, 3)
    for x, y in zip(traced, untraced, strict=True):
        assert_identical(x, y)
    assert steps == expected == 3


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_equals_nan_whatever_its_sign_is(dtype):
    signs = itertools.cycle([1, -1])
    x = plugrad.asarray(np.array([np.nan], "float32")).astype(dtype)
    assert np.isnan(plugrad.jit(lambda x: x if next(signs) > 0 else -x)(x).numpy()).all()


COUNTER = itertools.count()
UNREPEATABLE_FUNCTIONS = {
    "a number of Python": (lambda x: x * next(COUNTER), r"element \[\d\] of result number 0 as "),
    "a static result": (lambda x: (x, next(COUNTER)), r"returns \(\*, \d+\), and \(\*, \d+\) untr"),
    "the number of draws": (
        lambda x: x + sum(plugrad.random.uniform((3,)) for _ in range(next(COUNTER) % 2 + 1)),
        r"computes \d values on the host, such as .* and \d untraced",
    ),
    "a shape": (
        lambda x: plugrad.zeros(next(COUNTER)),
        r"result number 0 as float32\[\d+\], and as float32\[\d+\]",
    ),
    "a new value": (
        lambda x: VARIABLE.assign(x * next(COUNTER)),
        r"of the new value of variable 'v' as ",
    ),
}
VARIABLE = plugrad.Variable([1.0, 2.0, 3.0], name="v")


@pytest.mark.parametrize("name", UNREPEATABLE_FUNCTIONS)
def test_values_that_python_recomputes_raise_in_debug_mode(name):
    function, told = UNREPEATABLE_FUNCTIONS[name]
    with pytest.raises(TracingError, match=rf"jit: .*<lambda> .*{told}"):
        plugrad.jit(function)(VECTOR_X)


def test_functions_that_cannot_be_undone_are_called_once_in_each_call():
    count, seen = itertools.count(), []
    f = plugrad.jit(lambda x: x + host_value(lambda: next(count)))
    for _ in range(3):
        seen.append(f(plugrad.asarray(0.0)).item())
    assert seen == [0.0, 1.0, 2.0]


def test_functions_that_can_be_undone_are_called_again_in_debug_mode():
    taken = [0]

    def draw_number():
        before = taken[0]
        undo_on_failure(lambda: taken.__setitem__(0, before))
        taken[0] += 1
        return taken[0]

    f = plugrad.jit(lambda x: x + host_value(draw_number))
    assert [f(plugrad.asarray(0.0)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert taken == [3]


def test_debug_mode_with_nested_functions_gradients_and_loops():
    inner = plugrad.jit(lambda x: x * plugrad.random.uniform((3,)))

    def f(x):
        total, _ = plugrad.scan(lambda c, _: (inner(c) + x, None), x, length=3)
        return plugrad.sum(plugrad.cond(plugrad.sum(total) > 0, lambda y: y, plugrad.square, total))

    x = plugrad.asarray(VECTOR_X.numpy())
    plugrad.random.seed(1)
    traced = plugrad.jit(plugrad.grad(f))(x)
    plugrad.random.seed(1)
    assert_identical(traced, plugrad.grad(f)(x))
    np.testing.assert_allclose(
        plugrad.grad(plugrad.jit(lambda x: plugrad.sum(x * x)))(x).numpy(), 2 * VECTOR_X.numpy()
    )


def gradient_through_scan(factor):
    """Return the gradient of a recurrence with respect to the matrix that each iteration reads."""

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
    gradient = gradient_through_scan(lambda: 1)
    traced, untraced = plugrad.jit(gradient)(w, xs).numpy(), gradient(w, xs).numpy()
    largest = np.abs(untraced).max()
    np.testing.assert_allclose(traced, untraced, 0, RELATIVE_TOLERANCE_OF_DTYPE[dtype] * largest)


def test_another_value_in_the_gradient_of_a_loop_is_an_error(backend, rng):
    w, xs = (plugrad.asarray(rng.normal(size=n).astype("f4")) for n in ((16, 16), (30, 8, 16)))
    numbers = itertools.count(1)
    changing = plugrad.jit(gradient_through_scan(lambda: 1 + 1e-3 * next(numbers)))
    with pytest.raises(TracingError, match=r"element \[\d+, \d+\] of result number 0 as "):
        changing(w, xs)
