"""scan, cond and while_loop: what is traced equals what runs as plain Python, and finite differences decide."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    GradientNotFound,
    ShapeError,
    TracingError,
)
from plugrad.tensor.trees import iter_tensors
from plugrad.testing.finite_differences import check_gradient

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3, 3)) * 0.5
INITIAL_CARRY = RNG.normal(size=3)
INPUTS = RNG.normal(size=(5, 3))


def as_tensors(*arrays, dtype="float64"):
    return [plugrad.asarray(array.astype(dtype)) for array in arrays]


def scan_to_scalar(weights, start, inputs, reverse=False):
    """Return a number that depends on the last carry and on all results of a loop."""

    def cell(carry, x):
        after = plugrad.tanh(carry @ weights + x)
        return after, plugrad.sum(after * carry)

    last, results = plugrad.scan(cell, start, inputs, reverse=reverse)
    return plugrad.sum(last * last) + plugrad.sum(plugrad.sin(results))


def derivatives_up_to(function, count):
    """Return a function and its derivatives up to an order, each as a function that returns a list."""
    found = [lambda *xs: [function(*xs)]]
    current = function
    for _ in range(count):
        gradients = plugrad.grads(current)
        found.append(lambda *xs, g=gradients: list(g(*xs)))

        def current(*xs, g=gradients):
            parts = [plugrad.sum(plugrad.sin(part)) for part in g(*xs)]
            return sum(parts[1:], parts[0])

    return found


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_and_its_gradients_match_a_python_loop(order, reverse):
    args = as_tensors(WEIGHTS, INITIAL_CARRY, INPUTS)
    function = derivatives_up_to(lambda *xs: scan_to_scalar(*xs, reverse=reverse), 3)[order]
    for traced, plain in zip(plugrad.jit(function)(*args), function(*args), strict=True):
        np.testing.assert_allclose(traced.numpy(), plain.numpy(), 1e-12, 1e-12)


def test_finite_differences_agree_with_the_gradient_of_a_traced_scan():
    check_gradient(
        plugrad.jit(scan_to_scalar),
        *as_tensors(WEIGHTS, INITIAL_CARRY, INPUTS),
        order=2,
        dtype="float64",
    )


def test_scan_on_backends(backend):
    args = as_tensors(WEIGHTS, INITIAL_CARRY, INPUTS, dtype="float32")
    gradients = plugrad.grads(scan_to_scalar)
    for traced, plain in zip(plugrad.jit(gradients)(*args), gradients(*args), strict=True):
        np.testing.assert_allclose(traced.numpy(), plain.numpy(), 1e-5, 1e-6)


def test_scan_is_one_step_that_is_traced_once():
    calls = []

    def cell(carry, x):
        calls.append(None)
        return carry + x, None

    graph = plugrad.make_graph(lambda xs: plugrad.scan(cell, plugrad.asarray(0.0), xs)[0])(
        plugrad.ones(1000)
    )
    assert len(calls) == 1
    assert len(graph.steps) == 1


def test_scan_takes_nested_containers_and_numbers():
    def cell(carry, x):
        total, count = carry["total"], carry["count"]
        return {"total": total + x[0] * x[1], "count": count + 1}, (total, None)

    def run(a, b):
        return plugrad.scan(cell, {"total": 0.0, "count": 0}, (a, b))

    a, b = plugrad.asarray([1.0, 2.0, 3.0]), plugrad.asarray([2.0, 2.0, 2.0])
    for function in (run, plugrad.jit(run)):
        carry, (totals, nothing) = function(a, b)
        assert (carry["total"].item(), carry["count"].item(), nothing) == (12.0, 3, None)
        assert totals.tolist() == [0.0, 2.0, 6.0]


@pytest.mark.parametrize("wrap", [lambda f: f, plugrad.jit], ids=["plain", "traced"])
def test_scan_of_length_zero(wrap):
    function = wrap(lambda xs: plugrad.scan(lambda c, x: (c + x, c * 2), plugrad.asarray(3.0), xs))
    carry, results = function(plugrad.zeros(0))
    assert carry.item() == 3.0
    assert (results.shape, results.dtype) == ((0,), plugrad.float32)


def test_a_loop_reads_variables_and_their_gradients_arrive():
    weights = plugrad.Variable(plugrad.asarray(WEIGHTS))
    start, inputs = as_tensors(INITIAL_CARRY, INPUTS)

    def loss(start, inputs):
        return plugrad.variable_grads(lambda: scan_to_scalar(weights, start, inputs), [weights])

    value, (gradient,) = loss(start, inputs)
    step = plugrad.jit(loss)
    found, (traced,) = step(start, inputs)
    np.testing.assert_allclose(traced.numpy(), gradient.numpy(), 1e-12)
    assert found.item() == pytest.approx(value.item(), rel=1e-12)
    weights.assign(weights * 0)
    assert step(start, inputs)[0].item() != found.item()


def test_a_loop_uses_and_returns_views_of_constants():
    row = plugrad.asarray([[1.0, 2.0, 3.0]])

    def forget(carry, _):
        return row.reshape((3,)), carry * 2

    def add(carry, _):
        return carry + row.reshape((3,)), row.reshape((3, 1))

    def multiply(carry, _):
        return carry * row.reshape((3,)), row.reshape((3,)) + 1

    for step in (forget, add, multiply):
        function = lambda x, step=step: plugrad.scan(step, x, length=3)  # noqa: E731
        x = plugrad.asarray([4.0, 5.0, 6.0])
        for result, expected in zip(plugrad.jit(function)(x), function(x), strict=True):
            assert result.tolist() == expected.tolist()


def test_gradient_inside_a_loop_for_a_closed_over_tensor():
    def function(weights, start):
        def cell(carry, _):
            inner = plugrad.grad(lambda w: plugrad.sum(plugrad.tanh(carry @ w) ** 2))(weights)
            return carry + plugrad.sum(inner, axis=0), None

        return plugrad.sum(plugrad.scan(cell, start, length=3)[0] ** 2)

    args = as_tensors(WEIGHTS, INITIAL_CARRY)
    gradients = plugrad.grads(function)
    for traced, plain in zip(plugrad.jit(gradients)(*args), gradients(*args), strict=True):
        np.testing.assert_allclose(traced.numpy(), plain.numpy(), 1e-12, 1e-12)


def test_loops_in_loops():
    def function(weights, start, inputs):
        def outer(carry, x):
            inner, _ = plugrad.scan(
                lambda c, _: (plugrad.tanh(c @ weights + x), None), carry, length=2
            )
            return inner, plugrad.sum(inner)

        last, results = plugrad.scan(outer, start, inputs)
        return plugrad.sum(last) + plugrad.sum(results**2)

    args = as_tensors(WEIGHTS, INITIAL_CARRY, INPUTS)
    for order in derivatives_up_to(function, 2):
        for traced, plain in zip(plugrad.jit(order)(*args), order(*args), strict=True):
            np.testing.assert_allclose(traced.numpy(), plain.numpy(), 1e-11, 1e-11)


def test_random_numbers_in_a_traced_loop_match_a_python_loop():
    def noisy(x):
        return plugrad.scan(
            lambda c, _: (c * plugrad.random.uniform((3,), 0.5, 1.5, dtype="float64"), None),
            x,
            length=4,
        )[0]

    (x,) = as_tensors(INITIAL_CARRY)
    for function in (noisy, plugrad.grad(lambda x: plugrad.sum(noisy(x)))):
        step = plugrad.jit(function)
        plugrad.random.seed(1)
        plain = [function(x).tolist() for _ in range(3)]
        plugrad.random.seed(1)
        assert [step(x).tolist() for _ in range(3)] == plain
        assert plain[0] != plain[1]


def random_factor(shape=(3,)):
    return plugrad.random.uniform(shape, 0.5, 1.5, dtype="float64")


def random_scan(x):
    return plugrad.scan(lambda c, _: (plugrad.sin(c * random_factor()), c * c), x, length=4)


def random_nested_scan(x):
    """A loop in a loop, whose inner one has a conditional with random numbers in both branches."""

    def inner(c, _):
        flag = plugrad.sum(c) > 1.3
        chosen = plugrad.cond(
            flag, lambda y: y * random_factor() + random_factor(), lambda y: y - random_factor(), c
        )
        return plugrad.sin(chosen), plugrad.sum(chosen)

    def outer(c, row):
        c, sums = plugrad.scan(inner, c * random_factor(), length=3)
        return c * row, sums

    return plugrad.scan(outer, x, plugrad.stack([x, x + 1]))


def random_while_loop(x):
    """A while loop with random numbers, whose result is a constant."""
    scale = plugrad.while_loop(
        lambda y: y < 3, lambda y: y + random_factor(()), plugrad.zeros((), dtype="float64")
    )
    return x * scale * random_factor(), x


def random_while_loops_in_scan(x):
    return plugrad.scan(
        lambda c, _: (plugrad.sin(random_while_loop(c)[0]), random_factor()), x, length=3
    )


LOOPS_THAT_DRAW_NUMBERS = {
    f.__name__: f
    for f in (random_scan, random_nested_scan, random_while_loop, random_while_loops_in_scan)
}
JIT_ORDERS = {
    "inside": lambda f, order: plugrad.jit(order(f)),
    "outside": lambda f, order: order(plugrad.jit(f)),
    "both": lambda f, order: plugrad.jit(order(plugrad.jit(f))),
}


@pytest.mark.parametrize("wrap", JIT_ORDERS)
@pytest.mark.parametrize("name", LOOPS_THAT_DRAW_NUMBERS)
def test_gradients_of_loops_with_random_numbers_match_python_loops(name, wrap):
    def loss(x):
        last, results = LOOPS_THAT_DRAW_NUMBERS[name](x)
        return plugrad.sum(last**2) + plugrad.sum(results)

    def second(f):
        return plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x) ** 2))

    (x,) = as_tensors(INITIAL_CARRY)
    for order in (plugrad.value_and_grad, second):
        found = []
        for function in (order(loss), JIT_ORDERS[wrap](loss, order)):
            plugrad.random.seed(1)
            results = [function(x) for _ in range(2)]
            found.append([y.numpy() for y in iter_tensors([results, random_factor()])])
        for plain, traced in zip(*found, strict=True):
            np.testing.assert_allclose(traced, plain, 1e-10, 1e-12)


def test_cond_chooses_at_each_call(backend):
    def function(x):
        return plugrad.cond(
            plugrad.sum(x) > 0,
            lambda x: plugrad.sum(x * x),
            lambda x: plugrad.sum(plugrad.exp(x)),
            x,
        )

    (x,) = as_tensors(np.array([0.5, 1.0]), dtype="float32")
    for wanted in (function, plugrad.grad(function)):
        traced = plugrad.jit(wanted)
        for value in (x, -x, x):
            np.testing.assert_allclose(traced(value).numpy(), wanted(value).numpy(), 1e-6)


def test_cond_runs_one_function_only_and_takes_plain_bools():
    assert plugrad.cond(True, lambda: 1, lambda: 1 / 0) == 1
    traced = plugrad.jit(lambda x, flag: plugrad.cond(flag, lambda x: x, lambda x: -x, x))
    assert traced(plugrad.asarray(2.0), False).item() == -2.0


def test_gradients_of_tensors_closed_over_by_cond():
    def function(a, b):
        return plugrad.cond(
            plugrad.sum(a) > 0, lambda: plugrad.sum(a * b), lambda: plugrad.sum(b**3)
        )

    a, b = as_tensors(np.array([0.5, 1.0]), np.array([2.0, -1.0]))
    gradients = plugrad.grads(function, allow_unused=True)
    second = plugrad.grads(lambda a, b: plugrad.sum(gradients(a, b)[1] ** 2), allow_unused=True)
    for wanted in (gradients, second):
        for value in (a, -a):
            traced = plugrad.jit(wanted)(value, b)
            for found, plain in zip(traced, wanted(value, b), strict=True):
                np.testing.assert_allclose(found.numpy(), plain.numpy(), 1e-12)


def test_while_loop_values(backend):
    def double(x):
        return plugrad.while_loop(lambda c: plugrad.sum(c) < 100, lambda c: c * 2, x)

    x = plugrad.asarray([3.0, 4.0])
    assert plugrad.jit(double)(x).tolist() == double(x).tolist() == [48.0, 64.0]


def test_a_traced_while_loop_has_no_gradient():
    function = lambda x: plugrad.while_loop(lambda c: c < 100, lambda c: c * 2, x)  # noqa: E731
    assert plugrad.grad(function)(3.0).item() == 64.0
    with pytest.raises(GradientNotFound, match="scan"):
        plugrad.jit(plugrad.grad(function))(plugrad.asarray(3.0))


CLOSED_OVER_NUMBER = 1.0


@pytest.mark.parametrize("wrap", [lambda f: f, plugrad.jit], ids=["plain", "traced"])
@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (lambda x: plugrad.scan(lambda c, x: c, x, length=2), ArgumentError, "pair"),
        (lambda x: plugrad.scan(lambda c, x: (c, x), x), ArgumentError, "length"),
        (
            lambda x: plugrad.scan(lambda c, x: (c, x), x, x, length=3),
            ArgumentValueError,
            "equally",
        ),
        (lambda x: plugrad.scan(lambda c, x: ((c, c), x), x, length=2), ArgumentError, "structure"),
        (
            lambda x: plugrad.scan(lambda c, x: (c[:1], x), x, length=2),
            ShapeError,
            r"\(2,\).*\(1,\)",
        ),
        (
            lambda x: plugrad.scan(lambda c, x: (c.astype("int32"), x), x, length=2),
            DTypeError,
            "astype",
        ),
        (lambda x: plugrad.cond(x, lambda: x, lambda: x), DTypeError, "float32"),
        (lambda x: plugrad.cond(x > 0, lambda: x, lambda: x), ShapeError, "one element"),
        (lambda x: plugrad.while_loop(lambda c: c, lambda c: c, x), DTypeError, "float32"),
    ],
)
def test_control_flow_rejects_invalid_functions(wrap, function, error, told):
    with pytest.raises(error, match=told):
        wrap(function)(plugrad.ones(2))


def test_control_flow_rejects_assignments_and_leaks_in_traced_bodies():
    flag = plugrad.asarray(True)
    x = plugrad.ones(2)
    with pytest.raises(ArgumentError, match="same structure"):
        plugrad.jit(lambda f: plugrad.cond(f, lambda: x, lambda: (x, x)))(flag)
    with pytest.raises(ShapeError, match="same shape"):
        plugrad.jit(lambda f: plugrad.cond(f, lambda: x, lambda: x[:1]))(flag)
    variable = plugrad.Variable(x)

    def assigning(carry, _):
        variable.assign(carry)
        return carry, None

    with pytest.raises(TracingError, match="carry"):
        plugrad.jit(lambda x: plugrad.scan(assigning, x, length=2)[0])(x)
    kept = []

    def leaking(carry, _):
        kept.append(carry)
        return carry, None

    with pytest.raises(TracingError, match="reachable"):
        plugrad.jit(lambda x: plugrad.scan(leaking, x, length=2)[0])(x)


@plugrad.custom_grad
def square_with_custom_gradient(x, save):
    save(x)
    return x * x, lambda dy, saved: 2 * dy * saved[0]


@pytest.mark.parametrize(
    "square",
    [square_with_custom_gradient, plugrad.checkpoint(lambda x: x * x)],
    ids=["custom_grad", "checkpoint"],
)
def test_functions_with_own_gradients_take_tensors_from_outside_of_a_loop(square):
    def total(weights, start):
        def multiply(carry, _):
            return carry * plugrad.sum(square(weights)) + square(start), None

        last, _ = plugrad.scan(multiply, start, length=2)
        return plugrad.sum(
            plugrad.cond(last[0] > 0, lambda: last * square(weights[0]), lambda: last)
        )

    args = as_tensors(WEIGHTS, np.abs(INITIAL_CARRY))
    plain = plugrad.grads(total)(*args)
    for traced in (plugrad.jit(plugrad.grads(total)), plugrad.grads(plugrad.jit(total))):
        for found, expected in zip(traced(*args), plain, strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-12)


def grow_by_scan(x, limit):
    return plugrad.while_loop(
        lambda y: plugrad.sum(y) < limit,
        lambda y: plugrad.scan(lambda carry, step: (carry + step * x, None), y, WHOLE_STEPS)[0],
        x,
    )


def grow_by_while_loop(x, limit):
    def double_up_to_twice_the_sum(y):
        return plugrad.while_loop(lambda z: plugrad.sum(z) < 2 * plugrad.sum(y), lambda z: z + x, y)

    return plugrad.while_loop(lambda y: plugrad.sum(y) < limit, double_up_to_twice_the_sum, x)


def grow_by_cond(x, limit):
    def grow(y):
        return plugrad.cond(plugrad.sum(y) > 7, lambda y: y + x, lambda y: 2 * y, y)

    return plugrad.while_loop(lambda y: plugrad.sum(y) < limit, grow, x)


WHOLE_STEPS = plugrad.asarray([1.0, 2.0])
"""The elements over which the loop in `grow_by_scan` runs."""


@pytest.mark.parametrize("function", [grow_by_scan, grow_by_while_loop, grow_by_cond])
def test_loops_in_a_while_loop_under_vmap(function):
    x, limits = plugrad.asarray([[1.0, 2.0], [0.5, 0.25]]), plugrad.asarray([30.0, 9.0])
    singly = [function(*each).tolist() for each in zip(x, limits, strict=True)]
    once, twice = plugrad.vmap(function), plugrad.vmap(plugrad.vmap(function), (None, 0))
    for transform in (lambda f: f, plugrad.jit):
        assert transform(once)(x, limits).tolist() == singly
        assert transform(twice)(x, limits[None]).tolist() == [singly]
