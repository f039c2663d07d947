"""Derivatives of traced functions, and traced derivatives."""

import numpy as np
import pytest

import plugrad
from core.traced_values import X, Y, same
from plugrad.errors import (
    TracingError,
)

# --- derivatives ----------------------------------------------------------------------------------


def cubic(x):
    return plugrad.sum(x * x * x + plugrad.sin(x))


DERIVATIVES = {
    "grad of jit": (lambda f: plugrad.grad(plugrad.jit(f)), lambda f: plugrad.grad(f)),
    "jit of grad": (lambda f: plugrad.jit(plugrad.grad(f)), lambda f: plugrad.grad(f)),
    "jit of jit": (lambda f: plugrad.jit(plugrad.jit(f)), lambda f: f),
    "jit of grad of jit": (lambda f: plugrad.jit(plugrad.grad(plugrad.jit(f))), plugrad.grad),
    "grad of grad of jit": (
        lambda f: plugrad.grad(lambda x: plugrad.sum(plugrad.grad(plugrad.jit(f))(x))),
        lambda f: plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x))),
    ),
    "third order": (
        lambda f: third(plugrad.jit(f)),
        lambda f: third(f),
    ),
    "jit of grad of grad": (
        lambda f: plugrad.jit(plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x)))),
        lambda f: plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x))),
    ),
    "hessian of jit": (lambda f: plugrad.hessian(plugrad.jit(f)), plugrad.hessian),
    "jit of hessian": (lambda f: plugrad.jit(plugrad.hessian(f)), plugrad.hessian),
    "checkpoint of jit": (
        lambda f: plugrad.grad(plugrad.checkpoint(plugrad.jit(f))),
        plugrad.grad,
    ),
    "jit of checkpoint": (
        lambda f: plugrad.jit(plugrad.grad(plugrad.checkpoint(f))),
        plugrad.grad,
    ),
    "vjp of jit": (lambda f: pulled(plugrad.jit(f)), lambda f: pulled(f)),
    "jit of vjp": (lambda f: plugrad.jit(pulled(f)), lambda f: pulled(f)),
    "jvp of jit": (lambda f: pushed(plugrad.jit(f)), lambda f: pushed(f)),
    "jit of jvp": (lambda f: plugrad.jit(pushed(f)), lambda f: pushed(f)),
}


def third(f):
    first = plugrad.grad(f)
    second = plugrad.grad(lambda x: plugrad.sum(first(x)))
    return plugrad.grad(lambda x: plugrad.sum(second(x)))


def pulled(f):
    return lambda x: plugrad.vjp(f, x)[1](plugrad.asarray(2.0))


def pushed(f):
    return lambda x: plugrad.jvp(f, (x,), (x * 0 + 1,))[1]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    traced, untraced = (make(cubic) for make in DERIVATIVES[name])
    expected = untraced(X)
    for _ in range(2):
        found = traced(X)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_gradients_with_respect_to_some_arguments_and_results():
    def f(x, y, scale):
        return {"a": x * y * scale, "b": plugrad.sum(plugrad.exp(x)), "c": plugrad.argmax(x)}

    def loss(g):
        return lambda x, y: plugrad.sum(g(x, y, 2.0)["a"] * y) + g(x, y, 2.0)["b"]

    for one, other in zip(
        plugrad.grads(loss(plugrad.jit(f)))(X, Y), plugrad.grads(loss(f))(X, Y), strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_custom_gradients_inside_and_outside():
    @plugrad.custom_grad
    def clipped(x, save):
        return plugrad.exp(x), lambda dy, saved: plugrad.clip(dy, -0.5, 0.5)

    loss = lambda f: lambda x: plugrad.sum(f(x) * 3)  # noqa: E731
    expected = plugrad.grad(loss(clipped))(X)
    same(plugrad.grad(loss(plugrad.jit(clipped)))(X), expected)
    same(plugrad.jit(plugrad.grad(loss(clipped)))(X), expected)

    inner = plugrad.jit(plugrad.exp)

    @plugrad.custom_grad
    def outside(x, save):
        return inner(x), lambda dy, saved: dy * 5

    same(plugrad.grad(lambda x: plugrad.sum(outside(x)))(X), plugrad.full((3,), 5.0))


def test_variable_grads_and_minimize_of_a_jitted_loss():
    def steps(wrap):
        w = plugrad.Variable(X, name="w")
        loss = wrap(lambda: plugrad.sum(plugrad.square(w * Y - 1)))
        optimizer = plugrad.optimizers.SGD(0.01)
        value, gradients = plugrad.variable_grads(loss, [w])
        for _ in range(3):
            optimizer.minimize(loss, [w])
        (gradient,) = gradients.values() if isinstance(gradients, dict) else gradients
        return value.numpy(), gradient.numpy(), w.numpy()

    for one, other in zip(steps(plugrad.jit), steps(lambda f: f), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_step_of_an_optimizer_is_the_untraced_one_bit_for_bit():
    def run(wrap):
        w = plugrad.Variable(X)
        optimizer = plugrad.optimizers.Adam(0.1)
        step = wrap(
            lambda y: optimizer.minimize(lambda: plugrad.sum(plugrad.square(w * y - 1)), [w])
        )
        return [step(Y).numpy().tobytes() for _ in range(5)] + [w.numpy().tobytes()]

    assert run(plugrad.jit) == run(lambda f: f)


def test_a_tensor_that_is_being_differentiated_is_no_constant():
    with pytest.raises(TracingError, match="pass it as an argument"):
        plugrad.grad(lambda x: plugrad.sum(plugrad.jit(lambda y: y * x)(Y)))(X)


def test_nothing_is_recorded_without_need():
    assert plugrad.jit(lambda x: x * 2)(X).node is None
