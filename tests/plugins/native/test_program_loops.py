"""Loops and choices in compiled graphs: they equal untraced ones to the bit, and do not come back to Python."""

import contextlib
import signal

import numpy as np
import pytest

import plugrad
from plugins.comparing import assert_same_when_traced, random_tensor
from plugrad.discovery.loading import open_backend
from plugrad.extend import Cond, Scan, While

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
open_backend("cpu")

WEIGHTS = random_tensor(4, 4, seed=5)


def loop_body_with_exchange(carry, x):
    """Return a carry whose parts change places, stay the same, and are stacked."""
    a, b, c, count = carry
    return (b, a * x, c, count + 1), (a, c, x)


def loop_body_with_counter(carry, x):
    a, b, c, count = carry
    y = plugrad.tanh(a @ WEIGHTS + x)
    return (y, b + y, c, count + 1), (y, y * 2, count)


@pytest.mark.parametrize("body", [loop_body_with_exchange, loop_body_with_counter])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 5])
def test_scans_match_untraced_ones(body, reverse, length):
    a, b, c, xs = (
        random_tensor(4),
        random_tensor(4, seed=1),
        random_tensor(2, 3),
        random_tensor(length, 4, seed=2),
    )

    def f(a, b, c, xs):
        count = plugrad.asarray(0, dtype="int32")
        return plugrad.scan(body, (a, b, c, count), xs, reverse=reverse)

    assert_same_when_traced(f, a, b, c, xs)
    assert is_one_program(f, a, b, c, xs)

    def loss(a, xs):
        last, stacked = f(a, b, c, xs)
        return sum(plugrad.sum(y) for y in (*last[:3], *stacked[:2]))

    assert_same_when_traced(plugrad.grads(loss), a, xs)


def is_one_program(function, *args):
    """Return whether loops and conditionals run without returning to Python."""
    steps = plugrad.make_graph(function, fused=True)(*args).steps
    return not any(isinstance(step, Scan | Cond | While) for step in steps)


def test_a_scan_that_c_cannot_run_is_replayed():
    xs = random_tensor(3, 5)
    assert_same_when_traced(
        lambda xs: plugrad.scan(lambda c, x: (c + plugrad.sort(x), c), xs[0], xs), xs
    )
    assert_same_when_traced(lambda xs: plugrad.scan(lambda c, x: (c, x), xs[0], xs[:0]), xs)
    assert_same_when_traced(
        lambda xs: plugrad.scan(lambda c, x: (c * x, c), xs[0], xs), random_tensor(5, 3).T
    )


def cond_with_all_outputs(x, y):
    """Return a conditional whose branches return results, an operand, a view, a constant, and a value twice."""
    return plugrad.cond(
        plugrad.sum(x) > 0,
        lambda x, y: (x * 2, y, plugrad.reshape(x, (2, 2)), WEIGHTS[0], x + 1, x + 1),
        lambda x, y: (y, plugrad.tanh(x @ WEIGHTS), plugrad.reshape(y - x, (2, 2)), x, y, x),
        x,
        y,
    )


def while_loop_with_exchange(x, y):
    """Return a while loop whose carry changes places, counts, and keeps a part."""

    def body(carry):
        a, b, kept, count = carry
        return b * 0.5 + WEIGHTS[0] * 1e-3, a, kept, count + 1

    return plugrad.while_loop(
        lambda c: (plugrad.max(plugrad.abs(c[0])) > 0.1) & (c[3] < 50),
        body,
        (x, y, x, plugrad.asarray(0, dtype="int32")),
    )


def nested_loops(x, y):
    """Return nested loops over slices of slices, with conditionals that depend on a slice."""

    def inner(carry, part):
        return carry * 0.5 + part, carry - y

    def outer(carry, part):
        rows, flag = part
        last, stacked = plugrad.scan(inner, carry, rows, reverse=True)
        grown = plugrad.while_loop(lambda c: plugrad.sum(c * c) < 10, lambda c: c * 2 + 0.1, last)
        taken = plugrad.cond(
            flag,
            lambda: plugrad.scan(lambda c, r: (c + r, c), grown, rows)[1],
            lambda: stacked + grown,
        )
        return taken[0], (taken, stacked, rows, flag)

    rows = plugrad.reshape(plugrad.concat([x, y, x * y] * 4), (3, 4, 4))
    return plugrad.scan(outer, x, (rows, plugrad.sum(rows, axis=(1, 2)) > 0))


@pytest.mark.parametrize(
    "function",
    [cond_with_all_outputs, while_loop_with_exchange, nested_loops],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("sign", [1, -1])
def test_choices_and_loops_of_unknown_length(function, sign):
    x, y = sign * random_tensor(4), random_tensor(4, seed=1)
    assert_same_when_traced(function, x, y)
    assert_same_when_traced(
        function, plugrad.stack([x, y], axis=1)[:, 0], y
    )  # not contiguous: replayed
    assert is_one_program(function, x, y)


def test_slices_and_conditionals_in_loops():
    """The program includes the slicing, stacking and conditionals of a loop."""

    def body(carry, part):
        a, b = plugrad.unstack(carry)
        flags = (carry > 0) ^ (part[::-1] > 0) | ~(carry[:, ::-2].T[0] < part[-1, 0])[:, None]
        is_any, is_all = plugrad.any(flags, axis=1), plugrad.all(flags[1:2], axis=0, keepdims=True)
        next_carry = plugrad.stack([b[::-1] * 0.5, a + part[1]])
        return next_carry, (flags, is_any, is_all, plugrad.all(flags), carry[:, 3:0:-2])

    xs, start = random_tensor(5, 2, 4), random_tensor(2, 4, seed=1)
    assert_same_when_traced(lambda start, xs: plugrad.scan(body, start, xs), start, xs)
    assert is_one_program(lambda start, xs: plugrad.scan(body, start, xs), start, xs)


def test_loops_stack_and_unstack_single_numbers():
    def body(carry, x):
        numbers = plugrad.stack([carry, x, carry * x])
        first, second, third = plugrad.unstack(numbers * 2)
        return plugrad.sum(numbers) + second, first * third

    x, start = random_tensor(3), random_tensor(1)[0]
    assert_same_when_traced(lambda start, x: plugrad.scan(body, start, x), start, x)
    assert is_one_program(lambda start, x: plugrad.scan(body, start, x), start, x)


def test_a_choice_with_a_gradient_is_one_program():
    def loss(x, y):
        a, b, c, _, d, e = cond_with_all_outputs(x, y)
        return plugrad.sum(a * b + d * e) + plugrad.sum(c * c)

    gradient = plugrad.grad(loss, (0, 1))
    for sign in (1, -1):
        assert_same_when_traced(gradient, sign * random_tensor(4), random_tensor(4, seed=1))
    assert is_one_program(gradient, random_tensor(4), random_tensor(4, seed=1))


def test_a_choice_that_c_cannot_run_is_replayed():
    assert_same_when_traced(
        lambda x: plugrad.cond(x[0] > 0, plugrad.sort, lambda x: x, x), random_tensor(5)
    )
    assert_same_when_traced(
        lambda x: plugrad.cond(plugrad.sum(x) > 0, lambda x: x * 2, lambda x: x, x),
        random_tensor(0),
    )
    assert_same_when_traced(
        lambda x: plugrad.while_loop(lambda c: c[0] < 9, lambda c: plugrad.sort(c + 1), x),
        random_tensor(3),
    )


def test_an_endless_loop_is_interrupted():
    """Interrupts arrive between iterations, also of an empty body; the variable keeps its value."""
    total = plugrad.Variable(random_tensor(3))
    before = total.numpy()

    @plugrad.jit
    def spin(flag):
        total.assign(total * 2)
        return plugrad.while_loop(lambda c: flag, lambda c: c, total + 1)

    assert is_one_program(lambda flag: plugrad.while_loop(lambda c: flag, lambda c: c, flag), True)
    for _ in range(3):
        with pytest.raises(InterruptedError), raise_after(0.05):
            spin(plugrad.asarray(True, device="cpu"))
        np.testing.assert_array_equal(total.numpy(), before)


@contextlib.contextmanager
def raise_after(seconds):
    """Make an alarm raise an error after some seconds."""

    def stop(*_):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def test_loops_and_fused_regions_with_their_own_constants():
    x = random_tensor(128)

    def body(carry, _):
        ones = plugrad.ones_like(carry)
        weights = plugrad.arange(128, dtype="float32")
        return carry * 0.5 + ones / (weights + 2), (carry, weights.reshape(2, 64).T[0] + carry[0])

    assert_same_when_traced(lambda x: plugrad.scan(body, x, length=4), x)
    assert_same_when_traced(
        lambda x: plugrad.scan(lambda c, _: (plugrad.ones_like(c), c * 2), x, length=3), x
    )
    assert_same_when_traced(
        lambda x: plugrad.scan(lambda c, _: (c * 2, plugrad.ones_like(c)), x, length=3), x
    )
    table = random_tensor(64, 64)  # too large to be folded

    def gradient(x):
        def step(carry, _):
            return carry - 0.1 * plugrad.grad(
                lambda q: plugrad.sum(plugrad.log(1 + plugrad.exp(table @ q)))
            )(carry), None

        return plugrad.scan(step, x, length=5)[0]

    assert_same_when_traced(gradient, x[:64])
    assert_same_when_traced(
        lambda x: table.reshape(-1)[:128] * x + table.reshape(32, 128) @ x.reshape(128, 1), x
    )


def test_complex_products_with_one_are_computed():
    """The imaginary part of (x - 0j) * (1 + 0j) is 0, and that of the first factor is -0."""
    x, one = plugrad.asarray(np.full(9, 0.75 + 0j)), plugrad.asarray(1 + 0j)

    def function(x):
        return plugrad.conj(plugrad.conj(x) * one)

    with plugrad.use("cpu"):
        expected, found = function(x), plugrad.jit(function)(x)
    assert np.signbit(found.numpy().imag).all()
    assert found.numpy().tobytes() == expected.numpy().tobytes()
