"""Recorded graphs: what is recorded, and that calls hold what untraced ones do."""

import gc
from functools import partial
from itertools import count
from threading import Thread

import numpy as np
import pytest

import plugrad
from plugrad.errors import OutOfMemory
from plugrad.extend import host_value
from plugrad_webgpu import from_buffer, to_buffer
from plugrad_webgpu.device import bindings
from plugrad_webgpu.driver import native
from plugrad_webgpu.recording import segment
from plugrad_webgpu.recording.graphs import HostSteps
from plugrad_webgpu.recording.segment import Segment

pytestmark = pytest.mark.usefixtures("run", "webgpu")  # which skip where there is no device


@pytest.fixture
def device():
    return plugrad.zeros(1).backend.active_device


@pytest.fixture
def x(rng):
    return plugrad.asarray(rng.standard_normal((16, 24)).astype("float32"))


def parts(jitted):
    """Return the parts of a recording, of which there is one."""
    ((program, *_),) = jitted._programs.values()
    return [part for part, _ in program.run.compiled.parts]


def bits(result):
    return [y.numpy().tobytes() for y in result]


def network(x):
    """Elementwise calls before and after others, with two results of one group, and a view."""
    y = plugrad.tanh(x @ x.T + 1)
    z = plugrad.softmax(y * 2 - plugrad.mean(y, axis=1, keepdims=True))
    return plugrad.exp(z) + y, z, z.T.reshape(-1), plugrad.sum(y, axis=0)


def test_a_program_is_one_segment_and_fuses_elementwise_calls(x):
    jitted = plugrad.jit(network)
    for _ in range(3):
        assert bits(jitted(x)) == bits(network(x))
    (part,) = parts(jitted)
    assert type(part) is Segment
    labels = [each.plan.program.label for each in part.work]
    assert any("tanh_accurate" in label and "; " in label for label in labels)


def test_what_the_host_computes_splits_a_recording(x):
    def f(x):
        y = x @ x.T + plugrad.eye(16) * 50
        return plugrad.linalg.inv(y * 2), plugrad.sort(y + 1)[0] * 2

    jitted = plugrad.jit(f)
    for _ in range(2):
        assert bits(jitted(x)) == bits(f(x))
    assert {type(part) for part in parts(jitted)} == {Segment, HostSteps}


def test_strings_stay_on_the_host():
    names = plugrad.asarray(["a", "bc", "a"])
    found = plugrad.jit(lambda s, x: (plugrad.equal(s, "a"), x + 1))(names, plugrad.ones(3))
    assert [y.tolist() for y in found] == [[True, False, True], [2, 2, 2]]


def test_results_that_are_inputs_constants_or_views(x):
    table = plugrad.arange(4)
    f = plugrad.jit(lambda x: (x, x.reshape(-1), table, table.reshape(2, 2), x[:0] + 1))
    for _ in range(2):
        same, flat, constant, square, empty = f(x)
    assert bits([same, flat]) == bits([x, x])
    assert (constant.tolist(), square.tolist(), empty.shape) == (
        [0, 1, 2, 3],
        [[0, 1], [2, 3]],
        (0, 24),
    )


def test_host_values_of_many_calls_in_one_batch(monkeypatch):
    numbers = count(1)

    def draw():
        return host_value(lambda: [next(numbers), 0.5], shape=(2,), dtype="float32")

    f = plugrad.jit(lambda x: (x + draw(), draw() * 2))
    x = plugrad.zeros(2)
    found = [f(x) for _ in range(3 * segment.HOST_VALUE_BUFFERS)]
    for i, (a, b) in enumerate(found):
        assert (a.tolist(), b.tolist()) == ([2 * i + 1, 0.5], [4 * i + 4, 1])


def test_host_values_lie_in_one_buffer_and_are_written_at_once(monkeypatch):
    numbers = [partial(int, n) for n in range(5)]
    f = plugrad.jit(lambda x: [x + host_value(number, dtype="float32") for number in numbers])
    x = plugrad.zeros((2, 3))
    f(x)
    device, sizes = x.backend.active_device, []
    monkeypatch.setattr(device, "write", lambda _, words, size: sizes.append((words.sum(), size)))
    f(x)
    assert len(sizes) == 1
    monkeypatch.undo()
    assert [y.tolist() for y in f(x)] == [[[n] * 3] * 2 for n in range(5)]


def test_commands_are_kept_for_many_arrays_of_one_size(rng):
    """The buffers of old values become free in any order, and are taken in that of their numbers."""
    weights = [plugrad.Variable(rng.standard_normal((8, 8)).astype("float32")) for _ in range(7)]
    optimizer = plugrad.optimizers.Adam(0.1)

    @plugrad.jit
    def step():
        return optimizer.minimize(lambda: sum(plugrad.sum(w * w) for w in weights), weights)

    for _ in range(2 * segment.HOST_VALUE_BUFFERS):
        step()
    (part,) = parts(step)
    known = {*part._commands}
    for _ in range(2 * segment.HOST_VALUE_BUFFERS):
        step()
    assert {*part._commands} == known


def test_a_host_value_that_is_a_result_or_goes_to_the_host():
    numbers = count(1)

    def f(x):
        first = host_value(lambda: next(numbers), dtype="float32")
        second = host_value(lambda: next(numbers), dtype="float32")
        return second, plugrad.sort(x + first)

    jitted = plugrad.jit(f)
    for i in (0, 2):
        second, y = jitted(plugrad.asarray([2.0, 1.0]))
        assert (second.item(), y.tolist()) == (2 + i, [2 + i, 3 + i])


def test_what_was_counted_is_taken_back_and_debug_repeats_it(x, monkeypatch):
    w = plugrad.Variable(np.ones((24, 24), "float32"))
    optimizer = plugrad.optimizers.Adam(0.1)

    @plugrad.jit
    def step(x):
        return optimizer.minimize(lambda: plugrad.mean(plugrad.square(x @ w)), [w])

    with plugrad.config.override("debug", True):
        step(x)
        step(x)
    step(x)
    assert optimizer.iterations == 3

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, "set_bind_group", fail)
        with pytest.raises(KeyboardInterrupt):
            step(x)
    assert optimizer.iterations == 3
    step(x)
    assert optimizer.iterations == 4


def test_memory_is_that_of_the_results(x, device):
    f = plugrad.jit(network)
    f(x)
    before, created = plugrad.memory().bytes, device.pool.usage.created
    y = f(x)
    held = plugrad.memory().bytes - before
    assert held == sum(max(256, 1 << (z.nbytes - 1).bit_length()) for z in y)
    del y
    assert plugrad.memory().bytes == before
    for _ in range(5):
        f(x)
    assert device.pool.usage.created == created


def settled_bytes(device):
    """Return the bytes in use on the device once nothing is left that would go while a limit stands."""
    gc.collect()
    plugrad.synchronize()
    device.pool.trim()
    return plugrad.memory().backends[plugrad.which().backend.label].bytes


def test_a_limit_raises_and_leaves_the_program_usable(x, device):
    f = plugrad.jit(network)
    expected = bits(f(x))
    (part,) = parts(f)
    held = settled_bytes(device)
    try:
        plugrad.set_memory_limit(held + part.passing_bytes // 2)
        with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
            f(x)
        plugrad.set_memory_limit(held + part.passing_bytes + (64 << 10))
        assert bits(f(x)) == expected
    finally:
        plugrad.set_memory_limit(None)
    assert bits(f(x)) == expected


def test_a_trim_between_calls(x, device):
    f = plugrad.jit(network)
    expected = bits(f(x))
    for _ in range(2):
        y = f(x)
        device.pool.trim()
        assert device.pool.usage.scratch == 0
        others = [plugrad.full((16, 16), i) * 2 for i in range(20)]  # in the buffers of before
        assert bits(f(x)) == bits(y) == expected
        assert [z.numpy().max() for z in others] == [2 * i for i in range(20)]


@pytest.mark.parametrize("most", [2, 10_000])
def test_programs_of_several_batches(x, device, monkeypatch, most):
    monkeypatch.setattr(bindings, "MAX_BIND_GROUPS", most)
    monkeypatch.setattr(device, "batch_limit", 3)
    f = plugrad.jit(network)
    expected = bits(network(x))
    for _ in range(3):
        assert bits(f(x)) == expected


def test_buffers_of_others_and_arrays_in_parts(x, device, monkeypatch):
    f = plugrad.jit(network)
    expected = bits(network(x))
    guest = from_buffer(to_buffer(x + 0), x.shape)
    for _ in range(2):
        assert bits(f(guest)) == expected
    monkeypatch.setattr(device, "part_bytes", 1024)
    monkeypatch.setattr(device, "_has_large", True)
    g = plugrad.jit(lambda x: (plugrad.exp(x) * 2, plugrad.sum(x * 2, axis=0)))
    assert bits(g(x)) == bits((plugrad.exp(x) * 2, plugrad.sum(x * 2, axis=0)))


def test_threads(x):
    f = plugrad.jit(network)
    inputs = [x * i for i in range(4)]
    expected = [bits(network(y)) for y in inputs]
    found = {}

    def work(i):
        with plugrad.use("webgpu"):
            found[i] = [bits(f(inputs[i])) for _ in range(5)]

    threads = [Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(4)] == [[each] * 5 for each in expected]


@pytest.mark.parametrize("function", ["set_pipeline", "set_bind_group", "dispatch_workgroups"])
def test_an_interrupt_changes_no_variable_and_no_later_call(x, monkeypatch, function):
    w = plugrad.Variable(np.ones(24, "float32"))

    @plugrad.jit
    def step(x):
        w.assign(w - 0.1 * plugrad.mean(x * w, axis=0))
        return plugrad.sum(w)

    step(x)
    before, transposed = w.numpy(), plugrad.matrix_transpose(x)
    call = getattr(native, function)

    def interrupted(*arguments):
        call(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, function, interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(x)
    np.testing.assert_array_equal(transposed, x.numpy().T)
    np.testing.assert_array_equal(w, before)
    total = step(x)
    np.testing.assert_allclose(w, before - 0.1 * (x.numpy() * before).mean(0), rtol=1e-5)
    np.testing.assert_allclose(total.item(), w.numpy().sum(), rtol=1e-5)


def test_profiles_see_the_calls_of_a_program(x):
    f = plugrad.jit(network)
    f(x)
    with plugrad.profile() as traced:
        expected = bits(f(x))
    with plugrad.profile() as untraced:
        network(x)
    calls = [{k.kernel: k.calls for k in measured.kernels} for measured in (traced, untraced)]
    assert calls[0] == calls[1]
    assert bits(f(x)) == expected


def test_loops_record_their_bodies(x):
    def f(x):
        last, rows = plugrad.scan(lambda c, row: (c * 0.5 + plugrad.exp(row), c - row), x[0], x)
        return last, plugrad.cond(plugrad.sum(last) > 0, lambda r: r * 2 + 1, lambda r: r, rows)

    jitted = plugrad.jit(f)
    for _ in range(2):
        assert bits(jitted(x)) == bits(f(x))


def test_overrides_hold_where_a_program_is_called(x):
    f = plugrad.jit(lambda x: plugrad.exp(x) + 1)
    expected = bits([f(x)])
    with plugrad.override_kernel("Exp", "webgpu", lambda x: x):
        assert bits([f(x)]) == bits([x + 1])
    assert bits([f(x)]) == expected


ENDINGS = {
    "bias and relu": (lambda x, w, b: plugrad.relu(x @ w + b), 1),
    "bias, on the left": (lambda x, w, b: b + x @ w, 1),
    "relu6 alone": (lambda x, w, _: plugrad.relu6(x @ w), 1),
    "a sum that is kept": (lambda x, w, b: [y := x @ w + b, plugrad.sigmoid(y)], 2),
    "a product that is kept": (lambda x, w, b: [y := x @ w, plugrad.relu(y + b)], 1),
    "a bias of rows": (lambda x, w, _: plugrad.relu(x @ w + x[:, :1]), 2),
    "a convolution": (
        lambda x, w, b: plugrad.relu(
            plugrad.conv2d(x.reshape(2, 8, 4, 6), w[:6].reshape(1, 1, 6, 40)) + b
        ),
        2,  # the rows of w are copied
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_products_take_in_what_follows_them(x, rng, name):
    function, dispatches = ENDINGS[name]
    w, b = (plugrad.asarray(rng.standard_normal(n).astype("float32")) for n in ((24, 40), 40))
    jitted = plugrad.jit(function)
    found, expected = jitted(x, w, b), function(x, w, b)
    for y, z in zip(*(r if isinstance(r, list) else [r] for r in (found, expected)), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6, atol=1e-6)
    (part,) = parts(jitted)
    assert len(part.work) == dispatches


@pytest.mark.parametrize("kernel", ["BatchMatMul", "Add", "Relu", "_FusedMatMul"])
def test_kernels_that_are_replaced_are_not_joined(x, kernel):
    def replaced(*arrays, **attrs):
        calls.append(kernel)
        return own(*arrays, **attrs)

    calls = []
    own = plugrad.get_kernel(kernel, "webgpu").kernel_func
    with plugrad.override_kernel(kernel, "webgpu", replaced):
        y = plugrad.jit(lambda x, w, b: plugrad.relu(x @ w + b))(x, x.T, x[:, 0])
    np.testing.assert_allclose(
        y, np.maximum(x.numpy() @ x.numpy().T + x.numpy()[:, 0], 0), atol=1e-4
    )
    assert bool(calls) is (kernel != "_FusedMatMul")


def test_wgpu_py_alone(x, monkeypatch):
    values, expected = x.numpy(), bits(network(x))
    plugrad.close_backend(x.backend)
    monkeypatch.setattr("plugrad_webgpu.device.adapters.SUPPORTED_WGPU_VERSION", (0, 0))
    with plugrad.use("webgpu"):
        x = plugrad.asarray(values)
        assert x.backend.active_device._driver is not native
        f = plugrad.jit(network)
        found = [bits(f(x)) for _ in range(2)]
        plugrad.close_backend(x.backend)
    assert found == [expected] * 2
