"""Compiled graphs: programs equal untraced calls to the bit, and nothing is lost."""

import gc
import signal
import threading
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugins.comparing import assert_same_when_traced, random_tensor as numbers_on
from plugrad.discovery.loading import open_backend
from plugrad.extend import Fused, OutOfMemory, active_functions, fuse_groups

pytest.importorskip("wasmtime")
programs = import_module("plugrad_wasm.programs.compile")
layouts = import_module("plugrad_wasm.programs.layout")
recorder = import_module("plugrad_wasm.programs.recorder")
record = import_module("plugrad_wasm.programs.recording").record_graph
elementwise = import_module("plugrad_wasm.custom").elementwise


@pytest.fixture(autouse=True)
def _use_wasm():
    with plugrad.use("wasm"):
        yield


random_wasm_tensor = partial(numbers_on, device="wasm")


def is_one_program(function, *args):
    """Return whether a program never calls back into Python."""
    graph = plugrad.make_graph(function)(*args)
    recordable = programs.RecordabilityCheck(graph, open_backend("wasm").linear_memory)
    return all(map(recordable, graph.steps))


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (700,), (33, 70)])
def test_elementwise_calls_of_each_dtype(dtype, shape):
    x, y = (
        random_wasm_tensor(*shape, dtype=dtype),
        random_wasm_tensor(*shape[-1:], dtype=dtype, seed=1),
    )

    def f(x, y):
        a = x * y + x
        b = plugrad.where(a > y, a, x)
        return b - y, plugrad.maximum(b, y).astype("float32"), (a == b) | (x > y)

    assert_same_when_traced(f, x, y)
    assert is_one_program(f, x, y)


@pytest.mark.parametrize("size", [0, 5, 300, 5000])
def test_functions_of_each_size(size):
    def f(x):
        y = plugrad.exp(-plugrad.abs(x)) + 1
        z = plugrad.tanh(plugrad.log(y) * x) + plugrad.sin(x) * plugrad.sigmoid(x)
        whole = plugrad.floor(x) + plugrad.round(z) * plugrad.ceil(y) - plugrad.trunc(x)
        return z, plugrad.gelu(z) / plugrad.sqrt(y), plugrad.elu(x) - plugrad.softplus(z), whole

    assert_same_when_traced(f, random_wasm_tensor(size))


def test_broadcasting_along_every_axis():
    a, b, c, d = (
        random_wasm_tensor(5, 1, 7),
        random_wasm_tensor(1, 6, 1),
        random_wasm_tensor(6, 7),
        random_wasm_tensor(5, 6, 7),
    )
    assert_same_when_traced(
        lambda a, b, c, d: ((a + b) * c - d, a * 2 + b, d / (c * b)), a, b, c, d
    )
    rows, columns, table = (
        random_wasm_tensor(300, 1),
        random_wasm_tensor(700),
        random_wasm_tensor(300, 700),
    )
    assert_same_when_traced(lambda r, c, t: t * r + c - plugrad.exp(c), rows, columns, table)


@pytest.mark.parametrize("period", [1, 7, 64, 96, 700, 5000])
def test_operands_that_repeat_within_blocks_and_across_them(period):
    table, row, column = (
        random_wasm_tensor(11, period),
        random_wasm_tensor(period, seed=1),
        random_wasm_tensor(11, 1, seed=2),
    )
    assert_same_when_traced(
        lambda t, r, c: (plugrad.tanh(t * r + c) - r, plugrad.where(t > 0, t, r)),
        table,
        row,
        column,
    )


def test_groups_of_wider_and_narrower_elements():
    x = random_wasm_tensor(3000)

    def f(x):
        whole = x.astype("int64") * 3
        flags = (whole > 1) & (x < 2)
        wide = x.astype("float64") / 3
        step = plugrad.clip(wide, -0.5, 0.5) + plugrad.leaky_relu(x, 0.1)
        return (
            flags,
            plugrad.where(flags, wide, step),
            whole.astype("uint8"),
            plugrad.ones_like(x) + x,
        )

    assert_same_when_traced(f, x)
    assert_same_when_traced(f, x.astype("float16"))


def test_one_array_in_two_shapes():
    x = random_wasm_tensor(40, 1)
    assert_same_when_traced(lambda x: (x * x.reshape(1, 40) + 1) * 2 - x, x)
    y = random_wasm_tensor(40, 40)
    assert_same_when_traced(lambda y: (y * 2 + y.reshape(1600).reshape(40, 40)) * y.T, y)


def blockwise_groups(function, *args):
    """Return the groups of a program that run block by block."""
    graph = plugrad.make_graph(function)(*args)
    linear = open_backend("wasm").linear_memory
    grouped = fuse_groups(
        graph, is_included=programs.RecordabilityCheck(graph, linear).is_elementwise
    )
    calls = record(grouped, linear, active_functions(graph.backend)).calls
    return [call for call in calls if isinstance(call, recorder.BlockwiseCalls)]


def test_values_read_only_by_a_group_stay_in_scratch_memory():
    def f(x, y):
        return (plugrad.sqrt(plugrad.abs(x) * 2 + y) - x) * y

    (group,) = blockwise_groups(f, random_wasm_tensor(100_000), random_wasm_tensor(100_000))
    assert group.scratch_bytes <= 32_768
    assert len(group.block_calls) == 6
    assert not blockwise_groups(
        f, random_wasm_tensor(100), random_wasm_tensor(100)
    )  # which fit into one block


def exports_of_groups(function, *args):
    """Return the exports that the groups of a program call for each block."""
    groups = blockwise_groups(function, *args)
    return [[export for export, _ in group.block_calls] for group in groups]


def test_a_step_is_joined_to_the_product_that_alone_reads_it():
    x = plugrad.asarray(np.resize(np.float32([1, -1, 0, -0.0, np.nan, np.inf, -np.inf]), 5003))
    dy = plugrad.asarray(np.repeat(np.float32([2, -3, np.inf, np.nan, 0]), 1001)[:5003])
    column, row = dy[:50].reshape(50, 1), x[:70]
    table = x[:3500].reshape(50, 70)

    def gradient(f):
        return lambda x, dy: plugrad.grad(f)(x, dy=dy)

    joined = "multiply_by_step_float32"
    for f, exports in (
        (gradient(plugrad.relu), ["relu_float32", joined]),
        (gradient(lambda x: plugrad.leaky_relu(plugrad.relu(x + 1), 0.1)), None),
        (lambda x, dy: plugrad.step(x, 0.25) * dy, [joined]),
        (
            lambda x, dy: (dy - 1) * plugrad.step(x * 2),
            ["subtract_float32", "multiply_float32", joined],
        ),
        (lambda x, dy: plugrad.step(x) * plugrad.step(dy), ["step_float32", joined]),
    ):
        assert_same_when_traced(f, x, dy)
        assert exports is None or exports_of_groups(f, x, dy) == [exports]

    for f in (
        lambda x, dy: plugrad.step(x) * plugrad.step(x),
        lambda x, dy: plugrad.step(x) * dy + plugrad.step(x),
        lambda x, dy: (plugrad.step(x) * 2 - dy, x * dy),
        lambda x, dy: (lambda gate: (gate, gate * dy))(plugrad.step(x)),
    ):
        assert_same_when_traced(f, x, dy)
        assert not any(joined in exports for exports in exports_of_groups(f, x, dy))

    assert_same_when_traced(lambda x, y: plugrad.step(x) * y - 1, table, column)
    assert_same_when_traced(lambda x, y: plugrad.step(x - y) * y - 1, table, row)
    assert_same_when_traced(lambda x, y: plugrad.step(y) * x - 1, table, row)


def test_a_loop_that_is_longer_than_ctrl_c_may_wait_for():
    x = random_wasm_tensor(3_000_000)
    assert_same_when_traced(lambda x: plugrad.relu(x * 2 + 1) - x, x)


def test_results_that_are_arguments_constants_views_or_twice_the_same():
    x, closed_over = random_wasm_tensor(4, 6), random_wasm_tensor(3)
    large = random_wasm_tensor(100, 100, seed=1)

    def f(x, y, large):
        z = x + 1
        half = large * 2
        return (
            *(x, closed_over, z, z, z.reshape(24), x.reshape(3, 8), y, large.T, large[10:60]),
            *(half[10:60], half.T, half[::2], closed_over.reshape(3, 1), plugrad.ones((2, 2))),
        )

    assert_same_when_traced(f, x, random_wasm_tensor(2), large)
    assert_same_when_traced(lambda large: large.T @ large[:, 50:], large)
    assert_same_when_traced(lambda x: x[10:60] + 1, large[20:])


def test_views_of_results_can_be_used_in_later_calls():
    x = random_wasm_tensor(200, 50)
    middle = plugrad.jit(lambda x: (x * 2)[50:150])(x)
    assert_same_when_traced(lambda y: (plugrad.exp(y), y.T @ y, plugrad.sum(y, axis=0)), middle)
    assert (middle + middle).numpy().tobytes() == (x * 2)[50:150].numpy().__mul__(2).tobytes()


def training_functions():
    w = plugrad.Variable(random_wasm_tensor(8, 4).numpy(), name="w")
    optimizer = plugrad.optimizers.Adam(0.1)
    x, labels = random_wasm_tensor(16, 8, seed=2), plugrad.one_hot(np.arange(16) % 4, 4)

    def step(x, labels):
        return optimizer.minimize(
            lambda: plugrad.losses.softmax_cross_entropy(labels, plugrad.relu(x @ w)), [w]
        )

    return w, step, x, labels


def test_a_training_step_is_one_program():
    w, step, x, labels = training_functions()
    other, plain, _, _ = training_functions()
    run = plugrad.jit(step)
    for _ in range(4):
        assert run(x, labels).item() == plain(x, labels).item()
        assert w.numpy().tobytes() == other.numpy().tobytes()


def test_updated_variables_reuse_the_memory_of_gradients():
    w, x = plugrad.Variable(random_wasm_tensor(60, 50)), random_wasm_tensor(20, 60)
    optimizer = plugrad.optimizers.SGD(0.1)
    graph = plugrad.make_graph(
        lambda x: optimizer.minimize(lambda: plugrad.sum((x @ w) ** 2), [w]), fused=True
    )(x)
    (body,) = [step.body for step in graph.steps if isinstance(step, Fused)]
    recording = record(body, open_backend("wasm").linear_memory, active_functions(graph.backend))
    layout = layouts.OperandLayout(recording, len(body.arguments))
    assert layout.frame_bytes < 60 * 50 * 4  # the gradient is not there


@pytest.mark.parametrize("kind", [plugrad.optimizers.SGD, plugrad.optimizers.Adam])
def test_gradients_that_are_read_twice_are_not_overwritten(kind):
    def training():
        a, b, c = (plugrad.Variable(random_wasm_tensor(16, seed=i)) for i in range(3))
        optimizer = kind(0.1)

        def step(x):
            def loss():
                y = plugrad.exp(x)
                halves = plugrad.sum(a * y[:16]) + plugrad.sum(b * y[:16])
                return halves + plugrad.sum(c * y[16:])

            return optimizer.minimize(loss, [a, b, c])

        return step, (a, b, c)

    (step, found), (plain, right) = training(), training()
    run, x = plugrad.jit(step), random_wasm_tensor(32)
    for _ in range(4):
        assert run(x).item() == plain(x).item()
        for mine, other in zip(found, right, strict=True):
            assert mine.numpy().tobytes() == other.numpy().tobytes()


def test_kernels_without_an_export_are_called_from_python():
    x = random_wasm_tensor(6, 6)
    eigen = lambda x: plugrad.linalg.eigvalsh(x @ x.T + 1) * 2  # noqa: E731 - of the host
    assert not is_one_program(eigen, x)
    assert_same_when_traced(eigen, x)
    assert_same_when_traced(lambda x: plugrad.sort(x * 2) + 1, x)
    expression = elementwise("(f32.mul (local.get $x) (f32.const 2))")
    with plugrad.override_kernel("Exp", "wasm", expression):
        assert_same_when_traced(lambda x: plugrad.exp(x + 1) + 1, x)


def test_strings_and_bools():
    words, flags = plugrad.asarray(["a", "b"]), plugrad.asarray([True, False])
    assert_same_when_traced(
        lambda words, x: (words, plugrad.any(x), x & ~x, words == words), words, flags
    )


def test_loops_and_choices_run_programs():
    xs = random_wasm_tensor(7, 5)

    def f(xs):
        last, ys = plugrad.scan(lambda c, x: (plugrad.tanh(c + x) * 2, c * x), xs[0] * 0, xs)
        return last, ys, plugrad.cond(last[0] > 0, lambda y: y + 1, lambda y: y * 2, last)

    assert_same_when_traced(f, xs)
    assert_same_when_traced(plugrad.grads(lambda xs: plugrad.sum(f(xs)[0])), xs)


def test_overrides_take_effect_in_compiled_functions():
    x = random_wasm_tensor(3)
    f = plugrad.jit(lambda x: plugrad.relu(x) + 1)
    expected = f(x).numpy()
    with plugrad.override_kernel("Relu", "wasm", lambda x: x):
        np.testing.assert_array_equal(f(x).numpy(), (x + 1).numpy())
    np.testing.assert_array_equal(f(x).numpy(), expected)


def test_an_error_of_a_kernel_is_that_of_an_untraced_call():
    x = random_wasm_tensor(3, dtype="float64").astype("complex64")
    f = lambda x: plugrad.sqrt(x) + plugrad.tan(x)  # noqa: E731
    try:
        f(x)
    except plugrad.errors.PlugradError as failure:
        with pytest.raises(type(failure)):
            plugrad.jit(f)(x)


# --- memory, threads, interrupts -------------------------------------------------------------------


def test_memory_is_planned_counted_and_limited():
    x = random_wasm_tensor(100_000)

    def f(x):
        for _ in range(10):
            x = plugrad.cumulative_sum(x)
        return x

    run = plugrad.jit(f)
    memory = open_backend("wasm").memory
    y = run(x)
    before = memory().bytes
    z = run(x)
    assert memory().bytes - before == pytest.approx(400_000, rel=0.13)
    expected = z.numpy().tobytes()
    del y, z
    used = memory().bytes
    try:
        plugrad.set_memory_limit(used + 500_000)
        with pytest.raises(OutOfMemory, match="limit"):
            run(x)
        plugrad.set_memory_limit(used + 950_000)  # for two arrays, not for a third one
        assert run(x).numpy().tobytes() == expected
    finally:
        plugrad.set_memory_limit(None)
    assert run(x).numpy().tobytes() == f(x).numpy().tobytes() == expected
    assert memory().bytes == used


def test_several_threads_run_one_program():
    f = plugrad.jit(lambda x: plugrad.exp(x) * 2 + plugrad.sum(x))
    xs = [random_wasm_tensor(size, seed=size) for size in (20_000, 20_001, 100_000, 700_000)]
    expected = [f(x).numpy() for x in xs]
    wrong = []

    def work(x, y):
        for _ in range(30):
            if f(x).numpy().tobytes() != y.tobytes():
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(xs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("threads", [1, 3])
def test_work_that_threads_share(threads, monkeypatch):
    store = open_backend("wasm").linear_memory.store
    monkeypatch.setattr(store, "threads", threads)
    monkeypatch.setattr(store.run_in_threads.__self__, "threads", threads)
    x, w = random_wasm_tensor(2000, 400), random_wasm_tensor(2000)
    assert_same_when_traced(
        lambda x, w: (plugrad.sum(plugrad.exp(x) * 2, axis=1) @ w, x + x, x.T @ x), x, w
    )


class AlarmRaised(Exception):
    pass


class AlarmHandler:
    """A handler of alarms that raises, and records whether an alarm has come."""

    def __init__(self):
        self.has_rung = False

    def set_timer(self, seconds):
        """Set the alarm to come after some seconds."""
        self.has_rung = False
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def __call__(self, number, frame):
        self.has_rung = True
        raise AlarmRaised


@pytest.fixture
def alarm():
    gc.collect()  # Python drops what is raised while it collects what other tests have left
    made = AlarmHandler()
    old = signal.signal(signal.SIGALRM, made)
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def test_200_interrupts_of_a_training_loop_lose_no_step(alarm):
    w = plugrad.Variable(np.zeros(3000, "f4"), name="w")
    optimizer = plugrad.optimizers.SGD(1.0)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(w * 1), [w]))
    step()
    memory = open_backend("wasm").memory
    before = memory().buffers

    def train(pause):
        alarm.set_timer(pause)
        while not alarm.has_rung:
            step()

    for pause in np.random.default_rng(0).uniform(1e-4, 2e-3, 200):
        with pytest.raises(AlarmRaised):  # else what the alarm raised has been dropped
            train(pause)
        assert (w.numpy() == -optimizer.iterations).all()
    assert memory().buffers == before


def test_exception_of_a_signal_handler_leaves_a_recording(alarm, monkeypatch):
    monkeypatch.setattr(
        programs, "run_on_stand_ins", lambda *_: signal.raise_signal(signal.SIGALRM)
    )
    with pytest.raises(AlarmRaised):
        plugrad.jit(lambda x: x + 1)(random_wasm_tensor(1000))


def test_an_interrupt_ends_a_long_program(alarm):
    x = random_wasm_tensor(1000, 1000)
    run = plugrad.jit(lambda x: x @ x @ x @ x @ x @ x @ x @ x)
    alarm.set_timer(0.05)
    with pytest.raises(AlarmRaised):
        run(x)
