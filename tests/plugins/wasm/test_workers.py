"""Several threads compute the parts of one call: the same results, and no trace of them afterwards."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import wasmtime

import plugrad
from plugrad.extend import BackendUnavailable, pool_window, sliding_window
from plugrad_wasm import declare
from plugrad_wasm.backend import count_processors
from plugrad_wasm.kernels import depthwise, image as image_kernels, morphology, pooling
from plugrad_wasm.kernels.convolution import uses_winograd

TRANSPOSE_FLAGS = {"transpose_a": False, "transpose_b": False}
WORKER_THREAD_NAME = "plugrad-wasm worker"


@pytest.fixture
def share_small_work(monkeypatch):
    """Let even small work be divided among threads."""
    monkeypatch.setattr(declare, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(100, 1000))
    monkeypatch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
    for name in ("MATMUL_PART_STEPS", "FLOAT32_MATMUL_PART_STEPS"):
        monkeypatch.setattr(declare, name, declare.PartStepLimits(1000, 50_000))
    for module in (depthwise, morphology, pooling):
        monkeypatch.setattr(module, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(100, 1000))


def random_array(rng, dtype, shape):
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 9, shape).astype(dtype)


def iter_parallel_calls(rng):
    """Yield (name, inputs, attributes) of kernel calls that are divided among threads."""
    for dtype in ("float32", "float64", "int32"):
        for a, b in [
            ((67, 30), (30, 53)),
            ((65, 30), (30, 50)),
            ((9, 17, 20), (9, 20, 18)),
            ((3, 1, 200), (3, 200, 150)),
            ((201, 170), (170, 1)),
            ((2, 1, 31, 20), (4, 20, 30)),
        ]:
            yield (
                "BatchMatMul",
                (random_array(rng, dtype, a), random_array(rng, dtype, b)),
                TRANSPOSE_FLAGS,
            )
        x, y = random_array(rng, dtype, 3001), random_array(rng, dtype, 3001)
        for name in ("Add", "Less", "Maximum"):
            yield name, (x, y), {}
        yield "Sub", (x, y[:1]), {}
        yield "Relu", (x,), {}
        yield "Cast", (x,), {"dtype": "float64"}
        yield "ClipByValue", (x,), {"clip_value_min": 0, "clip_value_max": 1}
        yield "Select", (x > 0, x, y), {}
        if dtype != "int32":
            yield "Pow", (abs(x), np.round(y)), {}
            for name in ("Exp", "Tanh", "Sin"):
                yield name, (x,), {}


def iter_calls_by_rows(rng):
    """Yield calls of kernels that are divided by rows, or along the first axis."""
    for dtype in ("float32", "float64", "int32"):
        x = random_array(rng, dtype, (37, 11, 9))
        wide = random_array(rng, dtype, (9, 300))
        for axis in ((0,), (1,), (2,), (0, 2), (1, 2)):
            yield "Sum", (x,), {"axis": axis, "keep_dims": False}
            yield "Max", (x,), {"reduction_indices": axis, "keep_dims": False}
        for axis in range(3):
            yield "ArgMax", (x,), {"axis": axis}
            for ways in (
                {"exclusive": False, "reverse": True},
                {"exclusive": True, "reverse": False},
            ):
                yield "Cumsum", (x,), {"axis": axis, **ways}
            yield "ArgSort", (x,), {"axis": axis, "descending": True, "stable": True}
        yield "TopK", (wide,), {"k": 7, "sorted": True}
        yield "TopK", (x,), {"k": 4, "sorted": False}
        for perm in ((0, 2, 1), (2, 1, 0), (1, 0, 2)):
            yield "Transpose", (x,), {"perm": perm}
        yield "Reverse", (x,), {"dims": (0, 2)}
        yield "Concat", (x, x), {"axis": 1}
        for shape in ((37, 1, 9), (11, 9), (9,), (11, 1), (37, 1, 1)):
            yield "Add", (x, x[0, 0, 0] + random_array(rng, dtype, shape)), {}
            yield "Less", (random_array(rng, dtype, shape), x), {}
        if dtype == "int32":
            continue
        for axis in range(3):
            yield "Softmax", (x,), {"dim": axis}
            yield "LogSoftmax", (x,), {"axis": axis}
        yield "Pow", (abs(x), np.round(random_array(rng, dtype, (11, 1)))), {}
        lrn = {"depth_radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.7}
        yield "LRN", (x[None],), lrn
        for shape in ((9,), (11, 9), (37, 11, 9)):
            mean, variance, offset = (abs(random_array(rng, dtype, shape)) for _ in range(3))
            yield "FusedBatchNorm", (x, mean, variance, offset, None), {"variance_epsilon": 1e-3}
    z = random_array(rng, "float32", (29, 60)) + 1j * random_array(rng, "float32", (29, 60))
    for rows in (z, z[:, :53], z[:, :1]):
        yield "FFT", (rows.astype("complex64"),), {}
        yield "IFFT", (rows.astype("complex64"),), {}
        length = 2 * rows.shape[1] - 1
        yield "IRFFT", (rows.astype("complex64"),), {"length": length}
        yield "RFFT", (rows.real.astype("float32"),), {}
    a, b = random_array(rng, "float32", (45, 20)), random_array(rng, "float32", (20, 33))
    for bias in (random_array(rng, "float32", (33,)), random_array(rng, "float32", (45, 33)), None):
        for activation in ("relu", "sigmoid", "prelu"):
            slopes = random_array(rng, "float32", (33,)) if activation == "prelu" else None
            attrs = {**TRANSPOSE_FLAGS, "activation": activation, "leakyrelu_alpha": 0.1}
            yield "_FusedMatMul", (a, b, bias, slopes), attrs


def iter_window_calls(rng, dtype, image, window):
    """Yield calls of other kernels with windows over images."""
    x = random_array(rng, dtype, image)
    filter = random_array(rng, dtype, (*window.size, image[3], 1))
    attrs = {"window": window}
    dy = random_array(rng, dtype, (image[0], *window.out, image[3]))
    yield "DepthwiseConv2dNative", (x, filter), attrs
    yield "DepthwiseConv2dNativeBackpropInput", (dy, filter), attrs | {"input_shape": image}
    of_filter = "DepthwiseConv2dNativeBackpropFilter"
    yield of_filter, (x, dy), attrs | {"filter_shape": filter.shape}
    yield "Dilation2D", (x, filter[..., 0]), attrs
    for kind in ("max", "avg"):
        yield "Pool", (x,), attrs | {"pooling_type": kind}


def iter_pooling_calls(rng):
    """Yield calls of pooling kernels and their gradients."""
    for dtype in ("float32", "float64"):
        for shape, size, strides in [
            ((5, 9, 8, 3), (3, 2), (2, 1)),
            ((1, 20, 7, 5), (2, 2), (2, 2)),
        ]:
            x = np.round(random_array(rng, dtype, shape))
            window = pool_window(shape[1:3], size, strides, "same")
            attrs = {"window": window}
            y, dy = (random_array(rng, dtype, (shape[0], *window.out, shape[3])) for _ in range(2))
            yield "MaxPool", (x,), attrs
            yield "AvgPool", (x,), attrs
            yield "MaxPoolGrad", (dy, x, np.round(y)), attrs
            yield "AvgPoolGrad", (dy, x), attrs
            for is_included in (True, False):
                flag = {"include_batch_in_index": is_included}
                yield "MaxPoolWithArgmax", (x,), attrs | flag


def iter_convolution_calls(rng):
    """Yield calls of convolutions and their gradients."""
    for dtype in ("float32", "float64"):
        for image, filter, strides, padding, dilations in [
            ((3, 13, 11, 5), (3, 2, 5, 14), (1, 1), "same", (1, 1)),
            ((1, 17, 9, 4), (3, 3, 4, 6), (2, 1), ((2, 0), (1, 2)), (1, 1)),
            ((1, 1, 40, 4), (1, 5, 4, 6), (1, 3), "valid", (1, 2)),
            ((1, 1, 40, 4), (1, 3, 4, 6), (1, 1), ((1, 3), (2, 1)), (1, 1)),
            ((1, 1, 99, 16), (1, 3, 16, 16), (1, 1), "same", (1, 1)),
            ((2, 16, 16, 3), (2, 2, 3, 8), (5, 3), "valid", (3, 1)),
            ((2, 9, 9, 16), (1, 1, 16, 13), (1, 1), "same", (1, 1)),
            ((2, 23, 14, 16), (3, 3, 16, 16), (1, 1), "same", (1, 1)),
            ((2, 47, 31, 16), (3, 3, 16, 16), (2, 2), "same", (1, 1)),
            ((2, 30, 32, 20), (3, 3, 20, 16), (2, 2), ((0, 1), (1, 0)), (1, 1)),
            ((1, 9, 9, 16), (1, 1, 16, 13), (3, 2), "valid", (1, 1)),
            ((2, 6, 7, 5, 3), (2, 3, 2, 3, 4), (1, 2, 1), "same", (1, 1, 1)),
        ]:
            volume = len(strides) == 3
            window = sliding_window(image[1:-1], filter[:-2], strides, padding, dilations)
            attrs = {"window": window}
            x, weights = random_array(rng, dtype, image), random_array(rng, dtype, filter)
            dy = random_array(rng, dtype, (image[0], *window.out, filter[-1]))
            kind, last = ("Conv3D", "V2") if volume else ("Conv2D", "")
            yield kind, (x, weights), attrs
            of_input = f"{kind}BackpropInput{last}"
            yield of_input, (dy, weights), attrs | {"input_shape": image}
            if not volume and filter[2] == 4:
                yield from iter_window_calls(rng, dtype, image, window)
            of_filter = f"{kind}BackpropFilter{last}"
            yield of_filter, (x, dy), attrs | {"filter_shape": filter}


def test_results_are_the_same_for_any_number_of_threads(share_small_work, runner_class, rng):
    runs = [runner_class(threads) for threads in (1, 2, 5)]
    for name, inputs, attrs in (
        *iter_parallel_calls(rng),
        *iter_calls_by_rows(rng),
        *iter_pooling_calls(rng),
        *iter_convolution_calls(rng),
    ):
        first, *others = [run(name, *inputs, **attrs) for run in runs]
        for other in others:
            for y, right in zip(other, first, strict=True):
                np.testing.assert_array_equal(y, right, err_msg=f"{name} {inputs[0].dtype}")


def test_gradients_that_reach_only_the_padding_change_no_bits(monkeypatch, runner_class, rng):
    """Threads do not have them, and a tile with a result that is not finite is computed by the definition."""
    limits = declare.PartStepLimits(1000, declare.FLOAT32_MATMUL_PART_STEPS.maximum)
    monkeypatch.setattr(declare, "FLOAT32_MATMUL_PART_STEPS", limits)
    window = sliding_window((29, 30), (3, 3), (2, 2), ((3, 3), (2, 2)), (1, 1))
    f = rng.standard_normal((3, 3, 32, 32)).astype(np.float32)
    dy = rng.standard_normal((5, *window.out, 32)).astype(np.float32)
    dy[:, -1] = np.nan
    assert uses_winograd(5, window, f.shape)
    attrs = {"input_shape": (5, 29, 30, 32), "window": window}
    first, other = [runner_class(n)("Conv2DBackpropInput", dy, f, **attrs) for n in (1, 7)]
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(other, first)


def test_calls_in_parts_match_single_calls(monkeypatch, run, runner_class, rng):
    parted = runner_class(1)
    for name, inputs, attrs in (*iter_parallel_calls(rng), *iter_calls_by_rows(rng)):
        right = run(name, *inputs, **attrs)
        with monkeypatch.context() as patch:
            for portion in (
                "ELEMENTWISE_PART_STEPS",
                "MATMUL_PART_STEPS",
                "FLOAT32_MATMUL_PART_STEPS",
            ):
                patch.setattr(declare, portion, declare.PartStepLimits(50, 200))
            patch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
            found = parted(name, *inputs, **attrs)
        for y, expected in zip(found, right, strict=True):
            np.testing.assert_array_equal(y, expected, err_msg=f"{name} {inputs[0].dtype}")


@pytest.mark.parametrize("most", [300, 3000])
@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_convolutions_join(monkeypatch, run, runner_class, rng, threads, most):
    parted = runner_class(threads)
    for name, inputs, attrs in (*iter_pooling_calls(rng), *iter_convolution_calls(rng)):
        right = run(name, *inputs, **attrs)
        with monkeypatch.context() as patch:
            for portion in ("MATMUL_PART_STEPS", "FLOAT32_MATMUL_PART_STEPS"):
                patch.setattr(declare, portion, declare.PartStepLimits(50, most))
            for module in (depthwise, morphology, pooling):
                patch.setattr(module, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(50, most))
            found = parted(name, *inputs, **attrs)
        places = 1e-4 if inputs[0].dtype == np.float32 else 1e-12
        for y, expected in zip(found, right, strict=True):
            np.testing.assert_allclose(y, expected, places, 10 * places, err_msg=f"{name} {attrs}")


def worker_threads():
    return {thread for thread in threading.enumerate() if thread.name == WORKER_THREAD_NAME}


def test_threads_start_when_they_are_needed_and_end_with_the_backend(
    share_small_work, runner_class
):
    before = worker_threads()
    run = runner_class(3)
    run("Relu", np.ones(50, np.float32))
    assert worker_threads() <= before
    for _ in range(3):
        run("Relu", np.ones(5000, np.float32))
    started = worker_threads() - before
    assert len(started) == 2
    del run
    gc.collect()
    for thread in started:
        thread.join(20)
        assert not thread.is_alive()


def test_a_failure_in_any_thread_is_raised_and_all_go_on(share_small_work, runner_class, rng):
    run = runner_class(2)
    x = random_array(rng, "float32", 5000)
    far = 2**32 - 64
    for place in range(4):
        chains = [[(far, far, 1000)] if i == place else [(0, 0, 0)] for i in range(4)]
        with pytest.raises(wasmtime.Trap):
            run.store.run_in_threads("relu_float32", chains, ())
        np.testing.assert_array_equal(run("Relu", x), np.maximum(x, 0))


@pytest.mark.parametrize("place", range(4))
def test_arguments_of_a_failed_call_are_freed_at_once(
    runner_class, without_garbage_collection, place
):
    run = runner_class(2)
    chains = [[(2**32 - 64, 2**32 - 64, 1000)] if i == place else [(0, 0, 0)] for i in range(4)]

    def compute():
        x = run.put(np.ones(5000))
        run.store.run_in_threads("relu_float32", chains, (x,))

    before = run.backend.memory()[:2]
    with pytest.raises(wasmtime.Trap):
        compute()
    assert run.backend.memory()[:2] == before


def test_a_thread_that_comes_too_late_keeps_no_memory(runner_class, monkeypatch):
    """The thread finds a finished job, but keeps no array of it."""
    monkeypatch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
    monkeypatch.setattr(image_kernels, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(10, 100))
    run, is_free = runner_class(2), threading.Event()
    turn = np.array([[1, 0, 0, 0, 1, 0, 0, 0]], "float32")
    how = {"interpolation": "bilinear", "fill_mode": "wrap", "fill_value": 0.0}

    class Other:
        """A job that takes long."""

        def run_chains_as_helper(self, calls):
            is_free.wait(60)

    def compute():
        x = np.ones((3, 9, 9, 2), "float32")
        np.testing.assert_array_equal(run("Transform", x, turn, output_shape=(9, 9), **how), x)

    compute()
    before = run.backend.memory()[:2]
    (worker,) = run.store.run_in_threads.__self__._take_helpers(1)
    worker.jobs.put(Other())
    try:
        compute()
        assert run.backend.memory()[:2] == before
    finally:
        is_free.set()


def test_chains_keep_their_order(runner_class):
    run = runner_class(3)
    out = run.put(np.zeros(8, np.int32))
    chains = [[(out.address + 4 * i, 1, value) for value in range(50)] for i in range(8)]
    run.store.run_in_threads("fill_4", chains, (out,))
    np.testing.assert_array_equal(run.get(out), [49] * 8)


def test_python_threads_share_the_workers(share_small_work, runner_class, rng):
    run = runner_class(3)
    a = random_array(rng, "float32", (120, 90))
    right = run("BatchMatMul", a, a.T.copy(), **TRANSPOSE_FLAGS)
    failures = []

    def work():
        try:
            for _ in range(40):
                product = run("BatchMatMul", a, a.T.copy(), **TRANSPOSE_FLAGS)
                np.testing.assert_array_equal(product, right)
                np.testing.assert_array_equal(run("Neg", a), -a)
        except Exception as failure:  # reported below
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_grows_while_threads_compute(share_small_work, runner_class, rng):
    run = runner_class(2)
    a = random_array(rng, "float32", (300, 300))
    right = run("BatchMatMul", a, a, **TRANSPOSE_FLAGS)
    kept = []
    thread = threading.Thread(
        target=lambda: kept.extend(run.put(np.full(1 << 18, i)) for i in range(40))
    )
    extent = run.store.memory_size()
    thread.start()
    while thread.is_alive():
        np.testing.assert_array_equal(run("BatchMatMul", a, a, **TRANSPOSE_FLAGS), right)
    thread.join()
    assert run.store.memory_size() > extent
    assert [run.get(x)[-1] for x in kept] == list(range(40))


def test_threads_option_limits_the_threads(runner_class):
    assert runner_class(None).store.threads == count_processors()
    assert runner_class(5).store.threads == 5
    with pytest.raises(BackendUnavailable, match=r"cannot compute in 0 threads; set wasm\.threads"):
        runner_class(0)
    assert "threads" in plugrad.config.options("wasm")


def run_program(text, threads="2"):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PLUGRAD_WASM_THREADS": threads},
    )


THREADS_AT_EXIT_PROGRAM = """
import sys, threading, time
import plugrad

plugrad.config.set("backend", "wasm")

def compute():
    x = plugrad.ones((700, 700))
    while True:
        plugrad.tanh(x @ x).numpy()

for _ in range(2):
    threading.Thread(target=compute, daemon=True).start()
time.sleep({delay})
sys.exit(5)
"""


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6])
def test_a_program_ends_while_threads_compute(delay):
    done = run_program(THREADS_AT_EXIT_PROGRAM.format(delay=delay))
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


FORKING_PROGRAM = """
import os, signal, threading
import numpy as np
import plugrad

plugrad.use("wasm")
x = plugrad.asarray(np.random.default_rng(0).standard_normal((500, 500)).astype("float32"))
right = (x @ x).numpy()
names = lambda: sum(t.name == "plugrad-wasm worker" for t in threading.enumerate())
assert names() == 1
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        assert names() == 0
        for _ in range(3):
            assert np.array_equal((x @ x).numpy(), right)
        os._exit(3 + names())
    assert np.array_equal((x @ x).numpy(), right)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_starts_threads_of_its_own():
    done = run_program(FORKING_PROGRAM)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["4"] * 5, "", 0)


def test_a_program_that_cannot_start_threads_computes_alone(
    share_small_work, runner_class, monkeypatch
):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    run = runner_class(3)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    x = np.linspace(-1, 1, 5000, dtype=np.float32)
    np.testing.assert_array_equal(run("Relu", x), np.maximum(x, 0))
