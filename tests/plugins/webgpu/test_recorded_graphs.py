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
def active_device():
    return plugrad.zeros(1).backend.active_device


@pytest.fixture
def random_matrix(rng):
    return plugrad.asarray(rng.standard_normal((16, 24)).astype("float32"))


def recording_parts(jitted):
    """Return the parts of a function's only recording."""
    ((program, *_),) = jitted._programs.values()
    return [part for part, _ in program.run.compiled.parts]


def result_bytes(result):
    return [y.numpy().tobytes() for y in result]


def function_with_groups(x):
    """Return a function of elementwise calls before and after others, with two results of one group and a view."""
    y = plugrad.tanh(x @ x.T + 1)
    z = plugrad.softmax(y * 2 - plugrad.mean(y, axis=1, keepdims=True))
    return plugrad.exp(z) + y, z, z.T.reshape(-1), plugrad.sum(y, axis=0)


def test_a_program_is_one_segment_and_fuses_elementwise_calls(random_matrix):
    jitted = plugrad.jit(function_with_groups)
    for _ in range(3):
        assert result_bytes(jitted(random_matrix)) == result_bytes(
            function_with_groups(random_matrix)
        )
    (part,) = recording_parts(jitted)
    assert type(part) is Segment
    labels = [each.plan.program.label for each in part.work]
    assert any("tanh_accurate" in label and "; " in label for label in labels)


def test_host_steps_split_a_recording(random_matrix):
    def f(x):
        y = x @ x.T + plugrad.eye(16) * 50
        return plugrad.linalg.inv(y * 2), plugrad.sort(y + 1)[0] * 2

    jitted = plugrad.jit(f)
    for _ in range(2):
        assert result_bytes(jitted(random_matrix)) == result_bytes(f(random_matrix))
    assert {type(part) for part in recording_parts(jitted)} == {Segment, HostSteps}


def test_strings_stay_on_the_host():
    names = plugrad.asarray(["a", "bc", "a"])
    found = plugrad.jit(lambda s, x: (plugrad.equal(s, "a"), x + 1))(names, plugrad.ones(3))
    assert [y.tolist() for y in found] == [[True, False, True], [2, 2, 2]]


def test_results_that_are_inputs_constants_or_views(random_matrix):
    table = plugrad.arange(4)
    f = plugrad.jit(lambda x: (x, x.reshape(-1), table, table.reshape(2, 2), x[:0] + 1))
    for _ in range(2):
        same, flat, constant, square, empty = f(random_matrix)
    assert result_bytes([same, flat]) == result_bytes([random_matrix, random_matrix])
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
    found = [f(x) for _ in range(3 * segment.HOST_VALUE_BUFFER_COUNT)]
    for i, (a, b) in enumerate(found):
        assert (a.tolist(), b.tolist()) == ([2 * i + 1, 0.5], [4 * i + 4, 1])


@pytest.fixture
def write_sizes(active_device, monkeypatch):
    """A list that receives the size in bytes of each write to a buffer."""
    sizes, write = [], active_device.write

    def noted(storage, words, size):
        sizes.append(size)
        write(storage, words, size)

    monkeypatch.setattr(active_device, "write", noted)
    return sizes


def test_host_values_are_written_at_once_and_only_if_one_has_changed(write_sizes):
    numbers = [0, -0.0, float("nan"), 3, 4]
    f = plugrad.jit(
        lambda x: [x + host_value(partial(numbers.__getitem__, i)) for i in range(len(numbers))]
    )
    x = plugrad.zeros((2, 3))
    for last in (4, 4, 5, 5, 4):
        numbers[-1] = last
        found = np.stack([y.numpy() for y in f(x)])
        np.testing.assert_array_equal(found, np.float32(numbers)[:, None, None] + np.zeros((2, 3)))
    assert len(write_sizes) == 3
    numbers[0] = -0.0  # which is equal to 0, and another value
    f(x)
    assert len(write_sizes) == 4


def test_host_values_whose_writing_failed_are_written_by_the_next_call(active_device, monkeypatch):
    value = 1.0
    f = plugrad.jit(lambda x: x + host_value(lambda: value))
    x = plugrad.zeros(2)
    f(x)

    def fail(*_):
        raise KeyboardInterrupt

    value = 2.0
    with monkeypatch.context() as patch:
        patch.setattr(active_device, "write", fail)
        with pytest.raises(KeyboardInterrupt):
            f(x)
    assert f(x).tolist() == [2, 2]


def test_host_values_have_one_buffer_while_each_batch_has_one_call(active_device):
    numbers = count(1)
    f = plugrad.jit(lambda x: x @ x + host_value(lambda: next(numbers)))
    x = plugrad.zeros((8, 8))
    for i in range(1, 6):
        y = f(x)
        assert y.tolist() == np.full((8, 8), i).tolist()
        del y
    (part,) = recording_parts(f)
    assert len(part._commands) == 1


def test_commands_are_kept_for_many_arrays_of_one_size(rng):
    """The buffers of old values become free in any order, and are taken in that of their numbers."""
    weights = [plugrad.Variable(rng.standard_normal((8, 8)).astype("float32")) for _ in range(7)]
    optimizer = plugrad.optimizers.Adam(0.1)

    @plugrad.jit
    def step():
        return optimizer.minimize(lambda: sum(plugrad.sum(w * w) for w in weights), weights)

    for _ in range(2 * segment.HOST_VALUE_BUFFER_COUNT):
        step()
    (part,) = recording_parts(step)
    known = {*part._commands}
    for _ in range(2 * segment.HOST_VALUE_BUFFER_COUNT):
        step()
    assert {*part._commands} == known


def test_long_parameters_are_kept_once_for_all_arrays(rng):
    reverse = plugrad.jit(lambda x: plugrad.permute_dims(x, range(12, -1, -1)))
    arrays = [plugrad.asarray(rng.random((2,) * 13, "float32")) for _ in range(3)]
    for x in arrays:
        np.testing.assert_array_equal(reverse(x).numpy(), x.numpy().T)
    (part,) = recording_parts(reverse)
    assert len(part._commands) == 3
    assert len(part._tables) == 1


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


def test_failed_calls_undo_counted_steps_and_debug_repeats_them(random_matrix, monkeypatch):
    w = plugrad.Variable(np.ones((24, 24), "float32"))
    optimizer = plugrad.optimizers.Adam(0.1)

    @plugrad.jit
    def step(x):
        return optimizer.minimize(lambda: plugrad.mean(plugrad.square(x @ w)), [w])

    with plugrad.config.override("debug", True):
        step(random_matrix)
        step(random_matrix)
    step(random_matrix)
    assert optimizer.iterations == 3

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, "set_bind_group", fail)
        with pytest.raises(KeyboardInterrupt):
            step(random_matrix)
    assert optimizer.iterations == 3
    step(random_matrix)
    assert optimizer.iterations == 4


def test_memory_is_that_of_the_results(random_matrix, active_device):
    f = plugrad.jit(function_with_groups)
    f(random_matrix)
    before, created = plugrad.memory().bytes, active_device.pool.usage.created_buffers
    y = f(random_matrix)
    held = plugrad.memory().bytes - before
    assert held == sum(max(256, 1 << (z.nbytes - 1).bit_length()) for z in y)
    del y
    assert plugrad.memory().bytes == before
    for _ in range(5):
        f(random_matrix)
    assert active_device.pool.usage.created_buffers == created


def bytes_in_use(device):
    """Return the bytes in use on the device after pending releases."""
    gc.collect()
    plugrad.synchronize()
    device.pool.trim()
    return plugrad.memory().backends[plugrad.which().backend.label].bytes


def test_a_limit_raises_and_leaves_the_program_usable(random_matrix, active_device):
    f = plugrad.jit(function_with_groups)
    expected = result_bytes(f(random_matrix))
    (part,) = recording_parts(f)
    held = bytes_in_use(active_device)
    try:
        plugrad.set_memory_limit(held + part.passing_bytes // 2)
        with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
            f(random_matrix)
        plugrad.set_memory_limit(held + part.passing_bytes + (64 << 10))
        assert result_bytes(f(random_matrix)) == expected
    finally:
        plugrad.set_memory_limit(None)
    assert result_bytes(f(random_matrix)) == expected


def test_a_trim_between_calls(random_matrix, active_device):
    f = plugrad.jit(function_with_groups)
    expected = result_bytes(f(random_matrix))
    for _ in range(2):
        y = f(random_matrix)
        active_device.pool.trim()
        assert active_device.pool.usage.scratch == 0
        others = [plugrad.full((16, 16), i) * 2 for i in range(20)]  # in the buffers of before
        assert result_bytes(f(random_matrix)) == result_bytes(y) == expected
        assert [z.numpy().max() for z in others] == [2 * i for i in range(20)]


@pytest.mark.parametrize("most", [2, 10_000])
def test_programs_of_several_batches(random_matrix, active_device, monkeypatch, most):
    monkeypatch.setattr(bindings, "MAX_BIND_GROUPS", most)
    monkeypatch.setattr(active_device, "batch_limit", 3)
    f = plugrad.jit(function_with_groups)
    expected = result_bytes(function_with_groups(random_matrix))
    for _ in range(3):
        assert result_bytes(f(random_matrix)) == expected


def test_buffers_of_others_and_arrays_in_parts(random_matrix, active_device, monkeypatch):
    f = plugrad.jit(function_with_groups)
    expected = result_bytes(function_with_groups(random_matrix))
    guest = from_buffer(to_buffer(random_matrix + 0), random_matrix.shape)
    for _ in range(2):
        assert result_bytes(f(guest)) == expected
    monkeypatch.setattr(active_device, "part_bytes", 1024)
    monkeypatch.setattr(active_device, "_has_large", True)
    g = plugrad.jit(lambda x: (plugrad.exp(x) * 2, plugrad.sum(x * 2, axis=0)))
    assert result_bytes(g(random_matrix)) == result_bytes(
        (plugrad.exp(random_matrix) * 2, plugrad.sum(random_matrix * 2, axis=0))
    )


def test_recorded_graphs_run_in_several_threads(random_matrix):
    f = plugrad.jit(function_with_groups)
    inputs = [random_matrix * i for i in range(4)]
    expected = [result_bytes(function_with_groups(y)) for y in inputs]
    found = {}

    def work(i):
        with plugrad.use("webgpu"):
            found[i] = [result_bytes(f(inputs[i])) for _ in range(5)]

    threads = [Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(4)] == [[each] * 5 for each in expected]


@pytest.mark.parametrize("function", ["set_pipeline", "set_bind_group", "dispatch_workgroups"])
def test_an_interrupt_changes_no_variable_and_no_later_call(random_matrix, monkeypatch, function):
    w = plugrad.Variable(np.ones(24, "float32"))

    @plugrad.jit
    def step(x):
        w.assign(w - 0.1 * plugrad.mean(x * w, axis=0))
        return plugrad.sum(w)

    step(random_matrix)
    before, transposed = w.numpy(), plugrad.matrix_transpose(random_matrix)
    call = getattr(native, function)

    def interrupted(*arguments):
        call(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, function, interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(random_matrix)
    np.testing.assert_array_equal(transposed, random_matrix.numpy().T)
    np.testing.assert_array_equal(w, before)
    total = step(random_matrix)
    np.testing.assert_allclose(
        w, before - 0.1 * (random_matrix.numpy() * before).mean(0), rtol=1e-5
    )
    np.testing.assert_allclose(total.item(), w.numpy().sum(), rtol=1e-5)


def test_profiles_see_the_calls_of_a_program(random_matrix):
    f = plugrad.jit(function_with_groups)
    f(random_matrix)
    with plugrad.profile() as traced:
        expected = result_bytes(f(random_matrix))
    with plugrad.profile() as untraced:
        function_with_groups(random_matrix)
    calls = [{k.kernel: k.calls for k in measured.kernels} for measured in (traced, untraced)]
    assert calls[0] == calls[1]
    assert result_bytes(f(random_matrix)) == expected


def test_loops_record_their_bodies(random_matrix):
    def f(x):
        last, rows = plugrad.scan(lambda c, row: (c * 0.5 + plugrad.exp(row), c - row), x[0], x)
        return last, plugrad.cond(plugrad.sum(last) > 0, lambda r: r * 2 + 1, lambda r: r, rows)

    jitted = plugrad.jit(f)
    for _ in range(2):
        assert result_bytes(jitted(random_matrix)) == result_bytes(f(random_matrix))


def test_overrides_hold_where_a_program_is_called(random_matrix):
    f = plugrad.jit(lambda x: plugrad.exp(x) + 1)
    expected = result_bytes([f(random_matrix)])
    with plugrad.override_kernel("Exp", "webgpu", lambda x: x):
        assert result_bytes([f(random_matrix)]) == result_bytes([random_matrix + 1])
    assert result_bytes([f(random_matrix)]) == expected


MATMUL_EPILOGUES = {
    "bias and relu": (lambda x, w, b: plugrad.relu(x @ w + b), 1),
    "bias, on the left": (lambda x, w, b: b + x @ w, 1),
    "relu6 alone": (lambda x, w, _: plugrad.relu6(x @ w), 1),
    "a sum that is kept": (lambda x, w, b: [y := x @ w + b, plugrad.sigmoid(y)], 1),
    "a sum before heavy calls": (
        lambda x, w, b: [y := x @ w + b, plugrad.sigmoid(y) * plugrad.tanh(plugrad.log1p(y * y))],
        2,
    ),
    "a product that is kept": (lambda x, w, b: [y := x @ w, plugrad.relu(y + b)], 1),
    "a bias of rows": (lambda x, w, _: plugrad.relu(x @ w + x[:, :1]), 2),
    "a convolution": (
        lambda x, w, b: plugrad.relu(
            plugrad.conv2d(x.reshape(2, 8, 4, 6), w[:6].reshape(1, 1, 6, 40)) + b
        ),
        2,  # the rows of w are copied
    ),
}


@pytest.mark.parametrize("name", MATMUL_EPILOGUES)
def test_products_absorb_a_following_bias_and_activation(random_matrix, rng, active_device, name):
    function, dispatches = MATMUL_EPILOGUES[name]
    if name == "a sum before heavy calls" and not active_device.is_software:
        dispatches = 1  # the tiles of GPUs store in fewer places, so these may follow
    w, b = (plugrad.asarray(rng.standard_normal(n).astype("float32")) for n in ((24, 40), 40))
    jitted = plugrad.jit(function)
    found, expected = jitted(random_matrix, w, b), function(random_matrix, w, b)
    for y, z in zip(*(r if isinstance(r, list) else [r] for r in (found, expected)), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6, atol=1e-6)
    (part,) = recording_parts(jitted)
    assert len(part.work) == dispatches


@pytest.mark.parametrize("kernel", ["BatchMatMul", "Add", "Relu", "_FusedMatMul"])
def test_kernels_that_are_replaced_are_not_joined(random_matrix, kernel):
    def replaced(*arrays, **attrs):
        calls.append(kernel)
        return own(*arrays, **attrs)

    calls = []
    own = plugrad.get_kernel(kernel, "webgpu").kernel_func
    with plugrad.override_kernel(kernel, "webgpu", replaced):
        y = plugrad.jit(lambda x, w, b: plugrad.relu(x @ w + b))(
            random_matrix, random_matrix.T, random_matrix[:, 0]
        )
    np.testing.assert_allclose(
        y,
        np.maximum(
            random_matrix.numpy() @ random_matrix.numpy().T + random_matrix.numpy()[:, 0], 0
        ),
        atol=1e-4,
    )
    assert bool(calls) is (kernel != "_FusedMatMul")


def test_recorded_graphs_use_only_public_parts_of_wgpu_py(random_matrix, monkeypatch):
    values, expected = random_matrix.numpy(), result_bytes(function_with_groups(random_matrix))
    plugrad.close_backend(random_matrix.backend)
    monkeypatch.setattr("plugrad_webgpu.device.adapters.SUPPORTED_WGPU_VERSION", (0, 0))
    with plugrad.use("webgpu"):
        random_matrix = plugrad.asarray(values)
        assert random_matrix.backend.active_device._driver is not native
        f = plugrad.jit(function_with_groups)
        found = [result_bytes(f(random_matrix)) for _ in range(2)]
        plugrad.close_backend(random_matrix.backend)
    assert found == [expected] * 2
