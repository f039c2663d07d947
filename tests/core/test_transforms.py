"""Gradients of Python functions, of any order and with arguments of any form."""

import math

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, DTypeError, GradientLost, GradientNotFound, ShapeError

tensor = plugrad.asarray


def cube(x):
    return x * x * x


# --- grad and value_and_grad ----------------------------------------------------------------------


def test_has_aux_returns_auxiliary_results(backend):
    x = plugrad.asarray([1.0, 2.0])

    def function(x):
        y = x * x
        return plugrad.sum(y), {"squares": y, "name": "square"}

    (value, aux), gradient = plugrad.value_and_grad(function, has_aux=True)(x)
    assert (value.item(), aux["squares"].tolist(), aux["name"]) == (5, [1, 4], "square")
    assert gradient.tolist() == [2, 4]
    assert value.node is None
    assert aux["squares"].node is None
    traced = plugrad.jit(
        lambda x: plugrad.value_and_grad(function, has_aux=True)(x)[0][1]["squares"]
    )
    assert traced(x).tolist() == [1, 4]


def test_auxiliary_results_are_differentiated_from_outside():
    def outer(x):
        (_, cubes), _ = plugrad.value_and_grad(lambda y: (y * x, y * y * x), has_aux=True)(x)
        return cubes

    assert plugrad.grad(outer)(plugrad.asarray(2.0)).item() == 12


@pytest.mark.parametrize("result", [lambda x: x, lambda x: (x,), lambda x: [x, x]])
def test_has_aux_requires_a_pair(result):
    with pytest.raises(ArgumentError, match="must return a pair"):
        plugrad.value_and_grad(result, has_aux=True)(1.0)


def test_gradient_of_a_scalar_function():
    gradient = plugrad.grad(cube)(2.0)
    assert (gradient.item(), gradient.shape, gradient.dtype) == (12.0, (), plugrad.float32)


def test_gradient_keeps_the_dtype_of_its_input():
    x = tensor([1.0, 2.0], dtype="float64")
    assert plugrad.grad(cube)(x, dy=x).dtype is plugrad.float64


def test_result_with_several_elements_needs_dy():
    x, w = tensor([1.0, 2.0]), plugrad.Variable([1.0, 2.0], name="w")
    optimizer = plugrad.optimizers.SGD(0.1)
    for call in (
        lambda: plugrad.grad(cube)(x),
        lambda: plugrad.grads(cube)(x),
        lambda: plugrad.value_and_grad(cube)(x),
        lambda: plugrad.grad(lambda x: x[:0])(x),
        lambda: plugrad.variable_grads(lambda: w * w, [w]),
        lambda: optimizer.minimize(lambda: w * w, [w]),
    ):
        with pytest.raises(
            ShapeError, match=r"returned a tensor of shape \([20],\).* as in plugrad\.mean\(y\)"
        ):
            call()
    assert (w.tolist(), optimizer.iterations) == ([1.0, 2.0], 0)
    with pytest.raises(ShapeError, match=r"^grad: .*, or pass dy="):
        plugrad.grad(cube)(x)
    assert plugrad.grad(lambda x: cube(x[:1]))(x).tolist() == [3.0, 0.0]  # one number all the same


def test_dy_weighs_the_result():
    gradient = plugrad.grad(cube)
    assert gradient(tensor([1.0, 2.0]), dy=tensor([10.0, 1.0])).tolist() == [30.0, 12.0]
    assert gradient(tensor([1.0, 2.0]), dy=[10.0, 1.0]).tolist() == [30.0, 12.0]
    assert gradient(2.0, dy=0.5).item() == 6.0


def test_identity_has_gradient_one():
    assert plugrad.grad(lambda x: x)(3.0).item() == 1.0
    assert plugrad.grad(lambda x: x)(tensor([1.0, 2.0]), dy=[5.0, 6.0]).tolist() == [5.0, 6.0]


def test_gradients_of_several_arguments():
    f = lambda x, y: x * x * y  # noqa: E731
    assert plugrad.grad(f, 1)(3.0, 4.0).item() == 9.0
    dx, dy = plugrad.grad(f, (0, 1))(3.0, 4.0)
    assert (dx.item(), dy.item()) == (24.0, 9.0)
    assert [g.item() for g in plugrad.grad(f, (1, 0))(3.0, 4.0)] == [9.0, 24.0]
    assert plugrad.grad(f, -1)(3.0, 4.0).item() == 9.0
    assert isinstance(plugrad.grad(f, [0])(3.0, 4.0), tuple)


def test_same_tensor_in_two_arguments_has_a_gradient_for_each():
    x = tensor(3.0)
    assert [g.item() for g in plugrad.grad(lambda a, b: a * a * b, (0, 1))(x, x)] == [18.0, 9.0]


def test_gradients_have_the_structure_of_the_containers():
    parameters = {
        "layers": [{"w": tensor([1.0, 2.0])}, {"w": tensor([3.0, 4.0])}],
        "b": (tensor(5.0),),
    }

    def f(parameters, scale):
        first, second = (layer["w"] for layer in parameters["layers"])
        return plugrad.sum(first * second) * scale + parameters["b"][0]

    value, gradient = plugrad.value_and_grad(f)(parameters, 10.0)
    assert value.item() == 115.0
    assert gradient["layers"][0]["w"].tolist() == [30.0, 40.0]
    assert gradient["layers"][1]["w"].tolist() == [10.0, 20.0]
    assert isinstance(gradient["b"], tuple)
    assert gradient["b"][0].item() == 1.0


def test_list_of_numbers_is_a_list_of_scalars():
    assert [g.item() for g in plugrad.grad(lambda xs: xs[0] * xs[1])([2.0, 3.0])] == [3.0, 2.0]


def test_arrays_and_keyword_arguments_are_accepted():
    f = lambda x, *, power: plugrad.sum(x**power)  # noqa: E731
    gradient = plugrad.grad(f)(np.array([1.0, 2.0]), power=3)
    assert (gradient.tolist(), gradient.dtype) == ([3.0, 12.0], plugrad.float64)


def test_value_and_grad_returns_the_functions_value():
    x = tensor([1.0, 2.0])
    value, gradient = plugrad.value_and_grad(cube)(x, dy=plugrad.ones_like(x))
    assert (value.tolist(), gradient.tolist()) == ([1.0, 8.0], [3.0, 12.0])


# --- unused inputs --------------------------------------------------------------------------------


def test_unused_argument_is_an_error_unless_allowed():
    f = lambda x, y: y * y  # noqa: E731
    with pytest.raises(
        GradientNotFound, match="does not depend on differentiated tensor number 0; pass"
    ):
        plugrad.grad(f, (0, 1))(tensor([1.0, 2.0]), 3.0)
    dx, dy = plugrad.grad(f, (0, 1), allow_unused=True)(tensor([1.0, 2.0]), 3.0)
    assert (dx.tolist(), dy.item()) == ([0.0, 0.0], 6.0)


def test_constant_result_has_no_gradient():
    with pytest.raises(GradientNotFound, match="does not depend"):
        plugrad.grad(lambda x: plugrad.ones(()))(1.0)


# --- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        *(plugrad.grad, plugrad.value_and_grad, plugrad.grads, plugrad.custom_grad, plugrad.vjp),
        *(plugrad.jacobian, plugrad.hessian, plugrad.checkpoint),
        lambda f: plugrad.jvp(f, (1.0,), (1.0,)),
    ],
)
def test_transforms_reject_values_that_are_not_callable(transform):
    with pytest.raises(ArgumentError, match="takes a function, not int"):
        transform(3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plugrad.grad(cube)(tensor([1, 2])), DTypeError, r"argument is int32, .*astype"),
        (lambda: plugrad.grad(cube)(True), DTypeError, "argument is bool"),
        (lambda: plugrad.grad(cube)(None), ArgumentError, "must be a tensor, a number, an array"),
        (lambda: plugrad.grad(lambda x: x > 0)(1.0), DTypeError, "the result is bool"),
        (
            lambda: plugrad.grad(lambda x: 3.0)(1.0),
            ArgumentError,
            "must return one tensor, not float",
        ),
        (lambda: plugrad.grad(lambda x: [x, x])(1.0), ArgumentError, "one tensor, not list"),
        (
            lambda: plugrad.grad(cube, 1)(1.0),
            ArgumentError,
            "argnums=1 but the function is called with 1",
        ),
        (lambda: plugrad.vjp(3), ArgumentError, "takes a function"),
    ],
)
def test_wrong_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


DERIVATIVE_TRANSFORMS = [plugrad.grad, plugrad.value_and_grad, plugrad.jacobian, plugrad.hessian]


@pytest.mark.parametrize("transform", DERIVATIVE_TRANSFORMS)
@pytest.mark.parametrize("argnums", [math.inf, math.nan, 0.0, "a", "0", True, None, {0}, {"x": 0}])
def test_argnums_of_another_kind_are_named(transform, argnums):
    for wrong in (argnums, [0, argnums]):
        with pytest.raises(
            ArgumentError, match=f"^{transform.__name__}: argnums=.* must be an int"
        ):
            transform(cube, wrong)


@pytest.mark.parametrize("transform", DERIVATIVE_TRANSFORMS)
@pytest.mark.parametrize("argnums", [2, -3, 10**30, (0, 2), [-3]])
def test_argnums_out_of_range_are_named(transform, argnums):
    with pytest.raises(
        ArgumentError, match=f"^{transform.__name__}: argnums=.* is called with 2 positional arg"
    ):
        transform(lambda x, y: x * y, argnums)(1.0, 2.0)


@pytest.mark.parametrize("transform", DERIVATIVE_TRANSFORMS)
@pytest.mark.parametrize("argnums", [(1, 1), [0, -2]])
def test_argnums_name_an_argument_once(transform, argnums):
    with pytest.raises(ArgumentError, match=f"^{transform.__name__}: argnums=.* twice"):
        transform(lambda x, y: x * y, argnums)(1.0, 2.0)


@pytest.mark.parametrize("transform", DERIVATIVE_TRANSFORMS)
def test_argnums_may_be_numpy_integers(transform):
    f = lambda x, y: x * x * y  # noqa: E731
    for argnums in (np.int64(1), np.array([1, -2]), range(2)):
        plain = argnums.tolist() if isinstance(argnums, np.generic | np.ndarray) else tuple(argnums)
        actual, expected = (transform(f, n)(3.0, 4.0) for n in (argnums, plain))
        assert str(actual) == str(expected)
        assert isinstance(actual, tuple) or argnums == 1


@pytest.mark.parametrize("dy", [[1.0, 1.0, 1.0], 1.0, [[1.0, 1.0]]])
def test_dy_of_another_shape_is_refused_before_any_work(dy):
    pulled = []

    @plugrad.custom_grad
    def f(x, save):
        return x * 2, lambda dy, saved: pulled.append(dy) or dy

    with pytest.raises(
        ShapeError, match=r"dy is float32 of shape .*; the result is float32 of shape \(2,\)"
    ):
        plugrad.grad(f)(tensor([1.0, 2.0]), dy=dy)
    with pytest.raises(ShapeError):
        plugrad.value_and_grad(f)(tensor([1.0, 2.0]), dy=tensor(dy))
    assert pulled == []


def test_dy_of_another_dtype_is_refused():
    with pytest.raises(ValueError, match=r"dy is float64 .*; the result is float32"):
        plugrad.grad(cube)(tensor([1.0]), dy=tensor([1.0], dtype="float64"))


# --- higher orders --------------------------------------------------------------------------------


def test_second_derivative_through_a_saved_output():
    """This fails if a saved output is no longer connected to its node."""
    f = lambda x: x * plugrad.exp(x)  # noqa: E731
    assert plugrad.grad(plugrad.grad(f))(1.0).item() == pytest.approx(3 * math.e, rel=1e-6)
    assert plugrad.grad(plugrad.grad(f))(1.0).item() == pytest.approx(8.155, abs=1e-3)


@pytest.mark.parametrize(
    ("f", "third"),
    [
        (lambda x: x**4, 24 * 0.5),
        (plugrad.exp, math.exp(0.5)),
        (plugrad.sin, -math.cos(0.5)),
        (plugrad.log, 2 / 0.5**3),
        (plugrad.sqrt, 0.375 * 0.5**-2.5),
        (lambda x: 1 / x, -6 / 0.5**4),
        (lambda x: plugrad.sigmoid(x) * x, None),
        (plugrad.tanh, None),
    ],
)
def test_third_derivatives(f, third):
    differentiated = plugrad.grad(plugrad.grad(plugrad.grad(f)))
    x = tensor(0.5, dtype="float64")
    if third is None:  # a difference of second derivatives
        second = plugrad.grad(plugrad.grad(f))
        third = (second(x + 1e-5).item() - second(x - 1e-5).item()) / 2e-5
    assert differentiated(x).item() == pytest.approx(third, rel=1e-6)


def test_mixed_derivatives_commute():
    f = lambda x, y: plugrad.sin(x) * plugrad.exp(y) * x  # noqa: E731
    xy = plugrad.grad(lambda x, y: plugrad.grad(f, 0)(x, y), 1)(0.3, 0.7).item()
    yx = plugrad.grad(lambda x, y: plugrad.grad(f, 1)(x, y), 0)(0.3, 0.7).item()
    assert xy == pytest.approx(yx, rel=1e-5)


def test_inner_gradient_may_use_an_outer_variable():
    def outer(x):
        return plugrad.grad(lambda y: x * y * y)(3.0)  # 2 x y at y = 3

    assert outer(tensor(2.0)).item() == 12.0
    assert plugrad.grad(outer)(2.0).item() == 6.0


def test_inner_and_outer_derivative_are_not_confused():
    """d/dx (x * d/dy (x + y)) = 1, although both derivatives pass through one sum."""
    f = lambda x: x * plugrad.grad(lambda y: x + y)(1.0)  # noqa: E731
    assert plugrad.grad(f)(1.0).item() == 1.0


def test_inner_value_is_differentiated_with_its_gradient():
    def f(x):
        value, gradient = plugrad.value_and_grad(cube)(x)
        return value + gradient  # x^3 + 3 x^2

    assert plugrad.grad(f)(2.0).item() == 24.0


def test_inner_value_without_the_inner_argument_belongs_to_the_outer_one():
    inner = lambda x: plugrad.value_and_grad(lambda y: x, allow_unused=True)(1.0)[0]  # noqa: E731
    assert plugrad.grad(lambda x: inner(x) * x)(3.0).item() == 6.0
    w = plugrad.Variable(2.0)
    inner = lambda x: plugrad.variable_grads(lambda: x * x, [w], allow_unused=True)[0]  # noqa: E731
    assert plugrad.grad(lambda x: inner(x) * x)(3.0).item() == 27.0
    assert plugrad.grad(lambda x: inner(x * 2))(3.0).item() == 24.0
    older = lambda x, y: plugrad.variable_grads(lambda: y, [w], allow_unused=True)[0] * x  # noqa: E731
    assert plugrad.grad(lambda x: older(x, x * x))(3.0).item() == 27.0


def test_inner_gradient_with_respect_to_the_outer_argument():
    f = lambda x: x * plugrad.grad(cube)(x)  # 3 x^3  # noqa: E731
    assert plugrad.grad(f)(2.0).item() == 36.0


def test_second_derivative_of_a_linear_function_needs_permission():
    with pytest.raises(GradientNotFound, match="does not depend"):
        plugrad.grad(plugrad.grad(lambda x: x * 3))(1.0)
    f = plugrad.grad(plugrad.grad(lambda x: x * 3), allow_unused=True)
    assert f(1.0).item() == 0.0


# --- vjp and stop_gradient ------------------------------------------------------------------------


def test_vjp_pulls_back_to_every_argument():
    y, pull = plugrad.vjp(lambda a, b: a * b, tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    assert y.tolist() == [3.0, 8.0]
    assert [g.tolist() for g in pull(tensor([1.0, 10.0]))] == [[3.0, 40.0], [1.0, 20.0]]
    assert [g.tolist() for g in pull(tensor([0.0, 1.0]))] == [[0.0, 4.0], [0.0, 2.0]]


def test_vjp_gives_zeros_for_arguments_that_do_not_matter():
    _, pull = plugrad.vjp(lambda a, b: a * 2, tensor([1.0]), tensor([3.0, 4.0]))
    assert [g.tolist() for g in pull([1.0])] == [[2.0], [0.0, 0.0]]


def test_vjp_function_works_after_its_tensors_are_deleted():
    x, y = tensor([1.0, 2.0]), tensor(3.0)
    with plugrad.tidy():
        value, pull = plugrad.vjp(lambda x, y: x * x, x, y)
    plugrad.dispose([x, y])
    assert value.is_disposed
    assert [g.tolist() for g in pull([1.0, 10.0])] == [[2.0, 40.0], 0.0]


def test_stop_gradient_makes_a_constant():
    assert plugrad.grad(lambda x: x * plugrad.stop_gradient(x))(3.0).item() == 3.0
    assert plugrad.stop_gradient([1.0]).tolist() == [1.0]
    with pytest.raises(GradientNotFound):
        plugrad.grad(plugrad.stop_gradient)(1.0)


# --- custom_grad ----------------------------------------------------------------------------------


@plugrad.custom_grad
def saved_exp(x, save):
    y = plugrad.exp(x)
    save(y)
    return y, lambda dy, saved: dy * saved[0]


def test_custom_gradient_is_used():
    halved = plugrad.custom_grad(lambda x, save: (x * x, lambda dy, saved: dy * 0.5))
    assert halved(tensor(3.0)).item() == 9.0
    assert plugrad.grad(halved)(3.0).item() == 0.5


def test_custom_gradient_is_differentiated_through_its_saved_tensors():
    for order in range(1, 4):
        f = lambda x: saved_exp(x) * x  # noqa: E731
        for _ in range(order):
            f = plugrad.grad(f)
        assert f(1.0).item() == pytest.approx((order + 1) * math.e, rel=1e-5)


def test_custom_gradient_may_save_its_inputs():
    @plugrad.custom_grad
    def product(a, b, save):
        save(a, b)
        return a * b, lambda dy, saved: (dy * saved[1], dy * saved[0])

    assert [g.item() for g in plugrad.grad(product, (0, 1))(3.0, 4.0)] == [4.0, 3.0]
    mixed = plugrad.grad(lambda a, b: plugrad.grad(product, 0)(a, b * b), 1)
    assert mixed(3.0, 4.0).item() == 8.0


def test_custom_gradient_may_return_and_save_its_argument():
    @plugrad.custom_grad
    def identity(x, save):
        save(x)
        return x, lambda dy, saved: dy * saved[0] * saved[0]

    assert [
        f(3.0).item() for f in (plugrad.grad(identity), plugrad.grad(plugrad.grad(identity)))
    ] == [9, 6]


def test_custom_gradient_has_the_dtype_of_its_argument():
    other = plugrad.custom_grad(
        lambda x, n, save: (x * n, lambda dy, saved: (dy.astype("float64"), dy))
    )
    with pytest.raises(
        DTypeError, match="custom_grad: gradient 0 is float64; the argument is float32"
    ):
        plugrad.grad(other)(tensor(1.0), tensor(2))
    scaled = plugrad.custom_grad(lambda x, n, save: (x * n, lambda dy, saved: (dy * 2, dy)))
    assert plugrad.grad(scaled)(tensor(1.0), tensor(2)).item() == 2.0


def test_custom_gradient_may_return_none_for_an_argument():
    half = plugrad.custom_grad(lambda a, b, save: (a * b, lambda dy, saved: (dy, None)))
    assert [g.item() for g in plugrad.grad(half, (0, 1), allow_unused=True)(3.0, 4.0)] == [1.0, 0.0]


def test_ops_inside_a_custom_gradient_function_are_not_differentiated():
    """The ops of the function are not differentiated; only its gradient function is."""
    rounded = plugrad.custom_grad(lambda x, save: (plugrad.round(x), lambda dy, saved: dy))
    assert plugrad.grad(lambda x: rounded(x) * x)(2.4).item() == pytest.approx(4.4)


def scale_with_custom_gradient(x, w):
    """Return x * w by a function with a custom gradient that does not take w."""
    return plugrad.custom_grad(lambda x, save: (x * w, lambda dy, saved: dy * w))(x)


def scan_with_custom_gradient(w):
    """Return the last carry of a loop whose iterations read w in a function with a custom gradient."""
    steps = tensor([1.0, 2.0])
    return plugrad.scan(lambda c, x: (scale_with_custom_gradient(c, w), None), tensor(1.0), steps)[
        0
    ]


@pytest.mark.parametrize("is_traced", [False, True], ids=["untraced", "traced"])
@pytest.mark.parametrize(
    "function",
    [
        lambda w: scale_with_custom_gradient(tensor(2.0), w),
        lambda w: scale_with_custom_gradient(w * w, w),
        lambda w: plugrad.sum(
            plugrad.vmap(lambda x: scale_with_custom_gradient(x, w))(tensor([1.0, 2.0]))
        ),
        lambda w: plugrad.sum(
            plugrad.vmap(lambda w: scale_with_custom_gradient(w * w, w))(plugrad.stack([w, w]))
        ),
        lambda w: plugrad.checkpoint(lambda w: scale_with_custom_gradient(w * w, w))(w),
        lambda w: plugrad.cond(w > 0, lambda w: scale_with_custom_gradient(w * w, w), abs, w),
        scan_with_custom_gradient,
    ],
    ids=["constant", "argument", "vmap", "examples", "checkpoint", "cond", "scan"],
)
def test_custom_gradients_of_what_functions_do_not_take_are_not_lost_silently(function, is_traced):
    differentiated = plugrad.jit(function) if is_traced else function
    for gradient in (plugrad.grad(differentiated), plugrad.jit(plugrad.grad(function))):
        with pytest.raises(GradientLost, match=r"custom_grad: .* pass it as an argument"):
            gradient(tensor(3.0))


def test_functions_with_custom_gradients_may_read_constants_and_their_own_arguments():
    def function(w):
        constant, own = plugrad.stop_gradient(w), w
        read = plugrad.custom_grad(lambda x, save: (x * constant + own, lambda dy, saved: 5 * dy))
        return read(w)

    variable = plugrad.Variable(3.0)
    assert plugrad.grad(function)(3.0).item() == 5
    assert scale_with_custom_gradient(tensor(2.0), variable).item() == 6
    with pytest.raises(GradientLost):
        plugrad.variable_grads(
            lambda: scale_with_custom_gradient(variable * 2, variable), [variable]
        )


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (
            lambda x, save: (x, lambda dy, saved: dy),
            [3.0],
            ArgumentError,
            "argument 0 must be a tensor",
        ),
        (lambda x, save: x, [None], ArgumentError, "must return a tensor and a gradient function"),
        (
            lambda x, save: (x, 3),
            [None],
            ArgumentError,
            "must return a tensor and a gradient function",
        ),
        (
            lambda x, save: (x, lambda dy, saved: (dy, dy)),
            [None],
            ArgumentError,
            "2 gradients for 1 arg",
        ),
        (
            lambda x, save: (x, lambda dy, saved: 3.0),
            [None],
            ArgumentError,
            "gradient 0 is a float",
        ),
        (
            lambda x, save: (x, lambda dy, saved: plugrad.ones(3)),
            [None],
            ShapeError,
            r"has shape \(3,\)",
        ),
    ],
)
def test_errors_of_invalid_custom_gradients(function, arguments, error, message):
    f = plugrad.custom_grad(function)
    total = lambda x: plugrad.sum(f(*(x if a is None else a for a in arguments)))  # noqa: E731
    with pytest.raises(error, match=f"custom_grad: .*{message}"):
        plugrad.grad(total)(tensor([1.0, 2.0]))
