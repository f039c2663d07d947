"""Jacobians, Hessians, forward derivatives and recomputation."""

import gc
import threading

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.tensor.trees import iter_leaves, map_tree


def central_differences(function, x, step=1e-5):
    """Return the Jacobian of a NumPy function by central differences, of shape (*value, *x)."""
    columns = []
    for place in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        columns.append((function(moved[0]) - function(moved[1])) / (2 * step))
    value = np.asarray(function(x))
    return np.stack(columns, -1).reshape(*value.shape, *x.shape)


def numpy_function(function):
    """Return a function of arrays, given a function of tensors."""
    return lambda *xs: function(*map(plugrad.asarray, xs)).numpy()


# --- forward ---------------------------------------------------------------------------------------


def test_jvp_is_the_directional_derivative(rng):
    x, v = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))

    def f(x):
        return plugrad.sin(x) @ plugrad.permute_dims(x, (1, 0))

    value, tangent = plugrad.jvp(f, (x,), (v,))
    np.testing.assert_allclose(value.numpy(), numpy_function(f)(x))
    expected = (numpy_function(f)(x + 1e-6 * v) - numpy_function(f)(x - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(tangent.numpy(), expected, rtol=1e-7, atol=1e-8)


def test_jvp_takes_and_gives_trees():
    def f(p, x):
        return {"y": p["w"] * x, "z": [p["b"] + x]}

    value, tangent = plugrad.jvp(f, ({"w": 2.0, "b": 1.0}, 3.0), ({"w": 1.0, "b": 10.0}, 0.5))
    assert map_tree(lambda t: t.item(), value) == {"y": 6.0, "z": [4.0]}
    assert map_tree(lambda t: t.item(), tangent) == {"y": 4.0, "z": [10.5]}


def test_jvp_of_a_function_independent_of_its_argument_is_zero():
    value, tangent = plugrad.jvp(lambda x: plugrad.ones(2), (3.0,), (1.0,))
    assert (value.tolist(), tangent.tolist()) == ([1.0, 1.0], [0.0, 0.0])


def test_jvp_can_be_differentiated():
    """The derivative of x^3 along 1 is 3 x^2, whose gradient is 6 x."""

    def along(x):
        return plugrad.jvp(lambda y: y * y * y, (x,), (plugrad.ones_like(x),))[1]

    assert plugrad.grad(along)(2.0).item() == pytest.approx(12.0)


def test_wrong_tangents_are_refused():
    with pytest.raises(ArgumentError, match="jvp: 1 tangents for 2 arguments"):
        plugrad.jvp(lambda x, y: x * y, (1.0, 2.0), (1.0,))
    with pytest.raises(ShapeError, match=r"tangent of argument 0 has shapes \[\(3,\)\]"):
        plugrad.jvp(lambda x: x[0], ([plugrad.ones(2)],), ([plugrad.ones(3)],))


# --- jacobians -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_jacobian_matches_finite_differences(shape, rng):
    x = rng.normal(size=shape)

    def f(x):
        return plugrad.stack([plugrad.sin(x) * plugrad.sum(x), plugrad.exp(x)])

    actual = plugrad.jacobian(f)(x)
    assert actual.shape == (2, *shape, *shape)
    np.testing.assert_allclose(actual.numpy(), central_differences(numpy_function(f), x), atol=1e-8)


def test_jacobian_of_several_arguments(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3,))
    by_a, by_b = plugrad.jacobian(lambda a, b: a @ b, argnums=(0, 1))(a, b)
    np.testing.assert_allclose(by_a.numpy(), np.einsum("ij,k->ijk", np.eye(2), b))
    np.testing.assert_allclose(by_b.numpy(), a)
    second = plugrad.jacobian(lambda a, b: a @ b, argnums=1)(a, b)
    np.testing.assert_allclose(second.numpy(), a)


def test_jacobian_of_trees():
    def f(p):
        return {"s": plugrad.sum(p["x"]) * p["y"]}

    table = plugrad.jacobian(f)({"x": plugrad.asarray([1.0, 2.0]), "y": plugrad.asarray(5.0)})
    assert map_tree(lambda t: t.tolist(), table) == {"s": {"x": [5.0, 5.0], "y": 3.0}}


def test_jacobian_of_empty_tensors_is_empty():
    assert plugrad.jacobian(lambda x: x[:0])(plugrad.ones(3)).shape == (0, 3)
    assert plugrad.jacobian(lambda x: plugrad.ones(2))(plugrad.ones(0)).shape == (2, 0)
    assert plugrad.jacobian(lambda x: x[:0])(plugrad.ones(3, dtype="float64")).dtype == "float64"


def test_jacobian_passes_other_arguments_on():
    def f(x, n, *, scale):
        return plugrad.pow(x, n) * scale

    assert plugrad.jacobian(f)(2.0, 3, scale=10.0).item() == pytest.approx(120.0)


def test_wrong_arguments_of_jacobian_are_refused():
    with pytest.raises(ArgumentError, match="argnums=1 but the function is called with 1"):
        plugrad.jacobian(lambda x: x, argnums=1)(2.0)
    with pytest.raises(DTypeError, match="int32, which has no gradient"):
        plugrad.jacobian(lambda x: x)(plugrad.asarray([1, 2]))
    with pytest.raises(ArgumentError, match="must return one tensor, not float"):
        plugrad.jacobian(lambda x: 2.0)(1.0)


# --- hessians --------------------------------------------------------------------------------------


def classifier_loss(w1, w2, x, labels):
    """Return the loss of a classifier with two layers."""
    hidden = plugrad.tanh(x @ w1)
    return plugrad.losses.softmax_cross_entropy(labels, hidden @ w2)


def test_hessian_of_a_two_layer_classifier_matches_finite_differences(rng):
    w1, w2 = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
    x, labels = rng.normal(size=(5, 3)), np.eye(3)[[0, 2, 1, 1, 0]]

    def f(w1, w2):
        return classifier_loss(w1, w2, plugrad.asarray(x), plugrad.asarray(labels))

    actual = plugrad.hessian(f, argnums=(0, 1))(w1, w2)
    for i, first in enumerate((w1, w2)):
        for j, second in enumerate((w1, w2)):

            def gradient(moved, i=i, j=j):
                weights = [w1, w2]
                weights[j] = moved
                return plugrad.grad(f, argnums=i)(*map(plugrad.asarray, weights)).numpy()

            assert actual[i][j].shape == first.shape + second.shape
            np.testing.assert_allclose(
                actual[i][j].numpy(), central_differences(gradient, second), atol=1e-8
            )


def test_hessian_of_a_linear_function_is_zero():
    assert plugrad.hessian(lambda x: plugrad.sum(x))(plugrad.ones(2)).tolist() == [[0, 0], [0, 0]]


def test_second_derivative_of_x_times_its_exponential(backend):
    slope = plugrad.grad(plugrad.grad(lambda x: x * plugrad.exp(x)))(1.0)
    assert slope.item() == pytest.approx(3 * np.e, abs=1e-3)  # 8.155


# --- vjp -------------------------------------------------------------------------------------------


def test_vjp_takes_and_gives_trees():
    value, pull = plugrad.vjp(lambda x, y: {"p": x * y, "s": [x + y]}, 3.0, 4.0)
    assert map_tree(lambda t: t.item(), value) == {"p": 12.0, "s": [7.0]}
    assert [g.item() for g in pull({"p": 1.0, "s": [0.0]})] == [4.0, 3.0]
    assert [g.item() for g in pull({"p": 0.0, "s": [2.0]})] == [2.0, 2.0]
    with pytest.raises(ArgumentError, match="dy has 1 parts; the value has 2"):
        pull({"p": 1.0})


def test_gradients_of_all_arguments():
    assert [g.item() for g in plugrad.grads(lambda x, y: x * y)(3.0, 4.0)] == [4.0, 3.0]
    assert plugrad.grads(lambda: plugrad.ones(()))() == ()


# --- training on gradients -------------------------------------------------------------------------


def test_gradient_penalty_trains(rng, backend):
    """The norm of a network's gradient can be minimized like any other loss."""
    x = plugrad.asarray(rng.normal(size=(8, 3)).astype("float32"))
    w = plugrad.Variable(rng.normal(size=(3, 4)).astype("float32"))
    v = plugrad.Variable(rng.normal(size=(4, 1)).astype("float32"))

    def penalty():
        slope = plugrad.grad(lambda x: plugrad.sum(plugrad.tanh(x @ w) @ v))(x)
        norms = plugrad.sqrt(plugrad.sum(slope * slope, axis=1))
        return plugrad.mean(plugrad.square(norms - 1))

    optimizer = plugrad.optimizers.Adam(0.05)
    values = [optimizer.minimize(penalty, [w, v]).item() for _ in range(60)]
    assert values[-1] < 0.02 * values[0]


def test_ten_thousand_training_steps_leak_no_memory(rng):
    """The numbers of tensors and bytes stay the same, and no reference cycles are left to the garbage collector."""
    x, y = (plugrad.asarray(rng.normal(size=(4, n)).astype("float32")) for n in (3, 2))
    w = plugrad.Variable(rng.normal(size=(3, 2)).astype("float32"))
    optimizer = plugrad.optimizers.Adam(1e-3)

    def loss():
        return plugrad.sum(plugrad.square(plugrad.tanh(x @ w) - y))

    optimizer.minimize(loss, [w])
    gc.collect()
    before = plugrad.memory()
    gc.disable()
    try:
        for _ in range(10_000):
            optimizer.minimize(loss, [w])
        unreachable = gc.collect()
    finally:
        gc.enable()
    after = plugrad.memory()
    assert after.tensors == before.tensors
    assert after.bytes <= before.bytes
    assert unreachable < 100  # of the interpreter and pytest; a cycle per step would be 10,000


# --- checkpoint ------------------------------------------------------------------------------------


def repeated_sine(x):
    for _ in range(5):
        x = plugrad.sin(x) * x
    return x


def test_checkpoint_changes_no_derivative(rng):
    x = rng.normal(size=(3,))

    def total(f):
        return lambda x: plugrad.sum(f(x) * x)

    for transform in (plugrad.grad, plugrad.hessian):
        plain, recomputed = (
            transform(total(f))(x) for f in (repeated_sine, plugrad.checkpoint(repeated_sine))
        )
        np.testing.assert_allclose(recomputed.numpy(), plain.numpy(), rtol=1e-13)


def test_checkpoint_keeps_only_the_arguments():
    runs = []

    def watched(x):
        runs.append(x.node is not None)
        return repeated_sine(x)

    x = plugrad.asarray(np.ones(1 << 16, np.float32))
    held = {}
    for name, f in (("plain", repeated_sine), ("recomputed", plugrad.checkpoint(watched))):
        before = plugrad.memory().bytes
        _, pull = plugrad.vjp(lambda x, f=f: plugrad.sum(f(x)), x)
        held[name] = plugrad.memory().bytes - before
        pull(1.0)
    assert held["plain"] >= 8 * x.size * 4
    assert held["recomputed"] <= 1 * x.size * 4
    assert runs == [False, True]


def test_checkpoint_differentiates_variables_that_the_function_reads():
    w = plugrad.Variable([2.0, 3.0])
    f = plugrad.checkpoint(lambda x: x * w * w)
    x = plugrad.asarray([5.0, 7.0])
    value, (gradient,) = plugrad.variable_grads(lambda: plugrad.sum(f(x)), [w])
    assert (value.item(), gradient.tolist()) == (83.0, [20.0, 42.0])
    value, (gradient,) = plugrad.variable_grads(lambda: plugrad.sum(f(w)), [w])
    assert gradient.tolist() == [12.0, 27.0]


def test_checkpoint_passes_other_arguments_on():
    f = plugrad.checkpoint(lambda x, n, *, scale: plugrad.pow(x, n) * scale)
    assert plugrad.grad(lambda x: f(x, 3, scale=10.0))(2.0).item() == pytest.approx(120.0)
    assert f(plugrad.asarray(2.0), 3, scale=10.0).item() == 80.0
    with pytest.raises(ArgumentError, match="checkpoint: the function must return one tensor"):
        plugrad.checkpoint(lambda x: [x])(plugrad.ones(2))


def drop_by_seed(x, seed):
    return plugrad.sum(plugrad.dropout(x, 0.5, seed=seed) * x)


def draw_from_spawned_generator(x, seed):
    generator = plugrad.random.Generator(seed).spawn(2)[1]
    return plugrad.sum(generator.normal(x.shape) * x) + generator.state["counter"]


def drop_by_restarted_generator(x, seed):
    plugrad.random.seed(seed)
    return plugrad.sum(plugrad.dropout(x, 0.5) * x)


@pytest.mark.parametrize(
    "f", [drop_by_seed, draw_from_spawned_generator, drop_by_restarted_generator]
)
def test_checkpoint_draws_the_numbers_of_a_seed_again(f):
    x = plugrad.ones((5, 8))
    plain = plugrad.grad(f)(x, 3)
    saved = plugrad.checkpoint(f)
    for transformed in (
        plugrad.grad(saved),
        plugrad.jit(plugrad.grad(saved)),
        plugrad.grad(plugrad.jit(saved)),
        plugrad.grad(plugrad.checkpoint(plugrad.jit(f))),
    ):
        np.testing.assert_array_equal(transformed(x, 3).numpy(), plain.numpy())


shared_generator = plugrad.random.Generator(0)


def drop_without_seed(x):
    return plugrad.sum(plugrad.dropout(x, 0.5) * x)


def drop_in_nested_checkpoints(x):
    return drop_without_seed(x) + plugrad.checkpoint(drop_without_seed)(3 * x)


def drop_in_traced_function(x):
    return plugrad.jit(drop_without_seed)(x) + drop_without_seed(x)


def drop_for_each_row(x):
    return plugrad.sum(plugrad.vmap(drop_without_seed, randomness="different")(x))


def draw_in_loop(x):
    return plugrad.scan(lambda carry, row: (carry + drop_without_seed(row), 0), 0.0, x)[0]


def draw_by_seed_in_loop(x):
    def add_product(carry, row):
        return carry + plugrad.sum(plugrad.random.Generator(3).normal(row.shape) * row**2), 0

    return plugrad.scan(add_product, 0.0, x)[0] * drop_without_seed(x)


def spawn_in_nested_checkpoint(x):
    def scale_by_child(x):
        (child,) = shared_generator.spawn(1)
        return plugrad.sum(child.normal(x.shape) * x**2)

    return plugrad.checkpoint(scale_by_child)(x) * drop_without_seed(x)


def restart_and_spawn_in_traced_calls(x):
    @plugrad.jit
    def scale_by_child(row):
        shared_generator.seed(5)
        (child,) = shared_generator.spawn(1)
        return plugrad.sum(child.normal(row.shape) * row**2)

    return scale_by_child(x[0]) + scale_by_child(x[1])


def draw_and_restart(x):
    before = plugrad.sum(shared_generator.normal(x.shape) * x)
    plugrad.random.seed(7)
    return before * drop_without_seed(x)


def spawn_from_shared_generator(x):
    child, _ = shared_generator.spawn(2)
    return plugrad.sum(child.normal(x.shape) * x**2) + drop_without_seed(x)


FUNCTIONS_WITH_DRAWS = [
    drop_without_seed,
    drop_in_nested_checkpoints,
    drop_in_traced_function,
    drop_for_each_row,
    draw_by_seed_in_loop,
    draw_and_restart,
    spawn_from_shared_generator,
    spawn_in_nested_checkpoint,
    restart_and_spawn_in_traced_calls,
]


def results_after_seed(function, *args):
    """Return the results of two calls of a function after a seed, and the numbers that are drawn next."""
    plugrad.random.seed(3)
    shared_generator.state = plugrad.random.Generator(4).state
    results = [function(*args), function(*args)]
    return [
        x.numpy() for x in (*results, plugrad.random.uniform((3,)), shared_generator.uniform((3,)))
    ]


@pytest.mark.parametrize("f", FUNCTIONS_WITH_DRAWS)
def test_both_runs_of_a_checkpoint_draw_the_same_numbers(f, backend):
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(5, 8)).astype("f4"))
    for transform in (
        plugrad.grad,
        lambda f: plugrad.jit(plugrad.grad(f)),
        lambda f: plugrad.grad(plugrad.jit(f)),
        lambda f: plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x) ** 2)),
        lambda f: plugrad.jit(plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x) ** 2))),
        lambda f: plugrad.grad(lambda x: f(x) * plugrad.sum(plugrad.random.uniform((3,)))),
    ):
        for found, expected in zip(
            results_after_seed(transform(plugrad.checkpoint(f)), x),
            results_after_seed(transform(f), x),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "transform",
    [
        plugrad.jit,
        lambda f: plugrad.checkpoint(plugrad.jit(f)),
        lambda f: plugrad.jit(plugrad.checkpoint(f)),
        lambda f: plugrad.jit(
            lambda x: plugrad.scan(lambda c, _: (c + f(x), None), 0.0, None, 1)[0]
        ),
        lambda f: plugrad.jit(lambda x: plugrad.cond(x[0, 0] > 0, f, plugrad.sum, x)),
    ],
    ids=["jit", "jit in checkpoint", "checkpoint in jit", "scan", "cond"],
)
def test_gradients_do_not_restart_generators_again(transform):
    def gradient_and_later_draw(f):
        """Return the first gradient after a seed, with a draw before the backward pass, and the next numbers."""
        plugrad.random.seed(3)
        shared_generator.seed(4)
        scaled = plugrad.grad(lambda x: f(x) * plugrad.random.uniform(()))
        return scaled(plugrad.ones((5, 8))).numpy(), plugrad.random.uniform((3,)).numpy()

    for found, expected in zip(
        gradient_and_later_draw(transform(draw_and_restart)),
        gradient_and_later_draw(draw_and_restart),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("transform", [plugrad.checkpoint, plugrad.jit])
def test_gradients_leave_generators_where_other_threads_have_moved_them(transform):
    generator, draws = plugrad.random.Generator(0), []

    def draw_with_other_thread(x):
        y = generator.uniform((2,)) * x
        thread = threading.Thread(target=lambda: draws.append(generator.uniform((2,)).tolist()))
        thread.start()
        thread.join()
        return plugrad.sum(y)

    plugrad.grad(transform(draw_with_other_thread))(plugrad.ones(2))
    draws.append(generator.uniform((2,)).tolist())
    assert len(draws) == len(set(map(tuple, draws))) == 3


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_both_runs_of_a_batched_checkpoint_draw_the_same_numbers(randomness):
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(4, 5, 8)).astype("f4"))

    def map_gradients(f):
        return plugrad.vmap(plugrad.grad(f), randomness=randomness)

    def differentiate_map(f):
        mapped = plugrad.vmap(f, randomness=randomness)
        return plugrad.grad(lambda x: plugrad.sum(mapped(x) * plugrad.arange(4.0)))

    for f in (drop_without_seed, drop_in_nested_checkpoints):
        for transform in (
            map_gradients,
            differentiate_map,
            lambda f: plugrad.jit(map_gradients(f)),
            lambda f: plugrad.jit(differentiate_map(f)),
        ):
            for found, expected in zip(
                results_after_seed(transform(plugrad.checkpoint(f)), x),
                results_after_seed(transform(f), x),
                strict=True,
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_checkpoint_refuses_draws_in_loops_that_are_traced_twice():
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(5, 8)).astype("f4"))
    saved = plugrad.checkpoint(draw_in_loop)
    for found, expected in zip(
        results_after_seed(plugrad.grad(saved), x),
        results_after_seed(plugrad.grad(draw_in_loop), x),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(
        ArgumentError, match=r"checkpoint: .* traced loop .* pass the function a seed"
    ):
        plugrad.jit(plugrad.grad(saved))(x)


def test_checkpoint_draws_anew_without_a_gradient():
    x = plugrad.ones((5, 8))
    first, second = results_after_seed(plugrad.checkpoint(drop_without_seed), x)[:2]
    assert first != second


def test_second_run_of_a_checkpoint_may_not_draw_more():
    runs = []

    def draw_more_each_time(x):
        runs.append(None)
        return plugrad.sum(x * plugrad.random.normal((len(runs),)))

    with pytest.raises(ArgumentError, match="draws more random numbers when it runs again"):
        plugrad.grad(
            plugrad.checkpoint(
                lambda x: (
                    draw_more_each_time(x)
                    if not runs
                    else draw_more_each_time(x) + draw_more_each_time(x)
                )
            )
        )(1.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: plugrad.checkpoint(lambda y: y * x)(x),
        lambda x: plugrad.checkpoint(lambda y, *, z: y * z)(x, z=x),
        lambda x: plugrad.checkpoint(lambda ys: ys[0] * ys[1])([x, x]),
    ],
    ids=["captured", "keyword", "in a list"],
)
def test_checkpoint_errors_name_unsupported_arguments(f):
    assert f(plugrad.asarray(3.0)).item() == 9.0
    with pytest.raises(ArgumentError, match="neither a positional argument nor a Variable; pass"):
        plugrad.grad(f)(3.0)


@pytest.mark.parametrize("derive", [plugrad.jacobian, plugrad.hessian])
def test_forward_mode_matches_reverse_mode(derive, rng):
    def f(p, y):
        z = plugrad.tanh(p["x"] @ p["w"]) * y
        return plugrad.sum(z) if derive is plugrad.hessian else {"z": z, "s": plugrad.sum(z * z)}

    p = {"x": plugrad.asarray(rng.normal(size=3)), "w": plugrad.asarray(rng.normal(size=(3, 2)))}
    y = plugrad.asarray(rng.normal(size=2))
    found = [derive(f, (0, 1), mode=mode)(p, y) for mode in ("reverse", "forward")]
    jitted = plugrad.jit(derive(f, (0, 1), mode="forward"))(p, y)
    for a, b, c in zip(*map(iter_leaves, (*found, jitted)), strict=True):
        assert a.shape == b.shape == c.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(a.numpy(), c.numpy(), rtol=1e-12, atol=1e-12)


def test_invalid_jacobian_modes_are_rejected():
    with pytest.raises(ArgumentValueError, match="mode='up' must be 'reverse' or 'forward'"):
        plugrad.jacobian(plugrad.sin, mode="up")
    with pytest.raises(DTypeError, match="mode='forward' is for real numbers"):
        plugrad.jacobian(plugrad.sin, mode="forward")(plugrad.asarray([1j, 2.0]))


def test_jacobian_of_functions_that_cannot_be_batched_is_computed_row_by_row(rng):
    @plugrad.custom_grad
    def reading(x, save):
        return plugrad.sin(x), lambda dy, saved: dy * plugrad.asarray(np.cos(dy.numpy() * 0 + 1.0))

    x = plugrad.asarray(rng.normal(size=3))
    np.testing.assert_allclose(plugrad.jacobian(reading)(x).numpy(), np.eye(3) * np.cos(1))
    rows = plugrad.jacobian(plugrad.jit(lambda x: plugrad.sin(x) * plugrad.sum(x)))(x)
    plain = plugrad.jacobian(lambda x: plugrad.sin(x) * plugrad.sum(x))(x)
    np.testing.assert_allclose(rows.numpy(), plain.numpy(), rtol=1e-12)


def test_large_jacobians_are_computed_in_parts(monkeypatch, rng):
    x = plugrad.asarray(rng.normal(size=5))
    whole = plugrad.jacobian(lambda x: plugrad.exp(x) * plugrad.sum(x))(x)
    monkeypatch.setattr("plugrad.transforms.derivatives.MAX_CHUNK_ELEMENTS", 10)
    parts = plugrad.jacobian(lambda x: plugrad.exp(x) * plugrad.sum(x))(x)
    np.testing.assert_array_equal(parts.numpy(), whole.numpy())
