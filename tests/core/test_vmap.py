"""vmap: axes and containers, what it meets inside and outside, and what it refuses."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import plugrad
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    BackendMismatch,
    GradientNotFound,
    KernelFailed,
    RegistrationError,
    ShapeError,
    TracingError,
)
from plugrad.extend import Spec, batched_by_loop, composite, kernel, register_batching
from plugrad.kernels import signal
from plugrad.registry.transaction import snapshot_registries
from plugrad.transforms import batched_kernels

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(3, 4))
WEIGHTS = RNG.normal(size=(4, 2))


def tensor(array, dtype="float64"):
    return plugrad.asarray(np.asarray(array).astype(dtype))


def assert_close(x, y, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), tolerance, tolerance)


def python_vmap(function, *args):
    return plugrad.stack([function(*[a[i] for a in args]) for i in range(args[0].shape[0])])


def energy(x, w):
    return plugrad.sum(plugrad.tanh(x @ w) ** 2)


# --- axes and containers --------------------------------------------------------------------------

SMALL_SHAPES = st.lists(st.integers(1, 3), min_size=0, max_size=3)


@given(SMALL_SHAPES, SMALL_SHAPES, st.data())
@settings(max_examples=60, deadline=None)
def test_axes_match_the_loop(a_shape, b_shape, data):
    n = data.draw(st.integers(1, 3))
    arrays, axes = [], []
    for shape in (a_shape, b_shape):
        axis = data.draw(st.one_of(st.none(), st.integers(-len(shape) - 1, len(shape))))
        full = list(shape)
        if axis is not None:
            full.insert(axis % (len(shape) + 1), n)
        arrays.append(np.random.default_rng(1).normal(size=full))
        axes.append(axis)
    out = data.draw(st.integers(-len(a_shape) - len(b_shape) - 1, len(a_shape) + len(b_shape)))

    def outer(a, b):
        return plugrad.tensordot(a, b, axes=0)

    singly = [
        np.tensordot(
            *[
                x if axis is None else np.take(x, i, axis)
                for x, axis in zip(arrays, axes, strict=True)
            ],
            0,
        )
        for i in range(n)
    ]
    found = plugrad.vmap(outer, tuple(axes), out, axis_size=n)(*map(plugrad.asarray, arrays))
    assert_close(found, np.stack(singly, out))


def test_containers_and_their_axes():
    def f(params, pair):
        return {"sum": params["w"] @ pair[0] + params["b"], "twice": [pair[1] * 2, None]}

    params = {"w": tensor(RNG.normal(size=(2, 4))), "b": tensor(RNG.normal(size=(3, 2)))}
    pair = tensor(ROWS.T), tensor(ROWS)
    axes = ({"w": None, "b": 0}, (1, 0))
    found = plugrad.vmap(f, axes, {"sum": 1, "twice": 0})(params, pair)
    w, b = params["w"].numpy(), params["b"].numpy()
    assert_close(found["sum"], np.stack([w @ ROWS[i] + b[i] for i in range(3)], 1))
    assert_close(found["twice"][0], ROWS * 2)
    assert found["twice"][1] is None
    assert isinstance(found["twice"], list)


def test_vmap_of_numbers_arrays_and_keyword_arguments():
    found = plugrad.vmap(lambda x, n, name, *, rate: x * n * rate + len(name))(
        ROWS.astype("float32"), 2, "abc", rate=0.5
    )
    assert_close(found, ROWS.astype("float32") + 3, 1e-6)


def test_results_independent_of_the_example_are_repeated():
    x, shared = tensor(ROWS), tensor([1.0, 2.0])
    a, b, c = plugrad.vmap(lambda x: (shared * 2, 3.0, x.shape[0]), out_axes=(1, 0, None))(x)
    assert_close(a, np.repeat([[2.0], [4.0]], 3, 1))
    assert_close(b, [3.0] * 3)
    assert c.item() == 4
    assert_close(plugrad.vmap(lambda: shared, axis_size=2)(), [[1.0, 2.0]] * 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_chunk_size_does_not_change_results(size):
    f = plugrad.vmap(lambda x, w: (energy(x, w), x), (0, None), (0, 1), chunk_size=size)
    for found, expected in zip(
        f(tensor(ROWS), tensor(WEIGHTS)),
        (python_vmap(lambda x: energy(x, WEIGHTS), tensor(ROWS)), ROWS.T),
        strict=True,
    ):
        assert_close(found, expected)


def test_vmap_over_zero_examples(monkeypatch):
    monkeypatch.setattr(batched_kernels, "_warned_kernels", set())
    empty = tensor(np.zeros((0, 4)))
    assert plugrad.vmap(lambda x: plugrad.fft.rfft(x))(empty).shape == (0, 3)
    assert plugrad.vmap(plugrad.grad(energy), (0, None))(empty, tensor(WEIGHTS)).shape == (0, 4)
    gradient = plugrad.grad(lambda w: plugrad.sum(plugrad.vmap(energy, (0, None))(empty, w)))
    assert_close(gradient(tensor(WEIGHTS)), np.zeros_like(WEIGHTS))
    sizes = plugrad.asarray(np.zeros((0, 2), "int32"))
    with pytest.warns(RuntimeWarning, match="BroadcastArgs has no batching rule"):
        told = plugrad.vmap(plugrad.broadcast_args)(sizes, sizes)
    assert told.shape == (0, 2)


# --- with other transforms ------------------------------------------------------------------------


def test_gradients_in_and_of_batches():
    x, w = tensor(ROWS), tensor(WEIGHTS)
    per_example = plugrad.grad(energy, 1)
    singly = python_vmap(lambda x: per_example(x, w), x)
    batched = plugrad.vmap(per_example, (0, None))
    assert_close(batched(x, w), singly)
    assert_close(plugrad.jit(batched)(x, w), singly)
    assert_close(plugrad.vmap(plugrad.jit(per_example), (0, None))(x, w), singly)
    of_sum = plugrad.grad(lambda w: plugrad.sum(plugrad.vmap(energy, (0, None))(x, w)))
    assert_close(of_sum(w), singly.numpy().sum(0))
    second = plugrad.grad(lambda w: plugrad.sum(plugrad.sin(batched(x, w))))
    plain = plugrad.grad(
        lambda w: plugrad.sum(plugrad.sin(python_vmap(lambda x: per_example(x, w), x)))
    )
    assert_close(second(w), plain(w))
    assert_close(plugrad.jit(second)(w), plain(w))


def test_gradients_of_closed_over_tensors():
    x, w = tensor(ROWS), tensor(WEIGHTS)

    def f(w):
        inner = plugrad.grad(lambda v, x: energy(x, v * w))  # w belongs to a tape outside
        return plugrad.sum(plugrad.vmap(lambda x: inner(w, x))(x) ** 2)

    def plain(w):
        inner = plugrad.grad(lambda v, x: energy(x, v * w))
        return plugrad.sum(python_vmap(lambda x: inner(w, x), x) ** 2)

    assert_close(plugrad.grad(f)(w), plugrad.grad(plain)(w))


def test_nested_vmap():
    a, b = tensor(ROWS), tensor(RNG.normal(size=(5, 4)))
    inner = plugrad.vmap(lambda x, y: plugrad.sum(x * plugrad.sin(y)), (None, 0))
    assert_close(plugrad.vmap(inner, (0, None))(a, b), ROWS @ np.sin(b.numpy()).T)
    nested = plugrad.vmap(plugrad.vmap(plugrad.grad(lambda x, y: plugrad.sum(plugrad.sin(x * y)))))
    y = tensor(RNG.normal(size=(3, 4)))
    assert_close(nested(a, y), np.cos(ROWS * y.numpy()) * y.numpy())


def test_directional_derivatives_and_checkpoints():
    x, w = tensor(ROWS), tensor(WEIGHTS)
    ones = plugrad.ones_like(x)

    def along(x, v):
        return plugrad.jvp(lambda x: plugrad.tanh(x @ w), (x,), (v,))[1]

    assert_close(plugrad.vmap(along)(x, ones), python_vmap(along, x, ones))
    saved = plugrad.checkpoint(energy)
    per_example = plugrad.vmap(plugrad.grad(saved, 1), (0, None))
    assert_close(per_example(x, w), python_vmap(lambda x: plugrad.grad(energy, 1)(x, w), x))
    outside = plugrad.grad(lambda w: plugrad.sum(plugrad.vmap(lambda x: saved(x, w))(x)))
    assert_close(outside(w), plugrad.grad(lambda w: plugrad.sum(plugrad.tanh(x @ w) ** 2))(w))


def test_checkpoints_in_batches_that_are_differentiated():
    def deep(x, w, *, scale):
        for _ in range(5):
            x = plugrad.sin(x * w) * scale
        return x

    v = plugrad.Variable(WEIGHTS[:, 0])
    x, held, found = tensor(np.ones((8, 1 << 12))), {}, {}
    for name, f in (("plain", deep), ("recomputed", plugrad.checkpoint(deep))):

        def total(x, w, f=f):
            inner = plugrad.vmap(plugrad.vmap(lambda x: f(x, w, scale=2.0)))(x)
            return plugrad.sum(inner * inner)

        before = plugrad.memory().bytes
        _, pull = plugrad.vjp(total, x, 0.5)
        held[name] = plugrad.memory().bytes - before
        found[name] = pull(1.0)
        of_v = lambda f=f: plugrad.sum(plugrad.vmap(lambda x: f(x, v, scale=2.0))(tensor(ROWS)))  # noqa: E731
        found[name] += (plugrad.variable_grads(of_v, [v])[1][0],)
        found[name] += (plugrad.hessian(lambda w, total=total: total(tensor(ROWS), w))(0.5),)
    assert held["recomputed"] < held["plain"] / 3
    for a, b in zip(found["plain"], found["recomputed"], strict=True):
        assert_close(a, b.numpy())


@plugrad.custom_grad
def product_with_custom_gradient(x, w, save):
    y = plugrad.sin(x) * w
    save(x, y)
    return y, lambda dy, saved: (7 * dy * saved[0], plugrad.sum(dy * saved[1]) * w)


def test_custom_gradients_under_vmap():
    x, w = tensor(ROWS), tensor(ROWS[0])

    def total(x, w):
        return plugrad.sum(product_with_custom_gradient(x, w))

    for place in (0, 1):
        per_example = plugrad.grad(total, place)
        singly = python_vmap(lambda x, g=per_example: g(x, w), x)
        assert_close(plugrad.vmap(per_example, (0, None))(x, w), singly)
        outside = plugrad.grad(
            lambda x, w: plugrad.sum(plugrad.vmap(product_with_custom_gradient, (0, None))(x, w)),
            place,
        )
        expected = singly.numpy() if place == 0 else singly.numpy().sum(0)
        assert_close(outside(x, w), expected)
        if place == 0:  # this gradient does not depend on w
            continue
        both = plugrad.grad(
            lambda w, g=per_example: plugrad.sum(plugrad.vmap(lambda x: g(x, w))(x) ** 2)
        )
        plain = plugrad.grad(
            lambda w, g=per_example: plugrad.sum(python_vmap(lambda x: g(x, w), x) ** 2)
        )
        assert_close(both(w), plain(w))


def test_constants_are_constants_on_tapes_outside():
    x = tensor(ROWS)
    f = plugrad.vmap(lambda x: x * plugrad.stop_gradient(x))
    assert_close(plugrad.grad(lambda x: plugrad.sum(f(x)))(x), ROWS)
    gradient = plugrad.grad(lambda x: plugrad.sum(x * plugrad.stop_gradient(x)))
    assert_close(plugrad.vmap(gradient)(x), ROWS)


def test_variables_under_vmap():
    x, v = tensor(ROWS), plugrad.Variable(WEIGHTS[:, 0], name="v")

    def f(x):
        return plugrad.sum(x * v * v)

    _, (gradient,) = plugrad.variable_grads(lambda: plugrad.sum(plugrad.vmap(f)(x)), [v])
    assert_close(gradient, (2 * ROWS * WEIGHTS[:, 0]).sum(0))
    per_example = plugrad.vmap(lambda x: plugrad.variable_grads(lambda: f(x), [v])[1][0])
    assert_close(per_example(x), 2 * ROWS * WEIGHTS[:, 0])
    with pytest.raises(TracingError, match=r"variable, 'v', is assigned to.*each of 3 examples"):
        plugrad.vmap(lambda x: v.assign(x))(x)
    with pytest.raises(TracingError, match=r"a variable of shape \(4,\) is made of what differs"):
        plugrad.vmap(plugrad.Variable)(x)
    made = []
    plugrad.vmap(lambda x: made.append(plugrad.Variable([1.0])) or x)(x)
    assert made[0].numpy() == [1.0]
    traced = plugrad.jit(plugrad.vmap(f))
    assert_close(traced(x), (ROWS * WEIGHTS[:, 0] ** 2).sum(1))
    v.assign(v * 2)
    assert_close(traced(x), (ROWS * WEIGHTS[:, 0] ** 2).sum(1) * 4)


# --- loops and choices ----------------------------------------------------------------------------


def cond_on_sum(x):
    return plugrad.cond(plugrad.sum(x) > 0, lambda x: {"y": x * x}, lambda x: {"y": -x}, x)["y"]


def test_cond_under_vmap():
    x = tensor(ROWS)
    assert len({row.sum() > 0 for row in ROWS}) == 2
    gradient = plugrad.grad(lambda x: plugrad.sum(cond_on_sum(x)))
    for function in (cond_on_sum, gradient):
        singly = python_vmap(function, x)
        assert_close(plugrad.vmap(function)(x), singly)
        assert_close(plugrad.jit(plugrad.vmap(function))(x), singly)
    flag = plugrad.asarray(True)
    calls = []
    once = plugrad.vmap(
        lambda x: plugrad.cond(flag, lambda: calls.append(1) or x, lambda: calls.append(2) or x)
    )
    assert_close(once(x), ROWS)
    assert calls == [1]
    with pytest.raises(ShapeError, match="cond: the functions return"):
        plugrad.vmap(lambda x: plugrad.cond(x[0] > 0, lambda: x, lambda: x[0]))(x)
    with pytest.raises(ArgumentError, match="same structure"):
        plugrad.vmap(lambda x: plugrad.cond(x[0] > 0, lambda: (x,), lambda: x))(x)


def while_sum_is_small(x):
    return plugrad.while_loop(
        lambda c: plugrad.sum(c[0]) < 20, lambda c: (c[0] ** 2 + 1, c[1] + 1), (x, 0)
    )


@pytest.mark.parametrize("wrap", [lambda f: f, plugrad.jit], ids=["plain", "jit"])
def test_while_loops_under_vmap(wrap):
    x = tensor(ROWS)
    values, counts = wrap(plugrad.vmap(while_sum_is_small))(x)
    singly = [while_sum_is_small(x[i]) for i in range(3)]
    assert_close(values, [value.numpy() for value, _ in singly])
    assert counts.tolist() == [count.item() for _, count in singly]
    pairs = tensor(np.stack([ROWS, ROWS + 1]))
    nested, _ = wrap(plugrad.vmap(plugrad.vmap(while_sum_is_small)))(pairs)
    assert_close(nested, [[while_sum_is_small(row)[0].numpy() for row in part] for part in pairs])


def test_gradient_of_a_loop_of_unknown_length():
    x = tensor(ROWS)
    gradient = plugrad.grad(lambda x: plugrad.sum(while_sum_is_small(x)[0]))
    assert_close(plugrad.vmap(gradient)(x), python_vmap(gradient, x))
    with pytest.raises(GradientNotFound, match="while_loop"):
        plugrad.jit(plugrad.vmap(gradient))(x)


def scan_over_x(x):
    def cell(carry, part):
        after = plugrad.tanh(carry * part + x[0])
        return after, carry * 2

    last, results = plugrad.scan(cell, plugrad.sum(x), x)
    return last + plugrad.sum(results)


@pytest.mark.parametrize(
    "function", [scan_over_x, plugrad.grad(scan_over_x)], ids=["value", "grad"]
)
def test_scans_under_vmap(function):
    x = tensor(ROWS)
    assert_close(plugrad.vmap(function)(x), python_vmap(function, x))
    assert_close(plugrad.jit(plugrad.vmap(function))(x), python_vmap(function, x))


# --- random numbers -------------------------------------------------------------------------------


def test_random_numbers_under_vmap():
    x = tensor(ROWS)

    def draw(x):
        return plugrad.random.normal(3) + plugrad.random.uniform(3, -1, 1)

    with pytest.raises(TracingError, match=r"say with randomness='different'.*'same'"):
        plugrad.vmap(draw)(x)
    rows = plugrad.vmap(draw, randomness="different")(x).numpy()
    assert len(np.unique(rows)) == 9
    for chunk in (None, 2):
        same = plugrad.vmap(draw, randomness="same", chunk_size=chunk)(x).numpy()
        assert len(np.unique(same)) == 3
        assert (same == same[0]).all()
    nested = plugrad.vmap(plugrad.vmap(draw, randomness="different"), randomness="different")
    assert len(np.unique(nested(x).numpy())) == 3 * 4 * 3
    traced = plugrad.jit(plugrad.vmap(draw, randomness="different"))
    assert not np.isin(traced(x).numpy(), traced(x).numpy()).any()


def test_first_example_draws_the_numbers_of_a_single_call():
    def draw(generator):
        return plugrad.vmap(lambda x: generator.normal((2, 3)), randomness="different")(
            tensor(ROWS)
        )

    first = draw(plugrad.random.Generator(5))[0]
    assert_close(first, plugrad.random.Generator(5).normal((2, 3)))


def test_a_seed_inside_gives_the_same_numbers_in_each_call():
    def f(x):
        return plugrad.random.Generator(3).normal(2) + 0 * x[0]

    traced = plugrad.jit(plugrad.vmap(f, randomness="different"))
    assert_close(traced(tensor(ROWS, "float32")), traced(tensor(ROWS, "float32")))


def test_classes_that_are_drawn_for_a_shared_state_match_the_loop():
    state = plugrad.asarray([1, 0, 2, 0, 0, 0])
    logits = tensor(RNG.normal(size=(3, 2, 5)), "float32")

    def f(x):
        attrs = {"num_samples": 3, "normalized": False}
        return plugrad.run_kernel("Multinomial", {"logits": x, "state": state}, attrs)

    assert plugrad.vmap(f)(logits).tolist() == python_vmap(f, logits).tolist()


# --- kernels of others ----------------------------------------------------------------------------


@pytest.fixture
def restored_registries():
    restore = snapshot_registries()
    yield
    restore()


@pytest.fixture
def reversing_kernel(restored_registries):
    @kernel("ReversedAndScaled", family="example")
    def reversed_and_scaled(x: Spec, *, scale: float) -> Spec:
        return x

    plugrad.register_kernel(
        plugrad.KernelConfig("ReversedAndScaled", "cpu", lambda x, *, scale: x[::-1] * scale)
    )
    return reversed_and_scaled


def test_kernel_without_a_rule_runs_as_a_loop_and_warns_once(reversing_kernel):
    x = tensor(ROWS)
    expected = ROWS[:, ::-1] * 2
    with pytest.warns(
        RuntimeWarning, match="ReversedAndScaled.*once for each of 3 examples.*register_batching"
    ):
        assert_close(plugrad.vmap(lambda x: reversing_kernel(x, scale=2.0))(x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(plugrad.vmap(lambda x: reversing_kernel(x, scale=2.0))(x), expected)


def test_user_defined_batching_rule(reversing_kernel):
    register_batching(reversing_kernel, lambda batch, x, *, scale: plugrad.flip(x, axis=1) * scale)
    found = plugrad.vmap(lambda x: reversing_kernel(x, scale=2.0))(tensor(ROWS))
    assert_close(found, ROWS[:, ::-1] * 2)
    with pytest.raises(RegistrationError, match="has a batching rule already"):
        register_batching(reversing_kernel, lambda batch, x, *, scale: x)
    register_batching(reversing_kernel, lambda batch, x, *, scale: x[0], replace=True)
    with pytest.raises(KernelFailed, match=r"returned shapes \[\(4,\)\].*must be \[\(3, 4\)\]"):
        plugrad.vmap(lambda x: reversing_kernel(x, scale=2.0))(tensor(ROWS))


def test_rules_that_do_not_fit_their_contract(reversing_kernel):
    for rule in (lambda batch, x, *, rate: x, lambda batch: 1, lambda batch, x, y: x):
        with pytest.raises(RegistrationError, match="must take the batch"):
            register_batching(reversing_kernel, rule)
    with pytest.raises(ArgumentError, match="takes a kernel"):
        register_batching(3, lambda batch, x: x)
    with pytest.raises(RegistrationError, match="already"):
        batched_by_loop(signal.fft, because="no")


def test_a_body_of_ops_needs_no_rule(restored_registries):
    @kernel("LastTimesSum", family="example")
    def last_times_sum(x: Spec) -> Spec:
        return x

    @composite(last_times_sum)
    def body(x):
        return x * plugrad.sum(x)

    x = tensor(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(plugrad.vmap(last_times_sum)(x), ROWS * ROWS.sum(1, keepdims=True))
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.vmap(last_times_sum)(x)))
    assert_close(gradient(x), 2 * ROWS.sum(1, keepdims=True) * np.ones_like(ROWS))


def test_a_kernel_without_a_contract_runs_as_a_loop(restored_registries):
    plugrad.register_kernel(plugrad.KernelConfig("Undeclared", "cpu", lambda x: x[::-1].copy()))
    f = plugrad.vmap(lambda x: plugrad.run_kernel("Undeclared", {"x": x}))
    with pytest.warns(RuntimeWarning, match="Undeclared has no batching rule"):
        assert_close(f(tensor(ROWS)), ROWS[:, ::-1])


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: plugrad.vmap(3), ArgumentError, "vmap"),
        (lambda x: plugrad.vmap(abs, True), ArgumentError, "in_axes=True must be an integer"),
        (lambda x: plugrad.vmap(abs, 0, "a"), ArgumentError, "out_axes='a' must be"),
        (lambda x: plugrad.vmap(abs, (0, 0))(x), ArgumentError, "one entry for each of 1 arg"),
        (lambda x: plugrad.vmap(len, ((0, 1),))(x), ArgumentError, "the form of argument 0"),
        (lambda x: plugrad.vmap(abs, 2)(x), AxisError, r"argument 0 has shape \(3, 4\).*axis 2"),
        (lambda x: plugrad.vmap(abs)(x[0, 0]), AxisError, "pass None in in_axes"),
        (lambda x: plugrad.vmap(abs, None)(x), ArgumentValueError, "give axis_size"),
        (
            lambda x: plugrad.vmap(plugrad.add)(x, x.T),
            ArgumentValueError,
            r"3 \(axis 0 of shape \(3, 4\)\) and 4",
        ),
        (lambda x: plugrad.vmap(abs, axis_size=2)(x), ArgumentValueError, r"2 \(axis_size\)"),
        (lambda x: plugrad.vmap(abs, chunk_size=0), ArgumentValueError, "chunk_size"),
        (lambda x: plugrad.vmap(abs, randomness="no"), ArgumentValueError, "must be 'different'"),
        (lambda x: plugrad.vmap(abs, 0, None)(x), ArgumentValueError, "differs from example"),
        (lambda x: plugrad.vmap(abs, 0, 2)(x), AxisError, "out_axes=2 is no axis"),
        (lambda x: plugrad.vmap(lambda x: "a")(x), ArgumentError, "must return tensors"),
        (lambda x: plugrad.vmap(lambda x: x if x[0] > 0 else -x)(x), TracingError, "where"),
        (lambda x: plugrad.vmap(lambda x: float(x[0]))(x), TracingError, "each of 3 examples"),
        (lambda x: plugrad.vmap(print)(x), TracingError, "printing"),
        (lambda x: plugrad.vmap(lambda x: x + plugrad.ones(3))(x), ShapeError, r"\(4,\).*\(3,\)"),
        (
            lambda x: plugrad.vmap(lambda x: plugrad.reshape(x, (3,)))(x),
            ShapeError,
            "does not fit 4 elements",
        ),
    ],
)
def test_vmap_rejects_invalid_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(tensor(ROWS, "float32"))


def test_tensor_that_outlives_vmap_is_an_error():
    kept = []
    x = tensor(ROWS)
    plugrad.vmap(lambda x: kept.append(x) or x)(x)
    for call in (lambda: kept[0] + 1, lambda: kept[0].numpy(), lambda: kept[0] + x):
        with pytest.raises(TracingError, match="kept from a function"):
            call()
    with pytest.raises(TracingError, match="kept from a function"):
        plugrad.vmap(lambda x: x + kept[0])(x)


def test_an_argument_that_is_assigned_to():
    def f(x):
        x[0] = 1.0
        return x

    with pytest.raises(TracingError, match="assigns to elements of an argument"):
        plugrad.vmap(f)(tensor(ROWS))

    def of_copy(x):
        x = +x
        x[0] = 1.0
        return x

    expected = ROWS.copy()
    expected[:, 0] = 1
    assert_close(plugrad.vmap(of_copy)(tensor(ROWS)), expected)


def test_vmap_on_other_devices():
    x = tensor(ROWS, "float32")
    there = plugrad.ones(4, device="wasm")
    with pytest.raises(BackendMismatch, match=r"runs on cpu:0.*tensor on wasm.*copy it"):
        plugrad.vmap(lambda x: x + there)(x)
    with pytest.raises(BackendMismatch, match="the arguments live on"):
        plugrad.vmap(plugrad.add, (0, None))(x, there)
    with pytest.raises(TracingError, match="asks for wasm"):
        plugrad.vmap(lambda x: plugrad.zeros(4, device="wasm"))(x)
    with plugrad.use("cpu", transfer=True):
        assert_close(plugrad.vmap(lambda x: x + there)(x), ROWS.astype("float32") + 1, 1e-6)


def test_tidy_and_override_blocks_inside_and_outside_vmap():
    x = tensor(ROWS)

    def f(x):
        with plugrad.tidy():
            return plugrad.keep(plugrad.sin(x) * 2)

    assert_close(plugrad.vmap(f)(x), 2 * np.sin(ROWS))
    with plugrad.tidy():
        y = plugrad.keep(plugrad.vmap(f)(x))
    assert_close(y, 2 * np.sin(ROWS))
    with plugrad.override_kernel("Sin", "cpu", np.cos):
        assert_close(plugrad.vmap(plugrad.sin)(x), np.cos(ROWS))

    def overridden(x):
        with plugrad.override_kernel("Sin", "cpu", np.cos):
            return plugrad.sin(x)

    assert_close(plugrad.vmap(overridden)(x), np.cos(ROWS))
    assert plugrad.extend.is_traced(x) is False
    assert plugrad.vmap(lambda x: float(plugrad.extend.is_traced(x)))(x).tolist() == [1.0] * 3


def test_strings_under_vmap():
    words = plugrad.asarray([["a b", "c"], ["d", "e f"]])
    found = plugrad.vmap(lambda x: plugrad.concat([x, plugrad.asarray(["z"])], axis=0))(words)
    assert found.tolist() == [["a b", "c", "z"], ["d", "e f", "z"]]
