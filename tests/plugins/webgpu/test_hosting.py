"""Small arrays are computed on the host without work for the device, and with the same results.

The other tests run with `webgpu.host_elements` at 0, where every array is on the device.
"""

import asyncio
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import plugrad
from plugins.webgpu.bits import assert_same_bits
from plugrad.errors import BackendUnavailable, OutOfMemory
from plugrad.kernels import binary, movement, unary
from plugrad_webgpu import elementwise, from_buffer, to_buffer
from plugrad_webgpu.driver import native
from plugrad_webgpu.memory.buffers import HostBuffer
from plugrad_webgpu.shaders.elements import SHADER_DTYPES as OF_WEBGPU


@pytest.fixture
def recorded_device_work(small_array_device, monkeypatch):
    """A list to which each dispatch, upload and submission adds its name."""
    done = []

    def count(owner, name):
        call = getattr(owner, name)

        def counted(*arguments):
            done.append(name)
            return call(*arguments)

        monkeypatch.setattr(owner, name, counted)

    count(native, "dispatch_workgroups")
    for name in ("write", "submit", "submit_readback"):
        count(native.NativeDevice, name)
    return done


@pytest.fixture(autouse=True)
def poisoned_buffers():
    """Nothing else is written to buffers than what the tests count."""


def is_hosted(array):
    return isinstance(array.buffer, HostBuffer)


def test_copies_that_kernels_write_to_are_on_the_device(run, host_small_arrays):
    x = np.arange(6, dtype=np.float32)
    p = run.to_device(x)
    updated = run.call(
        movement.strided_slice_update,
        p,
        run.to_device(x[:2] - 9),
        begin=(1,),
        end=(3,),
        strides=(1,),
    )
    np.testing.assert_array_equal(run.to_host(updated), [0, -9, -8, 3, 4, 5])
    padded = run.call(movement.pad, p, paddings=((1, 2),), constant_value=7)
    np.testing.assert_array_equal(run.to_host(padded), [7, *x, 7, 7])
    np.testing.assert_array_equal(run.to_host(p), x)


# --- where arrays are


def test_small_arrays_are_computed_without_the_device(recorded_device_work):
    x, y = plugrad.asarray(np.float32([1, 2, 3, 4])), plugrad.asarray([0.5, 0.25, 2.0, -1.0])
    total = x
    for _ in range(100):
        total = plugrad.maximum(total + y * 2, -x)
    chosen = plugrad.where(total > 3, total, plugrad.zeros(4)).reshape(2, 2)
    whole = (chosen[0] + plugrad.ones(2)).astype("int32") // 3
    numbers = plugrad.concat([whole, plugrad.arange(2)])
    assert numbers.shape == (4,)
    numbers.numpy(), total.numpy(), asyncio.run(total.numpy_async())
    assert float(plugrad.asarray(2.5) * 2) == 5
    assert not recorded_device_work


def test_reading_gives_a_copy(small_array_device):
    x = np.float32([1, 2, 3])
    p = plugrad.asarray(x)
    x[0] = 9
    first = p.numpy()
    first.flags.writeable = True
    first[:] = 0
    np.testing.assert_array_equal(p.numpy(), [1, 2, 3])
    np.testing.assert_array_equal((p + 0).numpy(), [1, 2, 3])


def test_reading_several_arrays_at_once_leaves_them_where_they_are(
    small_array_device, recorded_device_work
):
    small, large = np.arange(3, dtype=np.float32), np.arange(5000, dtype=np.float32)
    tensors = [plugrad.asarray(x) for x in (small, large, -small)]
    recorded_device_work.clear()
    parts = [x.copy() for x in tensors[0].backend.read([x.array for x in tensors])]
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate([small, large, -small]))
    assert recorded_device_work.count("write") == 0
    assert [is_hosted(x.array) for x in tensors] == [True, False, True]


def test_read_back_records_pending_calls_of_its_thread(recorded_device_work):
    """Reading values ends a chain; otherwise a loop could build another chain in each iteration."""
    large, small = plugrad.zeros(5000), plugrad.ones(3)
    (large + 1).numpy()
    waiting = large + 1
    recorded_device_work.clear()
    small.numpy()
    assert recorded_device_work == ["dispatch_workgroups"]
    np.testing.assert_array_equal(waiting.numpy()[:2], 1)


def test_the_first_use_by_another_kernel_uploads_the_values_once(recorded_device_work):
    x = plugrad.asarray(np.float32([1, 2, 3, 4])) * 2
    assert not recorded_device_work
    np.testing.assert_allclose(plugrad.exp(x).numpy(), np.exp(np.float32([2, 4, 6, 8])), rtol=1e-6)
    assert recorded_device_work.count("write") == 1
    np.testing.assert_allclose(plugrad.sum(x).numpy(), 20)
    assert recorded_device_work.count("write") == 1
    recorded_device_work.clear()
    np.testing.assert_array_equal(
        (x + x).numpy(), [4, 8, 12, 16]
    )  # the values are on the host, too
    assert not recorded_device_work


@pytest.mark.parametrize("dtype", sorted(OF_WEBGPU, key=str))
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (0, 2)], ids=str)
def test_every_dtype_arrives_on_the_device(run, host_small_arrays, rng, dtype, shape):
    x = (rng.standard_normal(shape) * 3).astype(dtype)
    p = run.to_device(x)
    assert is_hosted(p)
    on_device = run.call(movement.pad, p, paddings=((0, 0),) * x.ndim, constant_value=0)
    assert_same_bits(run.to_host(on_device), x)


def test_host_and_device_arrays_can_be_mixed(small_array_device, recorded_device_work):
    x = np.float32([[1, 2], [3, 4]])
    p = plugrad.asarray(x)
    q = p @ p  # on the device
    for _ in range(3):
        y = (p * 2 + q) * (p - 1) - q[0]
        np.testing.assert_array_equal(y.numpy(), (x * 2 + x @ x) * (x - 1) - (x @ x)[0])
    assert recorded_device_work


def test_results_that_are_large_are_on_the_device(small_array_device):
    x = np.arange(100, dtype=np.float32)
    rows, columns = plugrad.asarray(x[None]), plugrad.asarray(x[:, None])
    assert is_hosted(rows.array)
    table = rows * columns
    assert not is_hosted(table.array)
    np.testing.assert_array_equal(table.numpy(), x[None] * x[:, None])
    wide = plugrad.broadcast_to(rows, (50, 100))
    assert not is_hosted(wide.array)
    np.testing.assert_array_equal(wide.numpy(), np.tile(x, (50, 1)))
    assert not is_hosted(plugrad.concat([plugrad.zeros(600), plugrad.ones(600)]).array)
    assert is_hosted(plugrad.zeros(1000).array)
    assert not is_hosted(plugrad.zeros(1001).array)


def test_kernels_without_a_body_compute_on_the_device(small_array_device):
    x = plugrad.asarray([1.0, 4.0])
    for y in (plugrad.sqrt(x), x / 3, plugrad.exp(x), plugrad.sum(x), plugrad.asarray([1j]) * 2):
        assert not is_hosted(y.array)
    custom = elementwise("x + 1.0")
    assert not is_hosted(custom(x.array))


def test_views_under_another_dtype(small_array_device):
    z = plugrad.asarray(np.complex64([1 + 2j, 3 - 4j]))
    np.testing.assert_array_equal(plugrad.real(z).numpy(), [1, 3])
    np.testing.assert_array_equal(plugrad.imag(plugrad.conj(z)).numpy(), [-2, 4])
    half = plugrad.asarray(np.float16([1.5, 9]))  # which shaders pack
    assert not is_hosted(half.array)
    np.testing.assert_array_equal((half.astype("float32") * 2).numpy(), [3, 18])
    np.testing.assert_allclose(plugrad.exp(half).numpy(), np.exp(half.numpy()), rtol=1e-3)


# --- programs


def train_linear_model(steps):
    x = plugrad.asarray(np.random.default_rng(2).standard_normal((20, 3)).astype("float32"))
    target = plugrad.asarray(np.float32([[1], [-2], [0.5]]))
    w, b = plugrad.Variable(plugrad.zeros((3, 1))), plugrad.Variable(plugrad.zeros(1))
    optimizer = plugrad.optimizers.Adam(0.05)

    def loss():
        error = plugrad.relu(x @ w + b) - plugrad.relu(x @ target)
        return plugrad.mean(error * error)

    losses = [optimizer.minimize(loss, [w, b]) for _ in range(steps)]
    return [value.numpy() for value in (*losses, w, b)]


def bouncing_ball(steps):
    """Simulate a bouncing ball with small vectors."""
    state = plugrad.asarray(np.float32([1.0, 0.0]))
    for _ in range(steps):
        position, speed = state[0], state[1]
        speed = speed - 0.125
        position = position + speed * 0.125
        is_below = position < 0
        speed = plugrad.where(is_below, -speed * 0.75, speed)
        state = plugrad.stack([plugrad.maximum(position, 0.0), speed])
    return [state.numpy()]


def derivatives_up_to_order(order):
    x = plugrad.asarray(np.float32([0.5, -1.5, 2.0]))

    def f(t):
        return plugrad.sum(plugrad.abs(t) * t * t * plugrad.asarray([1.0, 2.0, 3.0]))

    def g(t):
        return plugrad.sum(plugrad.grad(f)(t) * t)

    return [plugrad.grad(h)(x).numpy() for h in (f, g)][:order]


@pytest.mark.parametrize(
    ("program", "size"),
    [(train_linear_model, 30), (bouncing_ball, 60), (derivatives_up_to_order, 2)],
)
def test_programs_give_the_same_to_the_last_bit(small_array_device, monkeypatch, program, size):
    found = program(size)
    monkeypatch.setattr(small_array_device.hosting, "most", 0)
    plugrad.zeros(1).backend.constants.clear()
    for value, expected in zip(found, program(size), strict=True):
        assert_same_bits(value, expected)


# --- what else nobody sees


def bytes_in_use():
    gc.collect()
    report = plugrad.memory()
    return report.tensors, report.buffers, report.bytes


@pytest.mark.parametrize("most", [0, 1000])
def test_memory_in_use_does_not_depend_on_hosting(small_array_device, monkeypatch, most):
    monkeypatch.setattr(small_array_device.hosting, "most", most)
    (plugrad.ones(5) * 2).numpy()  # constants stay
    before = bytes_in_use()
    x = plugrad.asarray(np.ones(300, np.float32))
    y = x * 2
    assert bytes_in_use() == (before[0] + 2, before[1] + 2, before[2] + 4096)
    z = plugrad.exp(y)  # both inputs are on the device from here on
    assert bytes_in_use() == (before[0] + 3, before[1] + 3, before[2] + 6144)
    view = y.reshape(3, 100)
    assert bytes_in_use() == (before[0] + 4, before[1] + 3, before[2] + 6144)
    x.dispose()
    del y, view
    assert bytes_in_use() == (before[0] + 1, before[1] + 1, before[2] + 2048)
    del z
    assert bytes_in_use() == (before[0] - 0, before[1], before[2])


def test_memory_limit_is_enforced(small_array_device):
    backend = plugrad.zeros(1).backend
    x = plugrad.asarray(np.ones(1000, np.float32))
    backend.set_memory_limit(backend.memory().bytes + 4096)
    try:
        y = x + x
        with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
            y + y
        with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
            plugrad.asarray(np.ones(1000, np.float32))
        del x
        np.testing.assert_array_equal((y + y).numpy(), np.full(1000, 4))
    finally:
        backend.set_memory_limit(None)


def test_storages_go_back_to_the_pool(small_array_device):
    gc.collect()
    x = plugrad.asarray(np.ones(30, np.float32))
    plugrad.exp(x).numpy()
    small_array_device.memory()
    pooled = small_array_device.pool.usage.pooled
    del x
    small_array_device.memory()
    assert small_array_device.pool.usage.pooled == pooled + 256
    for _ in range(3000):
        plugrad.exp(plugrad.asarray(np.ones(30, np.float32)) + 1)
    plugrad.zeros(1).backend.synchronize()
    assert small_array_device.pool.usage.pooled < pooled + (1 << 20)


def test_a_driver_without_memory_is_an_error_when_the_device_needs_the_values(
    small_array_device, monkeypatch
):
    x = plugrad.asarray(np.ones(999, np.float32)) + 1
    small_array_device.pool.trim()
    with monkeypatch.context() as patch:
        patch.setattr(small_array_device, "create_buffer", lambda size: None)
        with pytest.raises(OutOfMemory, match="no memory for"):
            plugrad.sum(x).numpy()
    assert plugrad.sum(x).numpy() == 1998


def test_arrays_of_another_device_are_refused(run, make_runner, host_small_arrays):
    other = make_runner()
    other.device.hosting.most = 1000
    x, y = run.to_device(np.float32([1, 2])), other.to_device(np.float32([3, 4]))
    for a, b in ((x, y), (y, x)):
        with pytest.raises(BackendUnavailable, match="another device"):
            run.call(binary.add, a, b)
    with pytest.raises(BackendUnavailable, match="another device"):
        run.call(binary.add, run.call(unary.exp, x), y)
    assert_same_bits(run.to_host(run.call(binary.add, x, x)), np.float32([2, 4]))


def test_neither_warnings_nor_errors_of_numpy(small_array_device):
    x = plugrad.asarray(np.float32([3e38, np.inf, 0]))
    with np.errstate(all="raise"):
        np.testing.assert_array_equal((x * x - x).numpy(), [np.inf, np.nan, 0])
        assert (plugrad.asarray([1, 2]) // 0).numpy().tolist() == [0, 0]
        assert plugrad.asarray([1e30, np.nan]).astype("int32").numpy().tolist() == [2**31 - 1, 0]
        assert np.isinf(plugrad.full((2,), 1e30).astype("float16").numpy()).all()
        np.testing.assert_array_equal(np.geterr()["over"], "raise")


def test_a_device_that_flushes_subnormals_computes_with_them(run, host_small_arrays, monkeypatch):
    monkeypatch.setitem(host_small_arrays.__dict__, "_keeps_subnormals", False)
    x, tiny = run.to_device(np.float32([1, 2, 0])), run.to_device(np.float32([1, 1e-40, 0]))
    assert is_hosted(run.call(binary.add, x, x))
    assert not is_hosted(run.call(binary.multiply, x, tiny))
    small = run.to_device(np.float32([1, 1e-20, -0.0]))
    assert not is_hosted(run.call(binary.multiply, small, small))
    assert is_hosted(
        run.call(binary.add, run.to_device(np.int32([1])), run.to_device(np.int32([1])))
    )


def test_device_that_keeps_subnormals_is_detected(run, host_small_arrays, monkeypatch):
    host_small_arrays.__dict__.pop("_keeps_subnormals", None)
    monkeypatch.setattr(host_small_arrays, "most", 0)
    tiny, more = (
        run.to_device(np.float32([2**-130, 2**-100])),
        run.to_device(np.float32([1024, 2**-40])),
    )
    values = run.to_host(run.call(binary.multiply, tiny, more))
    assert host_small_arrays._keeps_subnormals == (values.tolist() == [2**-120, 2**-140])


def test_buffers_that_are_handed_out_are_the_devices(small_array_device):
    x = plugrad.asarray(np.float32([1, 2, 3, 4])) + 1
    buffer = to_buffer(x)
    small_array_device.wgpu_device.queue.write_buffer(buffer, 4, np.float32([-1]))
    np.testing.assert_array_equal(x.numpy(), [2, -1, 4, 5])
    np.testing.assert_array_equal((x.reshape(2, 2) * 2).numpy(), [[4, -2], [8, 10]])
    again = from_buffer(buffer, (4,))
    np.testing.assert_array_equal((again + x).numpy(), [4, -2, 8, 10])


def test_numpy_and_other_libraries_see_the_values(small_array_device):
    x = plugrad.asarray(np.float32([1, 2])) * 2
    np.testing.assert_array_equal(np.asarray(x), [2, 4])
    np.testing.assert_array_equal(np.from_dlpack(x.to("cpu")), [2, 4])
    assert repr(x) == "tensor([2., 4.], dtype=float32, device='webgpu:0')"


def test_settings_that_check_kernels(small_array_device):
    with plugrad.config.override("debug", True), plugrad.config.override("check_finite", True):
        x = plugrad.asarray([1.0, 2.0])
        np.testing.assert_array_equal((x * 2 + 1).numpy(), [3, 5])
        with pytest.raises(ArithmeticError):
            x * 3e38 * 10
    with plugrad.profile() as measured:
        x * 2
    assert [(kernel.kernel, kernel.calls) for kernel in measured.kernels] == [("Multiply", 1)]


def test_host_arrays_in_several_threads(small_array_device):
    shared = plugrad.asarray(np.arange(8, dtype=np.float32))
    failures = []

    def work(seed):
        try:
            total = shared
            for i in range(200):
                total = total + seed
                if i % 20 == 0:
                    exponentials = plugrad.exp(shared * 0 + seed / 10)
                    np.testing.assert_allclose(exponentials.numpy(), np.exp(seed / 10), rtol=1e-5)
            np.testing.assert_array_equal(total.numpy(), np.arange(8) + 200 * seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_interrupted_upload_is_repeated(small_array_device, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    for name, size in (("write", 5), ("record", 1)):
        x = plugrad.asarray(np.full(size, 3, np.float32)) + 1
        with monkeypatch.context() as patch:
            patch.setattr(small_array_device, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                plugrad.square(plugrad.sqrt(x)).numpy()
        for y in (x, x + 12):
            np.testing.assert_array_equal(plugrad.sqrt(y).numpy(), np.sqrt(y.numpy()))


# --- in other processes

PROGRAM_START = """
import os, signal, time
import numpy as np
import plugrad
from plugrad.errors import BackendUnavailable, DeviceLost
plugrad.use("webgpu")
x = plugrad.asarray(np.float32([1, 2, 3]))
"""


def run_with_default_settings(program, **environment):
    """Return the output of a program that runs with the default settings."""
    known = {k: v for k, v in os.environ.items() if k != "PLUGRAD_WEBGPU_HOST_ELEMENTS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_START + program],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=known | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.usefixtures("run")
def test_host_elements_setting():
    show = "print(x.backend.active_device.hosting.most, type((x + x).array.buffer).__name__)"
    assert run_with_default_settings(show) == "1000 HostBuffer"
    assert run_with_default_settings(show, PLUGRAD_WEBGPU_HOST_ELEMENTS="3") == "3 HostBuffer"
    assert run_with_default_settings(show, PLUGRAD_WEBGPU_HOST_ELEMENTS="2") == "2 LazyBuffer"
    assert run_with_default_settings(show, PLUGRAD_WEBGPU_HOST_ELEMENTS="0") == "0 LazyBuffer"


def test_a_setting_below_zero_is_an_error(make_runner):
    backend = type(make_runner().backend)()
    backend.options = {"host_elements": -1}
    with pytest.raises(BackendUnavailable, match=r"set webgpu\.host_elements"):
        backend.open("")


@pytest.mark.usefixtures("run")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused():
    program = """
y = x + x
plugrad.exp(x).numpy()
for use in (lambda: x + x, lambda: y.numpy(), lambda: plugrad.exp(y), lambda: plugrad.zeros(3)):
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        try:
            use()
        except BackendUnavailable as error:
            os._exit(0 if "'spawn'" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print((y + x).numpy())
"""
    assert run_with_default_settings(program) == "[3. 6. 9.]"


@pytest.mark.usefixtures("run")
def test_a_lost_device_is_an_error_when_it_is_needed():
    program = """
plugrad.exp(x + x).numpy()
x.backend.active_device.wgpu_device.destroy()
print((x + x).numpy())
try:
    plugrad.exp(x).numpy()
except DeviceLost as error:
    print("plugrad.use('webgpu')" in str(error))
plugrad.close_backend(x.backend)
plugrad.use("webgpu")
print((plugrad.ones(2) + plugrad.exp(plugrad.zeros(2))).numpy())
"""
    assert run_with_default_settings(program) == "[2. 4. 6.]\nTrue\n[2. 2.]"


@pytest.mark.usefixtures("run")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signals to a process")
def test_interrupts_at_random_moments():
    program = """
import gc, random, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
table = plugrad.asarray(np.ones((5, 300), np.float32))

def compute():
    y = x
    for _ in range(random.randrange(1, 60)):
        y = y * 0.5 + x
        if random.random() < 0.3:
            z = plugrad.exp(y) @ plugrad.stack([y, x], axis=1) + y[0] * table[0, :2]
    return y.numpy()

def check():
    y = x * 2 + 1
    np.testing.assert_array_equal(y.numpy(), [3, 5, 7])
    np.testing.assert_array_equal((table + y[0]).numpy(), np.full((5, 300), 4))
    np.testing.assert_array_equal((y.reshape(1, 3) @ y.reshape(3, 1)).numpy(), [[83]])

def send():
    time.sleep(random.random() * 0.03)
    os.kill(os.getpid(), signal.SIGINT)

random.seed(1)
for _ in range(50):
    compute()
check()
gc.collect()
before = plugrad.memory()
count = 0
senders = [threading.Thread(target=send) for _ in range(100)]  # they live on: Python drops interrupts while one dies
for sender in senders:
    try:
        sender.start()
        while True:
            compute()
    except KeyboardInterrupt:
        count += 1
    sender.join()
    check()
gc.collect()
after = plugrad.memory()
print(count, after.tensors - before.tensors, after.buffers - before.buffers, after.bytes - before.bytes)
"""
    assert run_with_default_settings(program) == "100 0 0 0"
