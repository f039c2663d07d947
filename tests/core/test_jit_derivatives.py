"""Derivatives of traced functions, and traced derivatives."""

import numpy as np
import pytest

import plugrad
from core.traced_values import VECTOR_X, VECTOR_Y, assert_identical
from plugrad.errors import (
    TracingError,
)

# --- derivatives ----------------------------------------------------------------------------------


def sum_of_cubes_and_sines(x):
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
        lambda f: third_derivative(plugrad.jit(f)),
        lambda f: third_derivative(f),
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
    "vjp of jit": (
        lambda f: vjp_with_cotangent_2(plugrad.jit(f)),
        lambda f: vjp_with_cotangent_2(f),
    ),
    "jit of vjp": (
        lambda f: plugrad.jit(vjp_with_cotangent_2(f)),
        lambda f: vjp_with_cotangent_2(f),
    ),
    "jvp of jit": (lambda f: jvp_with_tangent_1(plugrad.jit(f)), lambda f: jvp_with_tangent_1(f)),
    "jit of jvp": (lambda f: plugrad.jit(jvp_with_tangent_1(f)), lambda f: jvp_with_tangent_1(f)),
}


def third_derivative(f):
    first = plugrad.grad(f)
    second = plugrad.grad(lambda x: plugrad.sum(first(x)))
    return plugrad.grad(lambda x: plugrad.sum(second(x)))


def vjp_with_cotangent_2(f):
    return lambda x: plugrad.vjp(f, x)[1](plugrad.asarray(2.0))


def jvp_with_tangent_1(f):
    return lambda x: plugrad.jvp(f, (x,), (x * 0 + 1,))[1]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_traced_derivatives_match_untraced_ones(name):
    traced, untraced = (make(sum_of_cubes_and_sines) for make in DERIVATIVES[name])
    expected = untraced(VECTOR_X)
    for _ in range(2):
        found = traced(VECTOR_X)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_gradients_with_respect_to_some_arguments_and_results():
    def f(x, y, scale):
        return {"a": x * y * scale, "b": plugrad.sum(plugrad.exp(x)), "c": plugrad.argmax(x)}

    def loss(g):
        return lambda x, y: plugrad.sum(g(x, y, 2.0)["a"] * y) + g(x, y, 2.0)["b"]

    for one, other in zip(
        plugrad.grads(loss(plugrad.jit(f)))(VECTOR_X, VECTOR_Y),
        plugrad.grads(loss(f))(VECTOR_X, VECTOR_Y),
        strict=True,
    ):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_custom_gradients_inside_and_outside():
    @plugrad.custom_grad
    def clipped(x, save):
        return plugrad.exp(x), lambda dy, saved: plugrad.clip(dy, -0.5, 0.5)

    loss = lambda f: lambda x: plugrad.sum(f(x) * 3)  # noqa: E731
    expected = plugrad.grad(loss(clipped))(VECTOR_X)
    assert_identical(plugrad.grad(loss(plugrad.jit(clipped)))(VECTOR_X), expected)
    assert_identical(plugrad.jit(plugrad.grad(loss(clipped)))(VECTOR_X), expected)

    inner = plugrad.jit(plugrad.exp)

    @plugrad.custom_grad
    def outside(x, save):
        return inner(x), lambda dy, saved: dy * 5

    assert_identical(
        plugrad.grad(lambda x: plugrad.sum(outside(x)))(VECTOR_X), plugrad.full((3,), 5.0)
    )


def test_variable_grads_and_minimize_of_a_jitted_loss():
    def steps(wrap):
        w = plugrad.Variable(VECTOR_X, name="w")
        loss = wrap(lambda: plugrad.sum(plugrad.square(w * VECTOR_Y - 1)))
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
        w = plugrad.Variable(VECTOR_X)
        optimizer = plugrad.optimizers.Adam(0.1)
        step = wrap(
            lambda y: optimizer.minimize(lambda: plugrad.sum(plugrad.square(w * y - 1)), [w])
        )
        return [step(VECTOR_Y).numpy().tobytes() for _ in range(5)] + [w.numpy().tobytes()]

    assert run(plugrad.jit) == run(lambda f: f)


def test_a_tensor_that_is_being_differentiated_is_no_constant():
    with pytest.raises(TracingError, match="pass it as an argument"):
        plugrad.grad(lambda x: plugrad.sum(plugrad.jit(lambda y: y * x)(VECTOR_Y)))(VECTOR_X)


def test_functions_under_jit_and_vmap_know_that_they_are_differentiated():
    found = []

    def f(x):
        found.append((2 * x).is_being_differentiated())
        return plugrad.sum(2 * x)

    plugrad.grad(plugrad.jit(f))(VECTOR_X)
    assert found == [False, True]  # the call, and its gradient
    found.clear()
    plugrad.grad(lambda x: plugrad.sum(plugrad.vmap(f)(x)))(VECTOR_X)
    plugrad.vmap(f)(VECTOR_X)
    assert found == [True, False]


def test_calls_are_recorded_only_while_differentiating():
    assert plugrad.jit(lambda x: x * 2)(VECTOR_X).node is None
