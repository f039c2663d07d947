"""Functions that run again for their gradient: both runs see the same values of closures and variables."""

import functools

import numpy as np
import pytest

import plugrad
from plugrad.tensor.closures import bind_closure

SCALES = (0.5, 2.0, 3.0)
"""The factors of the layers, one for each iteration of the loop that makes them."""


def chain_layers(call, x):
    """Return the results of layers that close over the variable of a loop, one after the other."""
    for scale in SCALES:
        x = call(lambda h: plugrad.tanh(h * scale), x)  # noqa: B023 - that is what is tested
    return x


def chain_layers_of_helpers(call, x):
    """Return the results of `chain_layers`, from layers that close over a function."""
    for scale in SCALES:

        def multiply(h):
            return h * scale  # noqa: B023 - that is what is tested

        x = call(lambda h: plugrad.tanh(multiply(h)), x)
    return x


def chain_partial_layers(call, x):
    """Return the results of `chain_layers`, from layers that `functools.partial` makes."""
    for scale in SCALES:
        x = call(functools.partial(lambda bias, h: plugrad.tanh(h * scale + bias), 0.0), x)  # noqa: B023
    return x


def chain_layers_with_functions_as_arguments(call, x):
    """Return the results of layers that get functions as a default, by `functools.partial`, or as a method's own."""

    class Layer:
        apply = None

    for scale in SCALES:

        def multiply(h):
            return h * scale  # noqa: B023 - that is what is tested

        def apply(h, function=multiply, *, finish=lambda h: plugrad.tanh(h * scale)):
            return finish(function(h))

        Layer.apply = lambda self, h: plugrad.sin(h * scale)  # noqa: B023
        x = call(apply, x)
        x = call(functools.partial(lambda f, h, g: f(g(h)), multiply, g=multiply), x)
        x = call(Layer().apply, x)
    return x


def replace_captured(call, x):
    """Return the result for a captured tensor whose name stands for another one later."""
    y = 2 * x
    y = call(lambda h: plugrad.sin(h * plugrad.stop_gradient(y)), x)
    return y


CALLS = {
    "checkpoint": lambda f, x: plugrad.checkpoint(f)(x),
    "jit": lambda f, x: plugrad.jit(f)(x),
    "checkpoint of jit": lambda f, x: plugrad.checkpoint(plugrad.jit(f))(x),
    "scan": lambda f, x: plugrad.scan(lambda carry, _: (f(carry), None), x, length=1)[0],
    "nested checkpoints": lambda f, x: plugrad.checkpoint(plugrad.checkpoint(f))(x),
    "checkpoint of vmap": lambda f, x: plugrad.checkpoint(plugrad.vmap(f))(x[None])[0],
    "cond": lambda f, x: plugrad.cond(x > 0, f, abs, x),
}
"""By name: a transformation of f, called with x, that may run f again for its gradient."""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "function",
    [
        chain_layers,
        chain_layers_of_helpers,
        chain_partial_layers,
        chain_layers_with_functions_as_arguments,
        replace_captured,
    ],
)
def test_both_runs_see_the_same_values_of_closures(function, call):
    x = plugrad.asarray(0.3)
    expected = plugrad.grad(lambda x: function(lambda f, x: f(x), x))(x).item()
    for transform in (
        plugrad.grad,
        lambda f: plugrad.jit(plugrad.grad(f)),
        lambda f: plugrad.grad(plugrad.jit(f)),
    ):
        gradient = transform(lambda x: function(call, x))
        assert gradient(x).item() == pytest.approx(expected, 1e-5)


def test_both_runs_of_a_checkpoint_see_the_same_variable_of_a_loop():
    weights = [plugrad.Variable(scale) for scale in SCALES]

    def loss(transform):
        h = plugrad.asarray(0.3)
        for w in weights:
            h = transform(lambda h: plugrad.tanh(h * w))(h)  # noqa: B023 - that is what is tested
        return h

    _, expected = plugrad.variable_grads(lambda: loss(lambda f: f), weights)
    for transform in (plugrad.checkpoint, plugrad.jit):
        _, found = plugrad.variable_grads(lambda t=transform: loss(t), weights)
        np.testing.assert_allclose([g.item() for g in found], [g.item() for g in expected], 1e-5)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_both_runs_see_the_same_variables_if_they_are_replaced_later(call):
    weight = plugrad.Variable(3.0)

    def multiply_and_replace(x):
        weight.assign(3.0)
        y = call(lambda x: x * x * weight, x)
        weight.assign(100.0)
        return y

    for transform in (
        plugrad.grad,
        lambda f: plugrad.jit(plugrad.grad(f)),
        lambda f: plugrad.grad(plugrad.jit(f)),
    ):
        assert transform(multiply_and_replace)(2.0).item() == 12


def test_bound_closures_may_call_themselves_and_lack_values():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    def read_unassigned():
        return unassigned

    bound = bind_closure(power)
    assert bound(2.0, 3) == 8
    with pytest.raises(NameError):
        bind_closure(read_unassigned)()
    unassigned = 1
    assert read_unassigned() == unassigned
    assert bind_closure(len) is len


@pytest.mark.parametrize("is_traced", [False, True], ids=["untraced", "traced"])
@pytest.mark.parametrize("inner", [lambda f: f, plugrad.jit], ids=["function", "jit"])
def test_a_checkpoint_assigns_to_variables_once(inner, is_traced):
    count, weight = plugrad.Variable(1.0), plugrad.Variable(3.0)

    def multiply_and_count(x):
        count.assign(count + 1)
        y = x * count
        count.assign(count * 2)
        return y * weight

    def run(transform):
        count.assign(1.0)
        gradient = plugrad.grad(transform(inner(multiply_and_count)))
        gradient = plugrad.jit(gradient) if is_traced else gradient
        return [value.item() for _ in range(3) for value in (gradient(2.0), count)]

    nested = plugrad.checkpoint(lambda x: plugrad.checkpoint(multiply_and_count)(x) * 1)
    assert (
        run(plugrad.checkpoint)
        == run(lambda f: f)
        == run(lambda _: nested)
        == [6, 4, 15, 10, 33, 22]
    )


@pytest.mark.parametrize("is_traced", [False, True], ids=["untraced", "traced"])
@pytest.mark.parametrize("inner", [lambda f: f, plugrad.jit], ids=["function", "jit"])
@pytest.mark.parametrize("name", ["Adam", "NAdam"])  # one kernel call, and formulas
def test_a_checkpoint_takes_steps_of_optimizers_once(name, inner, is_traced):
    def run(transform):
        optimizer = getattr(plugrad.optimizers, name)(lambda step: 0.1 / (1 + step))
        first, second = plugrad.Variable([1.0, 2.0]), plugrad.Variable([3.0, 4.0])

        def fit_and_multiply(x):
            optimizer.minimize(lambda: plugrad.sum((first * second - x) ** 2), [first])
            optimizer.minimize(lambda: plugrad.sum((first - second) ** 2), [first, second])
            optimizer.apply_gradients([])
            return plugrad.sum(first * second * x * x)

        gradient = plugrad.grad(transform(inner(fit_and_multiply)))
        gradient = plugrad.jit(gradient) if is_traced else gradient
        gradients = [gradient(plugrad.asarray([5.0, 6.0])).numpy() for _ in range(3)]
        optimizer.apply_gradients([(first, first), (second, second)])
        state = optimizer.get_state([first, second])
        counts = [optimizer.iterations, *(entry["steps"] for entry in state["variables"])]
        return counts, [*gradients, first.numpy(), second.numpy(), state["variables"][0]["m"]]

    counts, expected = run(lambda f: f)
    assert counts == [10, 7, 4]
    nested = lambda f: plugrad.checkpoint(lambda x: plugrad.checkpoint(f)(x) * 1)  # noqa: E731
    for transform in (plugrad.checkpoint, nested):
        found_counts, found = run(transform)
        assert found_counts == counts
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)
