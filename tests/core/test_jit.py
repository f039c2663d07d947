"""What `plugrad.jit` promises: keys, state, errors, derivatives, threads and interrupts."""

import gc
import pickle
import sys
import threading
import warnings
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    BackendMismatch,
    DisposedTensor,
    KernelFailed,
    PlugradError,
    TracingError,
)
from plugrad.extend import host_value
from plugrad.kernels import unary
from plugrad.tracing.jit import MANY_TRACES, Jitted

X = plugrad.asarray(np.array([1.0, -2.0, 0.5], "float32"))
Y = plugrad.asarray(np.array([0.5, 3.0, -1.0], "float32"))
Point = namedtuple("Point", "x y")


def traces(jitted):
    return int(repr(jitted).split("traced ")[1].split()[0])


def same(a, b):
    assert a.dtype is b.dtype
    assert a.numpy().tobytes() == b.numpy().tobytes(), (a, b)


# --- arguments, results and keys ------------------------------------------------------------------


def test_containers_are_nested():
    @plugrad.jit
    def f(tree, *, more):
        point, (a, [b]) = tree["point"], tree["rest"]
        return {"sum": [a + b, (point.x * more["k"],)], "point": Point(b, None), 3: "text"}

    result = f({"point": Point(X, Y), "rest": (X, [Y])}, more={"k": Y})
    same(result["sum"][0], X + Y)
    same(result["sum"][1][0], X * Y)
    assert type(result["point"]) is Point
    assert result["point"].y is None
    assert result[3] == "text"
    assert list(result) == ["sum", "point", 3]


def test_a_function_without_results_or_arguments():
    assert plugrad.jit(lambda: None)() is None
    assert plugrad.jit(lambda x: ())(X) == ()
    same(plugrad.jit(lambda: plugrad.ones(2))(), plugrad.ones(2))


def test_each_shape_dtype_and_structure_is_traced_once():
    f = plugrad.jit(lambda x: plugrad.sum(x[0] if isinstance(x, list | tuple) else x))
    for x in (X, X[:2], X.astype("float64"), [X], (X,), [X, Y], [[X], Y][1:]):
        for _ in range(2):
            f(x)
    assert traces(f) == 6  # the last one is a list of one tensor, as the fourth


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True),
        (0.0, -0.0),
        (complex(0, 0.0), complex(0, -0.0)),
        ("a", b"a"),
        (None, False, 0),
    ],
)
def test_static_values_are_told_apart(values):
    f = plugrad.jit(lambda x, value: (x, repr(value)))
    for _ in range(2):
        for value in values:
            assert f(X, value)[1] == repr(value)
    assert traces(f) == len(values)


def test_a_nan_is_one_value():
    f = plugrad.jit(lambda x, value: x * value)
    for _ in range(3):
        f(X, float("nan"))
    assert traces(f) == 1


def test_static_values_inside_containers_are_told_apart():
    f = plugrad.jit(lambda x, values: (x, repr(values)))
    for values in ((1, 2), (1.0, 2), (True, 2), [1, 2], {"a": 1}, {"b": 1}):
        assert f(X, values)[1] == repr(values)
    assert traces(f) == 6


def test_the_structure_of_containers_is_part_of_the_key():
    f = plugrad.jit(lambda x: repr(x).count("("))
    assert f(((1, 2), 3)) == 2
    assert f((1, (2, 3))) == 2
    assert f((1, 2, 3)) == 1
    assert traces(f) == 3


@dataclass(frozen=True)
class Settings:
    rate: float


def test_frozen_dataclasses_functions_and_types_are_static():
    f = plugrad.jit(lambda x, settings, function, kind: function(x) * settings.rate)
    same(f(X, Settings(0.5), plugrad.exp, int), plugrad.exp(X) * 0.5)
    same(f(X, Settings(0.5), plugrad.exp, int), plugrad.exp(X) * 0.5)
    same(f(X, Settings(2.0), plugrad.sin, int), plugrad.sin(X) * 2.0)
    assert traces(f) == 2


def test_an_argument_that_is_not_hashable_is_named():
    f = plugrad.jit(lambda x, options: x)
    with pytest.raises(ArgumentError, match=r"argument 'options' has a set.*static=\('options',\)"):
        f(X, {"names": {1, 2}})
    with pytest.raises(ArgumentError, match="argument 'options'"):
        f(X, options=bytearray(b"a"))


def test_static_arguments_are_taken_by_identity():
    count = []

    @partial(plugrad.jit, static=("table",))
    def f(x, table):
        count.append(1)
        return x * float(table[0])

    table = np.array([2.0, 3.0])
    same(f(X, table), X * 2.0)
    same(f(X, table=table), X * 2.0)
    same(f(X, table.copy()), X * 2.0)
    assert len(count) == 3  # by position, by name, and another array


def test_static_names_are_those_of_parameters():
    with pytest.raises(ArgumentError, match=r"static='tabel' is not a parameter of .*\['table'\]"):
        plugrad.jit(lambda table: table, static=("tabel",))
    plugrad.jit(lambda table: table, static="table")


@pytest.mark.parametrize("function", [None, 3, "f", X])
def test_what_is_traced_is_a_function(function):
    if function is None:
        assert isinstance(plugrad.jit(None)(lambda: 0), Jitted)
        return
    with pytest.raises(ArgumentError, match="jit"):
        plugrad.jit(function)
    with pytest.raises(ArgumentError, match="make_graph"):
        plugrad.make_graph(function)


def test_numpys_arrays_and_numbers_are_inputs():
    f = plugrad.jit(lambda x, y: x + y)
    same(f(np.ones(3, "float32"), np.float32(2)), plugrad.full((3,), 3.0))
    same(f(np.zeros(3, "float32"), np.float32(5)), plugrad.full((3,), 5.0))
    assert traces(f) == 1


def test_many_traces_warn_once_and_name_the_argument():
    f = plugrad.jit(lambda x, rate: x * rate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(MANY_TRACES + 4):
            f(X, float(i))
    assert len(caught) == 1
    assert "argument 'rate' differs" in str(caught[0].message)
    assert "plugrad.asarray" in str(caught[0].message)


def test_as_a_method_and_a_decorator_with_names():
    class Model:
        def __init__(self):
            self.scale = 3.0

        @plugrad.jit
        def call(self, x):
            """Scale."""
            return x * self.scale

    model = Model()
    same(model.call(X), X * 3.0)
    assert Model.call.__name__ == "call"
    assert Model.call.__doc__ == "Scale."
    assert Model.call.__wrapped__ is Model.call.function


@plugrad.jit
def doubled(x):
    return x * 2


def test_pickling_pickles_the_function():
    raw = Jitted(np.negative, frozenset())
    again = pickle.loads(pickle.dumps(raw))
    assert isinstance(again, Jitted)
    assert again.function is np.negative
    partially = pickle.loads(pickle.dumps(plugrad.jit(plugrad.exp)))
    same(partially(X), plugrad.exp(X))


def test_a_jitted_function_of_a_module_can_be_pickled():
    again = pickle.loads(pickle.dumps(doubled))
    same(again(X), X * 2)


# --- what is closed over --------------------------------------------------------------------------


def test_closed_over_tensors_are_constants():
    held = [X]
    f = plugrad.jit(lambda y: y + held[0])
    same(f(Y), X + Y)
    held[0] = Y
    same(f(Y), X + Y)


def test_variables_are_read_at_each_call():
    v = plugrad.Variable(X)
    f = plugrad.jit(lambda y: y * v)
    same(f(Y), X * Y)
    v.assign(Y)
    same(f(Y), Y * Y)
    assert traces(f) == 1


READINGS = {
    "asarray": plugrad.asarray,
    "plus": lambda v: +v,
    "slice": lambda v: v[:],
    "ellipsis": lambda v: v[...],
    "reshape": lambda v: v.reshape(v.shape),
    "astype": lambda v: v.astype(v.dtype),
    "stop": plugrad.stop_gradient,
    "itself": lambda v: v,
    "broadcast": lambda v: plugrad.broadcast_to(v, v.shape),
    "squeeze": plugrad.squeeze,
    "in a list": lambda v: plugrad.stack([v])[0],
}


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_a_variable_read_through_an_op_with_nothing_to_do_stays_one(read):
    v = plugrad.Variable(X)
    f = plugrad.jit(lambda: read(v))
    same(plugrad.asarray(f()), X)
    v.assign(Y)
    same(plugrad.asarray(f()), Y)
    g = plugrad.jit(lambda: read(v) * 2)
    g()
    v.assign(X)
    same(g(), X * 2)


def test_what_is_assigned_is_seen_inside_and_after_the_call():
    v = plugrad.Variable(X)

    @plugrad.jit
    def step(y):
        v.assign(v + y)
        first = v * 1.0
        v.assign(v + y)
        return first, +v

    first, second = step(Y)
    same(first, X + Y)
    same(second, X + Y + Y)
    same(plugrad.asarray(v), X + Y + Y)


def test_two_variables_are_exchanged():
    a, b = plugrad.Variable(X), plugrad.Variable(Y)

    @plugrad.jit
    def swap():
        before = +a
        a.assign(b)
        b.assign(before)

    swap()
    same(plugrad.asarray(a), Y)
    same(plugrad.asarray(b), X)
    swap()
    same(plugrad.asarray(a), X)


def test_a_kernel_that_fails_changes_no_variable():
    a, b = plugrad.Variable(X), plugrad.Variable(Y)

    @plugrad.jit
    def step(m):
        a.assign(a + 1)
        b.assign(plugrad.linalg.cholesky(m)[0, 0] + b)

    good = plugrad.asarray(np.eye(2))
    step(good.astype("float32"))
    before = a.numpy().copy(), b.numpy().copy()
    with pytest.raises(PlugradError):
        step(plugrad.asarray(np.full((2, 2), -1.0, "float32")))
    assert np.array_equal(a.numpy(), before[0])
    assert np.array_equal(b.numpy(), before[1])


def test_a_function_that_fails_while_it_is_traced_changes_no_variable():
    v = plugrad.Variable(X)

    @plugrad.jit
    def step():
        v.assign(v + 1)
        raise ValueError("mine")

    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            step()
        same(plugrad.asarray(v), X)


def test_an_interrupt_at_any_point_leaves_all_variables_as_before_or_as_after():
    """A trace function raises at the n-th line or call of Python, for each n until a call has no more."""
    a, b = plugrad.Variable(plugrad.asarray(0.0)), plugrad.Variable(plugrad.asarray(0.0))

    @plugrad.jit
    def step():
        a.assign(a + 1)
        b.assign(b + 1)

    step()
    turns = []
    for point in range(10_000):
        remaining = iter(range(point))

        def interrupt(frame, event, arg, remaining=remaining):
            if next(remaining, None) is None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return interrupt

        before = a.numpy().item()
        assert b.numpy().item() == before
        sys.settrace(interrupt)
        try:
            step()
            done = True
        except KeyboardInterrupt:
            done = False
        finally:
            sys.settrace(None)
        after = a.numpy().item(), b.numpy().item()
        assert after in ((before, before), (before + 1, before + 1)), point
        turns.append(after[0] > before)
        if done:
            break
    assert turns[-1]
    assert not turns[0]
    assert len(turns) > 5


def test_a_variable_that_a_call_makes_and_nobody_keeps_is_an_error():
    with pytest.raises(TracingError, match="makes a Variable of shape"):
        plugrad.jit(lambda x: plugrad.Variable(x).assign(x))(X)


def test_a_variable_that_is_made_once_is_kept():
    made = {}

    @plugrad.jit
    def count(x):
        if "v" not in made:
            made["v"] = plugrad.Variable(plugrad.zeros_like(x))
        made["v"].assign(made["v"] + x)
        return +made["v"]

    same(count(X), X)
    same(count(X), X + X)


def test_host_values_are_computed_at_each_call_in_order():
    numbers = iter(range(100))
    f = plugrad.jit(lambda: (host_value(lambda: next(numbers)), host_value(lambda: next(numbers))))
    first = [x.item() for x in f()]
    second = [x.item() for x in f()]
    assert first[1] == first[0] + 1
    assert second == [first[0] + 2, first[0] + 3]


def test_random_numbers_are_new_at_each_call_and_those_of_untraced_ones():
    def draw():
        return plugrad.random.uniform((4,)), plugrad.random.normal((3,))

    traced = plugrad.jit(draw)
    plugrad.random.seed(5)
    expected = [draw() for _ in range(3)]
    plugrad.random.seed(5)
    for one, other in zip([traced() for _ in range(3)], expected, strict=True):
        same(one[0], other[0])
        same(one[1], other[1])


# --- what cannot be traced ------------------------------------------------------------------------

READ_VALUES = {
    "if": lambda x: 1 if x[0] > 0 else 2,
    "while": lambda x: [0 for _ in range(3) if bool(x[0])],
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: np.asarray(x),
    "list": lambda x: x.tolist(),
    "print": str,
    "format": lambda x: f"{x}",
    "nonzero": plugrad.nonzero,
    "unique": plugrad.unique_values,
    "mask": lambda x: x[x > 0],
}


@pytest.mark.parametrize("read", READ_VALUES.values(), ids=READ_VALUES)
def test_reading_values_is_an_error_that_names_the_line(read):
    with pytest.raises(TracingError, match=r"test_jit\.py:\d+"):
        plugrad.jit(read)(X)


def test_a_tensor_that_outlives_its_trace_is_named_by_line():
    kept = []

    def f(x):
        kept.append(plugrad.exp(x))  # this line
        return x

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(TracingError, match=rf"made at .*test_jit\.py:{line}.*still reachable"):
        plugrad.jit(f)(X)
    with pytest.raises(TracingError, match="was made while another function was traced"):
        plugrad.jit(lambda x: x + kept[0])(X)
    with pytest.raises(PlugradError):
        kept[0].numpy()


def test_cycles_of_garbage_are_no_leaks():
    def f(x):
        loop = [plugrad.exp(x)]
        loop.append(loop)
        return x

    gc.disable()
    try:
        same(plugrad.jit(f)(X), X)
    finally:
        gc.enable()


def test_assigning_to_elements_of_an_argument_is_an_error():
    def f(x):
        x[0] = 5
        return x

    x = plugrad.asarray([1.0, 2.0])
    with pytest.raises(TracingError, match="assigns to elements of an argument"):
        plugrad.jit(f)(x)
    assert x.tolist() == [1.0, 2.0]


def test_assigning_to_elements_of_what_the_function_made_works():
    def f(x):
        y = x * 2
        y[0] = 5
        y[1:] += x[1:]
        return y

    same(plugrad.jit(f)(X), f(X))


@pytest.mark.parametrize(
    "change",
    [
        lambda xs, d: xs.append(xs[0]),
        lambda xs, d: d.update(new=1),
        lambda xs, d: xs.pop(),
        lambda xs, d: d.__setitem__("a", 2),
    ],
)
def test_changing_a_container_among_the_arguments_is_an_error(change):
    def f(xs, d):
        change(xs, d)
        return xs[0] if xs else X

    with pytest.raises(TracingError, match="changes a list or dict among its arguments"):
        plugrad.jit(f)([X], {"a": 1})


@pytest.mark.parametrize(
    "change", [lambda xs: xs.reverse(), lambda xs: xs.__setitem__(0, xs[0] * 2)]
)
def test_replacing_a_tensor_in_a_list_among_the_arguments_is_an_error(change):
    def f(xs):
        change(xs)
        return xs[0] + 0

    with pytest.raises(TracingError, match="changes a list or dict among its arguments"):
        plugrad.jit(f)([X, Y])


# --- registries and settings ----------------------------------------------------------------------


def test_a_registered_kernel_replaces_the_one_that_was_traced(registries):
    f = plugrad.jit(plugrad.exp)
    same(f(X), plugrad.exp(X))
    plugrad.register_kernel(
        plugrad.KernelConfig("Exp", "cpu", lambda x: np.zeros_like(x)), replace=True
    )
    same(f(X), plugrad.zeros(3))


def test_an_overridden_kernel_counts_while_it_is():
    f = plugrad.jit(plugrad.exp)
    f(X)
    with plugrad.override_kernel("Exp", "cpu", lambda x: x + 1):
        same(f(X), X + 1)
    same(f(X), plugrad.exp(X))


def test_an_overridden_gradient_counts_while_it_is():
    f = plugrad.jit(plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x))))
    same(f(X), plugrad.exp(X))
    with plugrad.override_gradient(unary.exp, x=lambda dy: dy * 7):
        same(f(X), plugrad.full((3,), 7.0))
    same(f(X), plugrad.exp(X))


def test_check_finite_counts_inside():
    f = plugrad.jit(plugrad.log)
    f(X * X)
    with plugrad.config.override("check_finite", True), pytest.raises(PlugradError, match="Log"):
        f(plugrad.zeros(3))
    assert f(plugrad.zeros(3)).tolist() == [-np.inf] * 3


def test_the_error_of_a_kernel_names_it_and_the_line_of_the_trace():
    def broken(x):
        raise RuntimeError("out of order")

    def f(x):
        y = x * 2
        return plugrad.exp(y)  # this line

    line = f.__code__.co_firstlineno + 2
    with plugrad.override_kernel("Exp", "cpu", broken):
        traced = plugrad.jit(f)
        for _ in range(2):
            with pytest.raises(KernelFailed, match=r"Exp.*out of order") as caught:
                traced(X)
            assert any(f"test_jit.py:{line}" in note for note in caught.value.__notes__)


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


# --- devices, memory, threads ---------------------------------------------------------------------


def test_tensors_on_two_devices_are_an_error(fake):
    there = plugrad.asarray([1.0, 2.0, 3.0], device=fake)
    with pytest.raises(BackendMismatch, match=r"jit: .*cpu:0.*fake_device"):
        plugrad.jit(lambda x, y: x + y)(X, there)
    with pytest.raises(BackendMismatch, match=r"jit: .*not among"):
        plugrad.jit(lambda x: x + there)(X)


def test_without_tensors_the_function_runs_where_its_variables_live(fake):
    v = plugrad.Variable(plugrad.asarray([1.0, 2.0], device=fake))
    f = plugrad.jit(lambda: v * v)
    assert f().device.startswith(fake)
    assert f().tolist() == [1.0, 4.0]


def test_a_device_with_few_kernels_falls_back(fake):
    x = plugrad.asarray([1.0, 2.0], device=fake)
    with plugrad.config.override("fallback", "silent"):
        f = plugrad.jit(lambda x: plugrad.sin(x) + plugrad.relu(x))
        np.testing.assert_allclose(f(x).numpy(), np.sin([1, 2]) + np.array([1, 2]), rtol=1e-6)
        assert f(x).device.startswith(fake)


def test_tidy_releases_the_results_and_nothing_else():
    f = plugrad.jit(lambda x: (x + 1, Y, x))
    with plugrad.tidy():
        first, closed_over, _ = f(X)
    assert first.is_disposed
    assert closed_over.is_disposed
    same(f(X)[1], Y)
    same(X + 0, X)


def test_tensors_that_are_disposed_are_an_error():
    f = plugrad.jit(lambda x: x + 1)
    x = plugrad.asarray([1.0, 2.0])
    f(x)
    x.dispose()
    with pytest.raises(DisposedTensor):
        f(x)


def test_a_variable_that_is_disposed_is_an_error():
    v = plugrad.Variable(X)
    f = plugrad.jit(lambda: v + 1)
    f()
    v.dispose()
    with pytest.raises(DisposedTensor):
        f()


def test_strings():
    words = plugrad.asarray(np.array(["a", "bc"], np.dtypes.StringDType()))
    f = plugrad.jit(lambda x: (plugrad.concat([x, words]), x[::-1]))
    assert f(words)[0].tolist() == ["a", "bc", "a", "bc"]
    assert f(words)[1].tolist() == ["bc", "a"]


def test_one_function_runs_in_four_threads():
    f = plugrad.jit(lambda x, k: plugrad.sum(x * k))
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        return [f(plugrad.full((n % 3 + 1,), float(number)), number % 2).item() for n in range(60)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for number, values in enumerate(found):
        assert values == [(n % 3 + 1) * number * (number % 2) for n in range(60)]
    assert traces(f) == 6


def test_a_trace_is_not_seen_by_other_threads():
    inside, done = threading.Event(), threading.Event()

    def f(x):
        y = plugrad.exp(x)
        inside.set()
        assert done.wait(20)
        return y * 2

    traced = plugrad.jit(f)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(traced, X)
        assert inside.wait(20)
        try:
            v = plugrad.Variable(X)
            v.assign(v + 1)
            assert (X + v).numpy().tolist() == (X + X + 1).numpy().tolist()
            assert plugrad.grad(cubic)(X).shape == (3,)
            same(plugrad.jit(lambda x: x + 1)(X), X + 1)
        finally:
            done.set()
        same(future.result(), plugrad.exp(X) * 2)


def test_debug_checks_what_kernels_return():
    f = plugrad.jit(plugrad.exp)
    with (
        plugrad.override_kernel("Exp", "cpu", lambda x: x[:1]),
        plugrad.config.override("debug", True),
        pytest.raises(PlugradError, match=r"Exp.*\(1,\)"),
    ):
        f(X)
    same(f(X), plugrad.exp(X))


def test_the_graph_of_a_call_is_the_one_that_runs():
    f = plugrad.jit(lambda x: plugrad.exp(x))
    graph = f.graph(X)
    f(X)
    assert traces(f) == 1
    assert f.graph(X) is graph
    assert plugrad.make_graph(f)(X) is graph
    assert [step.kernel.name for step in graph.steps] == ["Exp"]
