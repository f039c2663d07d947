"""`plugrad.jit`: arguments, results, the keys of traces, and state."""

import gc
import pickle
import signal
import sys
import time
import warnings
import weakref
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import plugrad
from core.traced_values import VECTOR_X, VECTOR_Y, Point, assert_identical, count_traces
from plugrad.errors import (
    ArgumentError,
    PlugradError,
    TracingError,
)
from plugrad.extend import host_value, plan_memory
from plugrad.tracing.jit import MANY_TRACES_TO_WARN, Jitted

# --- arguments, results and keys ------------------------------------------------------------------


def test_nested_containers_as_arguments_and_results():
    @plugrad.jit
    def f(tree, *, more):
        point, (a, [b]) = tree["point"], tree["rest"]
        return {"sum": [a + b, (point.x * more["k"],)], "point": Point(b, None), 3: "text"}

    result = f(
        {"point": Point(VECTOR_X, VECTOR_Y), "rest": (VECTOR_X, [VECTOR_Y])}, more={"k": VECTOR_Y}
    )
    assert_identical(result["sum"][0], VECTOR_X + VECTOR_Y)
    assert_identical(result["sum"][1][0], VECTOR_X * VECTOR_Y)
    assert type(result["point"]) is Point
    assert result["point"].y is None
    assert result[3] == "text"
    assert list(result) == ["sum", "point", 3]


@pytest.mark.parametrize("static", [(), ("scale",)])
def test_arguments_by_name_come_in_any_order(static):
    def f(z, a, *, scale):
        return z - 2 * a + scale

    jitted = plugrad.jit(f, static=static)
    expected = plugrad.asarray([-19.0 + 3.0])
    z, a = plugrad.asarray([1.0]), plugrad.asarray([10.0])
    assert_identical(jitted(z=z, a=a, scale=3.0), expected)
    assert_identical(jitted(a=a, scale=3.0, z=z), expected)
    assert_identical(jitted(z, scale=3.0, a=a), expected)


def test_a_function_without_results_or_arguments():
    assert plugrad.jit(lambda: None)() is None
    assert plugrad.jit(lambda x: ())(VECTOR_X) == ()
    assert_identical(plugrad.jit(lambda: plugrad.ones(2))(), plugrad.ones(2))


def test_each_shape_dtype_and_structure_is_traced_once():
    f = plugrad.jit(lambda x: plugrad.sum(x[0] if isinstance(x, list | tuple) else x))
    for x in (
        VECTOR_X,
        VECTOR_X[:2],
        VECTOR_X.astype("float64"),
        [VECTOR_X],
        (VECTOR_X,),
        [VECTOR_X, VECTOR_Y],
        [[VECTOR_X], VECTOR_Y][1:],
    ):
        for _ in range(2):
            f(x)
    assert count_traces(f) == 6  # the last one is a list of one tensor, as the fourth


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
def test_each_static_value_has_its_own_trace(values):
    f = plugrad.jit(lambda x, value: (x, repr(value)))
    for _ in range(2):
        for value in values:
            assert f(VECTOR_X, value)[1] == repr(value)
    assert count_traces(f) == len(values)


def test_nan_arguments_share_one_trace():
    f = plugrad.jit(lambda x, value: x * value)
    for _ in range(3):
        f(VECTOR_X, float("nan"))
    assert count_traces(f) == 1


def test_each_static_value_inside_a_container_has_its_own_trace():
    f = plugrad.jit(lambda x, values: (x, repr(values)))
    for values in ((1, 2), (1.0, 2), (True, 2), [1, 2], {"a": 1}, {"b": 1}):
        assert f(VECTOR_X, values)[1] == repr(values)
    assert count_traces(f) == 6


def test_the_structure_of_containers_is_part_of_the_key():
    f = plugrad.jit(lambda x: repr(x).count("("))
    assert f(((1, 2), 3)) == 2
    assert f((1, (2, 3))) == 2
    assert f((1, 2, 3)) == 1
    assert count_traces(f) == 3


@dataclass(frozen=True)
class TrainingOptions:
    rate: float


def test_frozen_dataclasses_functions_and_types_are_static():
    f = plugrad.jit(lambda x, settings, function, kind: function(x) * settings.rate)
    assert_identical(
        f(VECTOR_X, TrainingOptions(0.5), plugrad.exp, int), plugrad.exp(VECTOR_X) * 0.5
    )
    assert_identical(
        f(VECTOR_X, TrainingOptions(0.5), plugrad.exp, int), plugrad.exp(VECTOR_X) * 0.5
    )
    assert_identical(
        f(VECTOR_X, TrainingOptions(2.0), plugrad.sin, int), plugrad.sin(VECTOR_X) * 2.0
    )
    assert count_traces(f) == 2


def test_an_argument_that_is_not_hashable_is_named():
    f = plugrad.jit(lambda x, options: x)
    with pytest.raises(ArgumentError, match=r"argument 'options' has a set.*static=\('options',\)"):
        f(VECTOR_X, {"names": {1, 2}})
    with pytest.raises(ArgumentError, match="argument 'options'"):
        f(VECTOR_X, options=bytearray(b"a"))


def test_static_arguments_are_taken_by_identity():
    count = []

    @partial(plugrad.jit, static=("table",))
    def f(x, table):
        count.append(1)
        return x * float(table[0])

    table = np.array([2.0, 3.0])
    assert_identical(f(VECTOR_X, table), VECTOR_X * 2.0)
    assert_identical(f(VECTOR_X, table=table), VECTOR_X * 2.0)
    assert_identical(f(VECTOR_X, table.copy()), VECTOR_X * 2.0)
    assert len(count) == 3  # by position, by name, and another array


def test_static_names_are_those_of_parameters():
    with pytest.raises(ArgumentError, match=r"static='tabel' is not a parameter of .*\['table'\]"):
        plugrad.jit(lambda table: table, static=("tabel",))
    plugrad.jit(lambda table: table, static="table")


@pytest.mark.parametrize("function", [None, 3, "f", VECTOR_X])
def test_jit_rejects_arguments_that_are_not_functions(function):
    if function is None:
        assert isinstance(plugrad.jit(None)(lambda: 0), Jitted)
        return
    with pytest.raises(ArgumentError, match="jit"):
        plugrad.jit(function)
    with pytest.raises(ArgumentError, match="make_graph"):
        plugrad.make_graph(function)


def test_numpys_arrays_and_numbers_are_inputs():
    f = plugrad.jit(lambda x, y: x + y)
    assert_identical(f(np.ones(3, "float32"), np.float32(2)), plugrad.full((3,), 3.0))
    assert_identical(f(np.zeros(3, "float32"), np.float32(5)), plugrad.full((3,), 5.0))
    assert count_traces(f) == 1


def test_many_traces_warn_once_and_name_the_argument():
    f = plugrad.jit(lambda x, rate: x * rate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(MANY_TRACES_TO_WARN + 4):
            f(VECTOR_X, float(i))
    assert len(caught) == 1
    assert "argument 'rate' differs" in str(caught[0].message)
    assert "plugrad.asarray" in str(caught[0].message)


def test_jit_as_a_method_and_as_a_decorator_with_static_names():
    class Model:
        def __init__(self):
            self.scale = 3.0

        @plugrad.jit
        def call(self, x):
            """Scale."""
            return x * self.scale

    model = Model()
    assert_identical(model.call(VECTOR_X), VECTOR_X * 3.0)
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
    assert_identical(partially(VECTOR_X), plugrad.exp(VECTOR_X))


def test_a_jitted_function_of_a_module_can_be_pickled():
    again = pickle.loads(pickle.dumps(doubled))
    assert_identical(again(VECTOR_X), VECTOR_X * 2)


# --- what is closed over --------------------------------------------------------------------------


def test_closed_over_tensors_are_constants():
    held = [VECTOR_X]
    f = plugrad.jit(lambda y: y + held[0])
    assert_identical(f(VECTOR_Y), VECTOR_X + VECTOR_Y)
    held[0] = VECTOR_Y
    assert_identical(f(VECTOR_Y), VECTOR_X + VECTOR_Y)


def test_variables_are_read_at_each_call():
    v = plugrad.Variable(VECTOR_X)
    f = plugrad.jit(lambda y: y * v)
    assert_identical(f(VECTOR_Y), VECTOR_X * VECTOR_Y)
    v.assign(VECTOR_Y)
    assert_identical(f(VECTOR_Y), VECTOR_Y * VECTOR_Y)
    assert count_traces(f) == 1


IDENTITY_OPS = {
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


@pytest.mark.parametrize("read", IDENTITY_OPS.values(), ids=IDENTITY_OPS)
def test_variable_passed_through_an_identity_op_is_still_a_variable(read):
    v = plugrad.Variable(VECTOR_X)
    f = plugrad.jit(lambda: read(v))
    assert_identical(plugrad.asarray(f()), VECTOR_X)
    v.assign(VECTOR_Y)
    assert_identical(plugrad.asarray(f()), VECTOR_Y)
    g = plugrad.jit(lambda: read(v) * 2)
    g()
    v.assign(VECTOR_X)
    assert_identical(g(), VECTOR_X * 2)


def test_assigned_values_are_visible_inside_and_after_the_call():
    v = plugrad.Variable(VECTOR_X)

    @plugrad.jit
    def step(y):
        v.assign(v + y)
        first = v * 1.0
        v.assign(v + y)
        return first, +v

    first, second = step(VECTOR_Y)
    assert_identical(first, VECTOR_X + VECTOR_Y)
    assert_identical(second, VECTOR_X + VECTOR_Y + VECTOR_Y)
    assert_identical(plugrad.asarray(v), VECTOR_X + VECTOR_Y + VECTOR_Y)


def test_swapping_two_variables():
    a, b = plugrad.Variable(VECTOR_X), plugrad.Variable(VECTOR_Y)

    @plugrad.jit
    def swap():
        before = +a
        a.assign(b)
        b.assign(before)

    swap()
    assert_identical(plugrad.asarray(a), VECTOR_Y)
    assert_identical(plugrad.asarray(b), VECTOR_X)
    swap()
    assert_identical(plugrad.asarray(a), VECTOR_X)


def test_a_kernel_that_fails_changes_no_variable():
    a, b = plugrad.Variable(VECTOR_X), plugrad.Variable(VECTOR_Y)

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
    v = plugrad.Variable(VECTOR_X)

    @plugrad.jit
    def step():
        v.assign(v + 1)
        raise ValueError("mine")

    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            step()
        assert_identical(plugrad.asarray(v), VECTOR_X)


def test_an_interrupt_at_any_point_leaves_all_variables_as_before_or_as_after():
    """A trace function raises at the n-th line or call, for each n until the step completes."""
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


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_a_signal_during_a_compiled_loop_leaves_variables_and_generators_as_before():
    """An alarm is sent at varying times until three have interrupted the loop."""
    x = plugrad.Variable(plugrad.zeros(3))

    @plugrad.jit
    def step():
        start = plugrad.random.uniform((3,)) - x
        last, _ = plugrad.scan(lambda c, _: (c * 0.5 + start, None), start, length=20_000)
        x.assign(last)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    step()
    begin = time.perf_counter()
    step()
    taken = time.perf_counter() - begin
    old, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for turn in range(300):
            before = x.tolist(), plugrad.random.default.state
            try:
                signal.setitimer(signal.ITIMER_REAL, taken * (turn % 20 + 1) / 20)
                step()
                signal.setitimer(signal.ITIMER_REAL, 0)
                is_done = True
            except KeyboardInterrupt:
                is_done = False
            after = x.tolist(), plugrad.random.default.state
            assert (after[0] == before[0]) == (after[1] == before[1])
            assert after != before or not is_done
            interrupted += after == before
            if interrupted == 3:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interrupted == 3
    step()


def test_variable_created_in_a_call_and_dropped_is_an_error():
    with pytest.raises(TracingError, match="makes a Variable of shape"):
        plugrad.jit(lambda x: plugrad.Variable(x).assign(x))(VECTOR_X)


def test_a_variable_created_in_the_first_call_is_kept():
    made = {}

    @plugrad.jit
    def count(x):
        if "v" not in made:
            made["v"] = plugrad.Variable(plugrad.zeros_like(x))
        made["v"].assign(made["v"] + x)
        return +made["v"]

    assert_identical(count(VECTOR_X), VECTOR_X)
    assert_identical(count(VECTOR_X), VECTOR_X + VECTOR_X)


def test_host_values_are_computed_at_each_call_in_order():
    numbers = iter(range(100))
    f = plugrad.jit(lambda: (host_value(lambda: next(numbers)), host_value(lambda: next(numbers))))
    first = [x.item() for x in f()]
    second = [x.item() for x in f()]
    assert first[1] == first[0] + 1
    assert second == [first[0] + 2, first[0] + 3]


def test_random_numbers_change_with_each_call_and_match_untraced_calls():
    def draw():
        return plugrad.random.uniform((4,)), plugrad.random.normal((3,))

    traced = plugrad.jit(draw)
    plugrad.random.seed(5)
    expected = [draw() for _ in range(3)]
    plugrad.random.seed(5)
    for one, other in zip([traced() for _ in range(3)], expected, strict=True):
        assert_identical(one[0], other[0])
        assert_identical(one[1], other[1])


def test_fused_graph_shows_fused_steps_and_planned_peak_memory(backend):
    def f(x):
        return plugrad.sum(plugrad.exp(x) * 2 + x)

    x = plugrad.ones(1000)
    graph = plugrad.make_graph(f, fused=True)(x)
    has_pack = x.backend.name == "cpu" and len(x.backend.kernels) > 1
    # plugrad-native needs no array for a group that a sum reads; what is not planned as one takes two arrays.
    peak = 4 if has_pack else 4004 if x.backend.name == "wasm" else 8000
    assert graph.peak_bytes == peak
    assert plan_memory(plugrad.make_graph(f)(x)).peak_bytes == 4004
    assert str(graph).endswith(f"planned peak: {peak:,} bytes")
    assert "planned" not in str(plugrad.make_graph(f)(x))
    if has_pack:
        assert "4 steps as one" in str(graph) or "2 steps as one" in str(graph)
    jitted = plugrad.jit(f)
    jitted(x)
    assert str(plugrad.make_graph(jitted, fused=True)(x)) == str(graph)
    with pytest.raises(plugrad.errors.ArgumentError, match="fused"):
        plugrad.make_graph(f, fused=1.5)


def test_a_graph_says_where_no_gradient_flows_if_asked():
    def f(x):
        def step(carry, _):
            return carry - plugrad.stop_gradient(carry) + plugrad.log_sum_exp(x), None

        return plugrad.scan(step, plugrad.stop_gradient(x * 2), plugrad.zeros(3))[0]

    jitted = plugrad.jit(f)
    assert_identical(jitted(VECTOR_X), f(VECTOR_X))
    assert "without gradient" not in str(plugrad.make_graph(jitted)(VECTOR_X))
    text = str(plugrad.make_graph(jitted, differentiable=True)(VECTOR_X))
    assert text.count("without gradient") == 3
    assert "= Identity(%0) without gradient  float32[3]" in text
    with pytest.raises(ArgumentError, match="make_graph: differentiable=2"):
        plugrad.make_graph(f, differentiable=2)


def test_a_dropped_program_is_freed_at_once(monkeypatch):
    """Its constants may be large, and the next garbage collection may come late."""
    monkeypatch.setattr(
        gc, "collect", lambda: 0
    )  # which a trace asks for where a tensor seems to remain
    gc.disable()
    weights = plugrad.asarray(VECTOR_X)
    function = plugrad.jit(lambda x, scale: plugrad.sum(x * weights) * scale, static="scale")
    function(plugrad.asarray(VECTOR_X), 2.0)
    program = weakref.ref(function.program(plugrad.asarray(VECTOR_X), 2.0))
    assert program() is not None
    del function
    remains = program() is not None
    gc.enable()
    assert not remains


def test_numbers_are_sent_to_the_device_once_for_all_programs():
    def constants(function):
        graph = plugrad.make_graph(function)(plugrad.asarray(VECTOR_X))
        return list(graph.constants.values())

    first, second = constants(lambda x: x * 0.3125), constants(lambda x: x + 0.3125)
    assert first[0] is second[0]
