"""Tensors that are differentiated inside of a batch or a traced loop, and outside of it, too."""

import pytest

import plugrad

XS = plugrad.asarray([1.0, 2.0, 5.0])
"""The examples of a batch, or the elements over which a loop runs."""
Y = plugrad.asarray(3.0)
"""The tensor by which the results are differentiated."""
INNER_DERIVATIVES = {
    "grad": (lambda x, y: plugrad.grad(lambda z: z * z * x)(y), 16),
    "value of value_and_grad": (lambda x, y: plugrad.value_and_grad(lambda z: z * z * x)(y)[0], 48),
    "aux": (
        lambda x, y: plugrad.value_and_grad(lambda z: (z * x, z * z), has_aux=True)(y)[0][1] * x,
        48,
    ),
    "value of vjp": (lambda x, y: plugrad.vjp(lambda z: z * z, y)[0] * x, 48),
    "pullback": (lambda x, y: plugrad.vjp(lambda z: z * z, y)[1](x)[0], 16),
    "value of jvp": (lambda x, y: plugrad.jvp(lambda z: z, (y,), (x,))[0] * x, 8),
    "tangent": (lambda x, y: plugrad.jvp(lambda z: z * z, (y,), (x,))[1], 16),
    "hessian": (lambda x, y: plugrad.hessian(lambda z: z * z * z * x)(y), 48),
    "jacobian": (lambda x, y: plugrad.jacobian(lambda z: z * z * x)(y), 16),
    "forward": (lambda x, y: plugrad.jacobian(lambda z: z * z * x, mode="forward")(y), 16),
    "checkpoint": (lambda x, y: plugrad.grad(plugrad.checkpoint(lambda z: z * z * x))(y), 16),
}
"""By name: a function of x and y that differentiates inside, and the expected outer derivative."""
LEVELS = {
    "vmap": lambda f, y: plugrad.sum(plugrad.vmap(lambda x: f(x, y))(XS)),
    "nested vmap": lambda f, y: plugrad.sum(
        plugrad.vmap(plugrad.vmap(lambda x: f(x, y)))(XS[None])
    ),
    "scan": lambda f, y: plugrad.scan(lambda total, x: (total + f(x, y), None), 0.0 * y, XS)[0],
    "cond": lambda f, y: plugrad.cond(y > 0, lambda: f(plugrad.asarray(8.0), y), lambda: y),
}
"""By name: a function that runs f(x, y) for elements x inside of a batch, a loop or a branch, and adds the results."""


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize(
    ("inner", "expected"), INNER_DERIVATIVES.values(), ids=list(INNER_DERIVATIVES)
)
def test_derivatives_inside_are_differentiated_outside(inner, expected, level):
    """The expected derivatives, for the sum of `XS`, which is 8, are those of formulas."""

    def total(y):
        return level(inner, y)

    for transform in (
        plugrad.grad(total),
        plugrad.jit(plugrad.grad(total)),
        plugrad.grad(plugrad.jit(total)),
    ):
        assert transform(Y).item() == expected
