"""Chains of elementwise calls: the same values to the last bit in fewer dispatches, and no other visible effect."""

import gc
import threading

import numpy as np
import pytest

import plugrad
from plugins.webgpu.bits import assert_same_bits
from plugrad.errors import BackendUnavailable, OutOfMemory
from plugrad_webgpu import elementwise
from plugrad_webgpu.device import pending
from plugrad_webgpu.driver import native

pytestmark = pytest.mark.usefixtures("run", "webgpu")


@pytest.fixture
def recorded_dispatches(monkeypatch):
    """A list to which each dispatch adds an element."""
    made = []
    call = native.dispatch_workgroups

    def counted(*arguments):
        made.append(arguments)
        call(*arguments)

    monkeypatch.setattr(native, "dispatch_workgroups", counted)
    return made


@pytest.fixture
def active_device():
    return plugrad.zeros(1).backend.active_device


def run_unfused(function, *arguments):
    """Return the result of a function whose calls are not fused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending, "MAX_COMPILE_WEIGHT", 1)
        return function(*arguments)


def gelu(x):
    return 0.5 * x * (1 + plugrad.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def random_normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


# --- values


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "complex64"])
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ((4, 6), (6,), (4, 1)),
        ((3, 5), (5,), ()),
        ((2, 3, 4), (3, 1), (2, 1, 4)),
        ((7,), (), (1,)),
        ((1, 5), (4, 1), (4, 5)),
        ((1030,), (1030,), (1,)),
        ((0, 3), (3,), ()),
        ((), (), ()),
    ],
    ids=str,
)
def test_broadcasting(a, b, c, dtype):
    rng = np.random.default_rng(1)
    x, y, z = (rng.integers(0, 9, shape).astype(dtype) for shape in (a, b, c))
    p, q, r = map(plugrad.asarray, (x, y, z))
    for _ in range(3):
        product = p * q
        total = (product + r) * (product - q)
        np.testing.assert_array_equal(total.numpy(), (x * y + z) * (x * y - y))


SPECIAL_VALUES = np.float32(
    [1, -0.0, 0, np.inf, -np.inf, np.nan, 3e38, 1e-40, 1e-8, 1.1, -7.3, 0.1]
)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (1 + x) - 1,
        lambda x, y: (x + y) - y,
        lambda x, y: x * y + y,
        lambda x, y: x * y - x * y,
        lambda x, y: (x + 0) - (x + 0),
        lambda x, y: (x * 1) * 0,
        lambda x, y: (x * y) / (x * y),
        lambda x, y: plugrad.negative(-x),
        lambda x, y: (x + y) == (x + y),
        lambda x, y: plugrad.sqrt(x) * plugrad.sqrt(x),
        lambda x, y: 1 / (1 / x),
    ],
)
def test_rounding_and_special_values_match_separate_calls(function, dtype):
    """A compiler may not combine calls: the driver's fast-math would turn (1 + x) - 1 into x."""
    p, q = (plugrad.asarray(x.astype(dtype)) for x in np.meshgrid(SPECIAL_VALUES, SPECIAL_VALUES))
    alone = run_unfused(lambda: function(p, q).numpy())
    for _ in range(3):
        assert_same_bits(function(p, q).numpy(), alone)


ACCURATE_FUNCTIONS = [
    (plugrad.tanh, np.tanh),
    (plugrad.asinh, np.arcsinh),
    (plugrad.exp, np.exp),
    (plugrad.expm1, np.expm1),
    (plugrad.sin, np.sin),
]


@pytest.mark.parametrize(("outer", "formula"), ACCURATE_FUNCTIONS)
def test_accurate_functions_of_accurate_functions_beside_a_repeated_mask(outer, formula):
    """Mesa 22.3 compiled the sign of the outer function incorrectly, and only in such chains."""
    x, y = random_normal(2, 2, 3)
    a, b, zeros = plugrad.asarray(x), plugrad.asarray(y), plugrad.zeros((2, 3))
    mask = plugrad.asarray([[True], [False]])
    for inner, inner_formula in ACCURATE_FUNCTIONS[:2]:
        expected = formula(inner_formula(y) / (1 + np.exp(-x))) * [[1], [0]]
        for _ in range(2):  # the second time, the chain is compiled
            found = plugrad.where(mask, outer(plugrad.sigmoid(a) * inner(b)), zeros).numpy()
            np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_rounding_is_numpys():
    x = np.float32([1e-8, 3e-8, 0.1])
    p = plugrad.asarray(x)
    for _ in range(3):
        np.testing.assert_array_equal(((1 + p) - 1).numpy(), (1 + x) - 1)


def test_attributes_and_conversions():
    x = random_normal(5, 7) * 4
    p = plugrad.asarray(x)
    for low, slope in ((-1, 0.25), (-1, 0.25), (-2, 0.5), (-1, 0.25)):
        y = plugrad.leaky_relu(plugrad.clip(p, low, 2.5) * 2, slope)
        clipped = np.clip(x, low, 2.5) * 2
        expected = np.where(clipped > 0, clipped, np.float32(slope) * clipped)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        whole = (y.astype("int32") + 1).astype("bool")
        np.testing.assert_array_equal(whole.numpy(), expected.astype("int32") + 1 != 0)
        chosen = plugrad.where(y > 1, y, -y)
        np.testing.assert_allclose(chosen.numpy(), np.where(expected > 1, expected, -expected))


def test_views_of_results_that_wait():
    x = random_normal(4, 6)
    p = plugrad.asarray(x)
    for _ in range(3):
        y = (p + 1).reshape(2, 12) * plugrad.asarray(x.reshape(2, 12))
        z = y.reshape(24)[None] - p.reshape(1, 24)
        np.testing.assert_allclose(
            z.numpy(), (((x + 1) * x) - x).reshape(1, 24), rtol=1e-5, atol=1e-6
        )
        whole = plugrad.complex(p * 2, p)
        np.testing.assert_array_equal(plugrad.real(whole * 1).numpy(), x * 2)
        np.testing.assert_array_equal(plugrad.imag(plugrad.conj(whole)).numpy(), -x)


def test_other_kernels_use_results_that_wait():
    x, w = random_normal(6, 5), random_normal(5, 4)
    p, q = plugrad.asarray(x), plugrad.asarray(w)
    for _ in range(3):
        y = plugrad.relu((p * 2) @ (q + 1))
        total = plugrad.sum(y * y, axis=0)
        expected = np.maximum((x * 2) @ (w + 1), 0)
        np.testing.assert_allclose(total.numpy(), (expected**2).sum(0), rtol=1e-4)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_gradients_to_second_order():
    x = random_normal(5, 4)

    def loss(t):
        return plugrad.sum(gelu(t * t + 0.5) * plugrad.exp(-t))

    def second(t):
        return plugrad.sum(plugrad.grad(loss)(t) * t)

    with plugrad.use("cpu"):
        expected = [plugrad.grad(f)(plugrad.asarray(x)).numpy() for f in (loss, second)]
    p = plugrad.asarray(x)
    for _ in range(3):
        for f, values in zip((loss, second), expected, strict=True):
            np.testing.assert_allclose(plugrad.grad(f)(p).numpy(), values, rtol=2e-4, atol=2e-4)


def test_a_loop_that_is_longer_than_a_chain(recorded_dispatches):
    p, one = plugrad.asarray(np.zeros(1024, "float32")), plugrad.ones(1024)
    for _ in range(2):
        recorded_dispatches.clear()
        total = p
        for _ in range(1000):
            total = total + one
        np.testing.assert_array_equal(total.numpy(), np.full(1024, 1000))
    assert len(recorded_dispatches) == -(-1000 // pending.MAX_COMPILE_WEIGHT)


# --- what is recorded


def warm_up(function):
    """Call a function until its fused chains are compiled."""
    for _ in range(2):
        function()


def test_one_dispatch_for_a_chain(recorded_dispatches):
    x, w = plugrad.asarray(random_normal(30, 20)), plugrad.asarray(random_normal(20))

    def work():
        return gelu(x * w + w).numpy()

    first = work()
    second = work()
    recorded_dispatches.clear()
    assert_same_bits(work(), first)
    assert_same_bits(second, first)
    assert len(recorded_dispatches) == 1


def test_a_chain_is_compiled_once_for_all_sizes(recorded_dispatches):
    def work(size):
        x = plugrad.zeros(size)
        (x + 0).numpy()
        recorded_dispatches.clear()
        return plugrad.tanh(plugrad.exp(x) - 3).numpy()

    warm_up(lambda: work(77))
    device = plugrad.zeros(1).backend.active_device
    compiled = len(device._pipelines)
    for size in (78, 1000, 4097):
        np.testing.assert_allclose(work(size), np.full(size, np.tanh(-2)), rtol=1e-6)
        assert len(recorded_dispatches) == 1
    assert len(device._pipelines) == compiled


def test_results_that_are_kept_are_written_by_the_same_dispatch(recorded_dispatches):
    x = plugrad.asarray(random_normal(40))

    def work():
        a = x * 2
        b = a + 1
        c = plugrad.exp(b)
        d = c - a
        return b, d

    def values():
        return [y.numpy() for y in work()]

    warm_up(values)
    recorded_dispatches.clear()
    b, d = values()
    assert len(recorded_dispatches) == 1
    np.testing.assert_allclose(b, x.numpy() * 2 + 1)
    np.testing.assert_allclose(d, np.exp(b) - x.numpy() * 2, rtol=1e-5, atol=1e-6)


def test_calls_of_one_size_share_a_dispatch(recorded_dispatches):
    p, q = plugrad.asarray(random_normal(3, 8)), plugrad.asarray(random_normal(24))

    def work():
        a, b = p * 2, q + 1
        return a.numpy(), b.numpy()

    warm_up(work)
    recorded_dispatches.clear()
    work()
    assert len(recorded_dispatches) == 1


def test_unneeded_results_are_not_computed(recorded_dispatches):
    x = plugrad.asarray(random_normal(50))
    (x * 2).numpy()
    recorded_dispatches.clear()
    y = x * 2
    z = y * 2
    del y, z
    x.backend.synchronize()
    assert not recorded_dispatches


def test_synchronize_records_pending_calls(recorded_dispatches):
    x = plugrad.asarray(random_normal(50))
    (x * 2).numpy()
    recorded_dispatches.clear()
    y = x * 2
    assert not recorded_dispatches
    x.backend.synchronize()
    assert len(recorded_dispatches) == 1
    del y


def test_read_back_records_pending_calls_of_its_thread(recorded_dispatches):
    x, other = plugrad.asarray(random_normal(50)), plugrad.ones(3)
    (x * 2).numpy()
    recorded_dispatches.clear()
    y = x * 2
    other.numpy()
    assert len(recorded_dispatches) == 1
    del y


def test_a_call_that_fails_leaves_the_chain_as_it_was(run):
    x, z = run.to_device(np.float32([1, 2])), run.to_device(np.float32([3, 4]))
    other = type(run)()
    add = elementwise("a + b", ("a", "b"))
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            add(x, other.to_device(np.float32([5, 6])))
        np.testing.assert_array_equal(run.to_host(add(z, z)), [6, 8])
        with pytest.raises(BackendUnavailable):
            add(x, other.to_device(np.float32([5, 6])))
        np.testing.assert_array_equal(run.to_host(add(add(z, z), z)), [9, 12])


# --- lifetime and memory


def bytes_in_use():
    gc.collect()
    report = plugrad.memory()
    return report.tensors, report.buffers, report.bytes


def test_disposal_in_the_middle():
    x = random_normal(100)
    for _ in range(3):
        p = plugrad.asarray(x)
        y = p * 2
        p.dispose()
        z = y + 1
        y.dispose()
        with plugrad.tidy() as scope:
            w = scope.keep(plugrad.exp(z) * z)
        z.dispose()
        np.testing.assert_allclose(w.numpy(), np.exp(x * 2 + 1) * (x * 2 + 1), rtol=1e-5)


def test_memory_counts_tensors_that_the_program_holds():
    warm_up(lambda: gelu(plugrad.ones(3000) * 2).numpy())  # constants stay
    before = bytes_in_use()
    for _ in range(3):
        x = plugrad.asarray(random_normal(3000))
        y = x * 2
        z = gelu(y)
        assert bytes_in_use() == (before[0] + 3, before[1] + 3, before[2] + 3 * 16384)
        del x, y
        assert bytes_in_use() == (before[0] + 1, before[1] + 1, before[2] + 16384)
        assert z.numpy().shape == (3000,)
        del z
        assert bytes_in_use() == before


def test_memory_counts_inputs_of_calls_that_wait_no_more():
    warm_up(lambda: (plugrad.ones(3000) * 2).numpy())  # constants stay
    before = bytes_in_use()
    x = plugrad.asarray(random_normal(3000))
    y = x * 2
    del x
    assert bytes_in_use() == (before[0] + 1, before[1] + 1, before[2] + 16384)
    np.testing.assert_array_equal(y.numpy(), random_normal(3000) * 2)


def test_the_limit_is_an_error_of_the_call():
    x = plugrad.asarray(np.ones(1 << 20, "float32"))
    (x + 1).numpy()
    backend = x.backend
    backend.set_memory_limit(backend.memory().bytes + (9 << 20))
    try:
        y = x + 1
        z = y + 1
        with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
            z + 1
        np.testing.assert_array_equal(z.numpy()[:3], 3)
        del x  # the chain still has it, but lets it go rather than fail
        w = y * 2
        del y
        v = w + z
        assert v.numpy()[0] == 7
    finally:
        backend.set_memory_limit(None)


def test_a_driver_without_memory_is_an_error_when_the_value_is_needed(active_device, monkeypatch):
    x = plugrad.asarray(np.ones(3 << 18, "float32"))
    (x + 1).numpy()
    y = plugrad.exp(x * 0)
    active_device.pool.trim()  # it records what waits
    y = plugrad.exp(x * 0) + 1
    with monkeypatch.context() as patch:
        patch.setattr(active_device, "create_buffer", lambda size: None)
        with pytest.raises(OutOfMemory, match="no memory for 3145728 bytes"):
            y.numpy()
    np.testing.assert_array_equal(y.numpy()[:3], 2)


def test_a_driver_without_memory_for_many_chains(active_device, monkeypatch):
    arrays = [plugrad.asarray(np.ones((3 << 18) + i, "float32")) for i in range(40)]
    monkeypatch.setattr(pending, "LARGE_RESULT_BYTES", 1 << 30)  # all of them may wait at once
    active_device.pool.trim()
    waiting = [x + 2 for x in arrays]
    with monkeypatch.context() as patch:
        patch.setattr(active_device, "create_buffer", lambda size: None)
        with pytest.raises(OutOfMemory, match="no memory for"):
            waiting[0].numpy()
    assert all(y.numpy()[-1] == 3 for y in waiting)


def test_interrupted_recording_is_completed_by_the_next_read(monkeypatch):
    x = plugrad.asarray(random_normal(60))

    def work():
        a = x * 3
        return a, plugrad.tanh(a) - 1

    def interrupted(*arguments):
        raise KeyboardInterrupt

    warm_up(lambda: [y.numpy() for y in work()])
    for name in ("set_bind_group", "dispatch_workgroups", "set_pipeline"):
        a, b = work()
        c = b + 1
        plugrad.matrix_transpose(plugrad.ones((2, 3)))  # so that the next program is another one
        with monkeypatch.context() as patch:
            patch.setattr(native, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                b.numpy()
        d = c * a
        values = np.tanh(x.numpy() * 3)
        np.testing.assert_allclose(d.numpy(), values * x.numpy() * 3, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(b.numpy(), values - 1, rtol=1e-5, atol=1e-6)


# --- limits


def test_more_inputs_than_a_chain_keeps():
    arrays = [plugrad.asarray(np.full((3, 4), i, "float32")) for i in range(40)]
    for _ in range(3):
        total = arrays[0]
        for x in arrays[1:]:
            total = total + x * 2
        np.testing.assert_array_equal(total.numpy(), np.full((3, 4), 2 * 780))


def test_different_repetitions():
    x, row, column = random_normal(6, 8), random_normal(8), random_normal(6, 1)
    p, q, r = map(plugrad.asarray, (x, row, column))
    for _ in range(3):
        y = ((p + q) * r).reshape(2, 3, 8)
        z = y + plugrad.asarray(random_normal(3, 1))
        expected = ((x + row) * column).reshape(2, 3, 8) + random_normal(3, 1)
        np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_more_outputs_than_a_device_binds(active_device, monkeypatch):
    monkeypatch.setattr(active_device.calls, "_most_operands", 4)
    x = plugrad.asarray(random_normal(30))
    for _ in range(3):
        kept = [x]
        for _ in range(10):
            kept.append(kept[-1] * 2)
        for i, y in enumerate(kept):
            np.testing.assert_array_equal(y.numpy(), x.numpy() * 2**i)


def test_more_parameters_than_a_shader_takes():
    many = [f"p{i}" for i in range(20)]
    kernel = elementwise(" + ".join(["x", *[f"parameters.{n}" for n in many]]), attributes=many)
    x = plugrad.ones(9)
    for _ in range(3):
        y = (x * 1).array
        for _ in range(3):
            y = kernel(y, **dict.fromkeys(many, 1.0))
        np.testing.assert_array_equal(x.backend.to_numpy(y), np.full(9, 61))


def repeated_doubling(x, times):
    for _ in range(times):
        x = x * 2
    return x.numpy()


def test_programs_of_many_chains_are_forgotten(active_device, monkeypatch):
    monkeypatch.setattr(pending, "MAX_PROGRAMS_PER_GENERATION", 2)
    for _ in range(2):
        active_device.calls._begin_generation()
    compiled = len(active_device._pipelines)
    x = plugrad.asarray(random_normal(30))
    for _ in range(2):
        for times in range(2, 8):
            for _ in range(3):
                np.testing.assert_array_equal(repeated_doubling(x, times), x.numpy() * 2**times)
    assert (
        len(active_device._pipelines) <= compiled + 5
    )  # of two generations, and the call by itself


def test_programs_in_use_are_not_forgotten(active_device, monkeypatch):
    monkeypatch.setattr(pending, "MAX_PROGRAMS_PER_GENERATION", 3)
    x = plugrad.asarray(random_normal(30))
    repeated_doubling(x, 20), repeated_doubling(x, 20)
    in_use = set(active_device.calls._programs.values())
    for times in range(2, 12):
        for _ in range(2):
            repeated_doubling(x, times)
            repeated_doubling(x, 20)
    assert (
        len(in_use & {*active_device._pipelines} & {*active_device.calls._programs.values()}) == 1
    )


def test_chains_that_were_seen_once_are_forgotten(active_device, monkeypatch):
    monkeypatch.setattr(pending, "MAX_REMEMBERED_CHAINS", 4)
    x = plugrad.asarray(random_normal(30))
    for times in range(2, 12):
        repeated_doubling(x, times)
    assert len(active_device.calls._seen) <= 4


def test_parts_of_forgotten_programs_are_released(active_device, monkeypatch):
    monkeypatch.setattr(active_device, "part_bytes", 1 << 16)
    monkeypatch.setattr(active_device, "_has_large", True)
    x = plugrad.asarray(random_normal(1 << 15))
    for _ in range(2):
        np.testing.assert_array_equal(repeated_doubling(x, 13), x.numpy() * 2**13)
    assert active_device._split_pipelines
    active_device.forget({program for program, _ in active_device._split_pipelines})
    assert not active_device._split_pipelines
    np.testing.assert_array_equal(repeated_doubling(x, 13), x.numpy() * 2**13)


def test_many_sizes_wait_at_once(active_device):
    arrays = [plugrad.asarray(np.ones(i + 1, "float32")) for i in range(100)]
    waiting = [x * 2 for x in arrays]
    assert len(active_device.calls._open) <= pending.MAX_OPEN_CHAINS
    assert sum(int(y.numpy().sum()) for y in waiting) == 2 * 5050


def test_large_arrays_wait_in_one_chain_only(active_device):
    active_device.calls.finish_all_threads()
    arrays = [plugrad.zeros((1 << 20) + i) for i in range(3)]
    waiting = [x * 2 + 1 for x in arrays]
    assert len(active_device.calls._open) == 1
    assert all((y.numpy() == 1).all() for y in waiting)


# --- threads


def test_threads_have_chains_of_their_own():
    x = random_normal(500)
    expected = np.tanh(x * 2 + 1) - x
    failures = []

    def work():
        with plugrad.use("webgpu"):
            p = plugrad.asarray(x)
            for _ in range(40):
                y = plugrad.tanh(p * 2 + 1) - p
                if not np.allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5):
                    failures.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        plugrad.memory()
        plugrad.zeros(1).backend.synchronize()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_that_wait_go_to_other_threads():
    x = plugrad.asarray(random_normal(300))
    values = x.numpy()

    def work(total, found):
        with plugrad.use("webgpu"):
            found.append(total * x)

    total = x
    for _ in range(30):
        found = []
        thread = threading.Thread(target=work, args=(total + 1, found))
        thread.start()
        thread.join()
        total = found[0]
        values = (values + 1) * x.numpy()
    np.testing.assert_allclose(total.numpy(), values, rtol=1e-4)
