"""Long work is done in parts, between which Ctrl-C is raised."""

import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from plugrad.extend import as_dtype, count_elements, pool_window, sliding_window
from plugrad_wasm import declare
from plugrad_wasm.kernels import image, indexing, linalg, morphology, pooling, resize, scatter

STRIP_BYTES = 1 << 15  # of elementwise.h
TRANSPOSE_FLAGS = {"transpose_a": False, "transpose_b": False}


@pytest.mark.parametrize("dtypes", [("float32",) * 2, ("uint8",) * 2])
def test_elementwise_parts_join(run, monkeypatch, rng, dtypes):
    monkeypatch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
    monkeypatch.setattr(declare, "PART_MULTIPLE_ELEMENTS", 7)
    monkeypatch.setattr(declare, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(1, 7))
    a, b = (rng.integers(0, 9, 100).astype(dtype) for dtype in dtypes)
    np.testing.assert_array_equal(run("Square", a), a * a)
    np.testing.assert_array_equal(run("Add", a, b), a + b)
    np.testing.assert_array_equal(run("Less", a, b), a < b)
    np.testing.assert_array_equal(run("Sub", a, b[:1]), a - b[0])
    np.testing.assert_array_equal(run("Sub", a[:1], b), a[0] - b)


@pytest.mark.parametrize("name", ["GradientDescent", "Momentum", "Adagrad", "Adam"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_of_optimizer_steps_do_not_depend_on_places(run, monkeypatch, rng, name, dtype):
    """Only in whole vectors are a product and a sum one instruction, whatever the parts of threads are."""
    lists = {"GradientDescent": 2, "Momentum": 3, "Adagrad": 3, "Adam": 4}[name]
    sizes = 0, 1, 15, 16, 17, 64, 200, 1001
    coefficients = rng.uniform(0.1, 0.9, 7).astype(dtype)
    wholes = [rng.uniform(0.1, 1, sum(sizes)).astype(dtype) for _ in range(lists)]
    ends = np.cumsum(sizes)[:-1]
    tensors = [part for whole in wholes for part in np.split(whole, ends)]
    results = [
        part
        for whole in run(f"Apply{name}", coefficients, *wholes)
        for part in np.split(whole, ends)
    ]

    def check():
        found = run(f"Apply{name}", coefficients, *tensors)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in results]

    check()
    monkeypatch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
    optimizers = import_module("plugrad_wasm.kernels.optimizers")
    for most in (1, 100, 700):
        steps = declare.PartStepLimits(1, most * lists)
        monkeypatch.setattr(optimizers, "ELEMENTWISE_PART_STEPS", steps)
        check()


@pytest.mark.parametrize("most", [1, 50, 1000])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_parts_join(run, monkeypatch, rng, most, transposed):
    monkeypatch.setattr(declare, "FLOAT32_MATMUL_PART_STEPS", declare.PartStepLimits(1, most))
    flags = dict(zip(TRANSPOSE_FLAGS, transposed, strict=True))
    for batch_a, batch_b in [
        ((), ()),
        ((3,), (3,)),
        ((2, 1), (1, 4)),
        ((2, 3), (3,)),
        ((), (2, 3)),
    ]:
        a = rng.integers(-9, 9, (*batch_a, 5, 6)).astype("float32")
        b = rng.integers(-9, 9, (*batch_b, 6, 7)).astype("float32")
        given = [
            x.swapaxes(-1, -2) if turn else x for x, turn in zip((a, b), transposed, strict=True)
        ]
        np.testing.assert_array_equal(run("BatchMatMul", *given, **flags), a @ b)


@pytest.mark.parametrize("dilations", [(1, 1), (2, 1), (3, 2)])
def test_rows_of_tiles_join(run, monkeypatch, rng, dilations):
    x, dy = rng.standard_normal((2, 1, 21, 13, 16)).astype("float32")
    filter = rng.standard_normal((3, 3, 16, 16)).astype("float32")
    window = sliding_window((21, 13), (3, 3), (1, 1), "same", dilations)
    whole = run("Conv2D", x, filter, window=window)
    gradient = run("Conv2DBackpropFilter", x, dy, filter_shape=filter.shape, window=window)
    steps = declare.PartStepLimits(1, x.size * 9 * 16 // 3)
    monkeypatch.setattr(declare, "FLOAT32_MATMUL_PART_STEPS", steps)
    np.testing.assert_array_equal(run("Conv2D", x, filter, window=window), whole)
    found = run("Conv2DBackpropFilter", x, dy, filter_shape=filter.shape, window=window)
    np.testing.assert_allclose(found, gradient, 1e-5, 1e-4)


def compute_results(run, rng):
    """Return the results of kernels that move elements, draw images, or find maxima."""
    x = rng.integers(-9, 9, (3, 4, 5, 2)).astype("float32")
    rows, labels = rng.integers(0, 99, (60, 3)), rng.integers(-3, 9, 60).astype("int32")
    images = {"align_corners": False, "half_pixel_centers": True}
    larger = rng.integers(-9, 9, (3, 7, 6, 2)).astype("float32")
    boxes = rng.random((5, 4)).astype("float32")
    numbers = np.array([2, 0, -1, 1, 9], "int32")
    turns = np.tile(np.array([0.9, 0.3, 0.5, -0.2, 1.1, 0.1, 0.01, 0], "float32"), (3, 1))
    turns[:, 2] += np.arange(3)
    crops = {"method": "bilinear"}
    warps = {"interpolation": "bilinear", "fill_mode": "reflect"}
    filter = rng.integers(-3, 3, (2, 2, 2)).astype("float32")
    slides = {"window": sliding_window((4, 5), (2, 2), (1, 1), "same")}
    dy = rng.integers(1, 9, x.shape).astype("float32")
    cropped = rng.integers(-9, 9, (5, 3, 3, 2)).astype("float32")
    windows = {"window": pool_window((4, 5), (2, 3), (1, 1), "valid")}
    batches = np.abs(labels).reshape(3, 20)
    return [
        run("TensorScatterUpdate", np.zeros((9, 3), "int64"), labels[:, None], rows),
        run("GatherV2", x, np.int32([[1, 0], [2, 3]]), axis=2, batch_dims=0),
        run("GatherV2", x, batches[:, :7], axis=2, batch_dims=1),
        run("GatherNd", x, rng.integers(0, 3, (40, 3)).astype("int32")),
        run("OneHot", labels, depth=9, on_value=1, off_value=0, dtype=as_dtype("float32")),
        run("DenseBincount", batches, None, size=9, binary_output=False),
        run("DenseBincount", batches, x.reshape(3, 40)[:, :20].copy(), size=9, binary_output=False),
        run("ResizeBilinear", x, size=(7, 6), **images),
        run("ResizeBilinearGrad", x, larger, size=(7, 6), **images),
        run("ResizeNearestNeighbor", x, size=(7, 6), **images),
        run("ResizeNearestNeighborGrad", x, larger, size=(7, 6), **images),
        run(
            *("CropAndResize", x, boxes, numbers),
            **{"crop_size": (3, 3), "extrapolation_value": 7, **crops},
        ),
        run("CropAndResizeGradImage", cropped, boxes, numbers, image_shape=x.shape, **crops),
        run("Transform", x, turns, fill_value=0.0, output_shape=(6, 5), **warps),
        run("TransformGrad", larger, turns, image_shape=x.shape, **warps),
        run("RotateWithOffset", x, radians=0.3, fill_value=1.0, center=(0.5, 0.4)),
        run("Dilation2DBackpropInput", x, filter, dy, **slides),
        run("Dilation2DBackpropFilter", x, filter, dy, **slides),
        *run("MaxPoolWithArgmax", x, include_batch_in_index=True, **windows),
        *run("MaxPoolWithArgmax", x, include_batch_in_index=False, **windows),
        *run("MaxPoolWithArgmax", x[:1], include_batch_in_index=True, **windows),
    ]


@pytest.mark.parametrize("most", [3, 40, 150])
def test_parts_of_other_kernels_join(run, monkeypatch, most):
    expected = compute_results(run, np.random.default_rng(5))
    monkeypatch.setattr(declare, "RELEASE_GIL_MIN_ELEMENTS", 10)
    for module in (declare, image, indexing, morphology, pooling, resize, scatter):
        monkeypatch.setattr(module, "ELEMENTWISE_PART_STEPS", declare.PartStepLimits(1, most))
    for found, whole in zip(compute_results(run, np.random.default_rng(5)), expected, strict=True):
        np.testing.assert_array_equal(found, whole)


def test_ranges_cover_a_walk_in_order():
    assert [*declare.iter_part_ranges((2, 3), 6, 6)] == [((0, 2), (0, 3))]
    assert [*declare.iter_part_ranges((3, 5), 30, 20)] == [((0, 2), (0, 5)), ((2, 1), (0, 5))]
    for sizes, work, most in [((3, 4, 5), 120, 7), ((1, 1, 9), 90, 30), ((7,), 7, 1), ((), 9, 1)]:
        places = [
            place
            for part in declare.iter_part_ranges(sizes, work, most)
            for place in np.ndindex(*(length for _, length in part))
            for place in [tuple(a + first for a, (first, _) in zip(place, part, strict=True))]
        ]
        assert places == [*np.ndindex(*sizes)]


def test_parts_cover_the_product_and_are_not_too_large():
    plan = linalg.plan_matmul((2, 3, 40, 50), (3, 50, 60), False, False)
    parts = list(linalg.iter_matmul_parts(plan, 10_000))
    assert all((part.rows - 3) * part.columns * part.depth <= 10_000 for part, _ in parts)
    assert sum(part.rows * part.columns for part, _ in parts) == count_elements(plan.shape)
    rows = [60 * row for row in range(0, 40, 4)]
    assert [out for _, (_, _, out) in parts] == [
        60 * 40 * i + row for i in range(6) for row in rows
    ]


INTERRUPTED_PROGRAM = """
import os, signal, sys, threading, time
import plugrad
from plugrad import ones
from plugrad.extend import pool_window, sliding_window
from plugrad.kernels import convolution, convolution3d, morphology, pooling, scatter

signal.signal(signal.SIGINT, signal.default_int_handler)
plugrad.use("wasm")
double = ones((4000, 4000), dtype="float64")
small, filter = ones((2, 20, 20, 4)), ones((3, 3, 4, 4))
images, filters, dy = ones((8, 200, 200, 64)), ones((3, 3, 64, 256)), ones((8, 200, 200, 256))
volumes, boxes = ones((1, 32, 32, 32, 64)), ones((5, 5, 5, 64, 128))
rows, many, updates = ones((200, 100_000)), plugrad.arange(800) % 200, ones((800, 100_000))
turn, box = plugrad.asarray([[0.9, 0.3, 5, -0.2, 1.1, 9, 1e-4, 0]] * 8), ones((9, 9, 64))
window = sliding_window((200, 200), (3, 3), (1, 1), "same")
wide_pool = pool_window((200, 200), (9, 9), (1, 1), "same")
wide = sliding_window((200, 200), (9, 9), (1, 1), "same")
calls = [
    lambda: double @ double,
    lambda: plugrad.conv2d(images, filters, padding="same"),
    lambda: convolution.conv2d_input_gradient(
        dy, filters, input_shape=images.shape, window=window
    ),
    lambda: convolution.conv2d_filter_gradient(
        images, dy, filter_shape=filters.shape, window=window
    ),
    lambda: plugrad.conv3d(volumes, boxes),
    lambda: plugrad.argsort(rows),
    lambda: plugrad.fft.fft(rows[:, :99_991]),
    lambda: plugrad.pow(plugrad.asarray(rows, dtype="float64"), rows[:, :1].astype("float64")),
    lambda: plugrad.image.resize_bilinear(images[:1], (1500, 1500)),
    lambda: plugrad.image.transform(images, turn, fill_mode="wrap", interpolation="bilinear"),
    lambda: plugrad.take(rows, many, axis=0),
    lambda: scatter.tensor_scatter_update(rows, many[:, None], updates),
    lambda: pooling.max_pool_with_argmax(images, window=wide_pool),
    lambda: morphology.dilation2d_filter_gradient(images, box, images, window=wide),
]
plugrad.conv2d(small, filter)
before = plugrad.memory()[:3]


def interrupt():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)


for i, call in enumerate(calls):
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        while True:
            call()
    except KeyboardInterrupt:
        pass
    thread.join()
    print(i, plugrad.memory()[:3] == before)
assert (ones(3) + 1).tolist() == [2, 2, 2]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send itself a Ctrl-C")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_long_calls_are_interrupted(threads):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_PROGRAM],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PLUGRAD_WASM_THREADS": threads},
    )
    expected = "".join(f"{i} True\n" for i in range(14))
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


@pytest.mark.parametrize(
    "size", [STRIP_BYTES, STRIP_BYTES + 1, 3 * STRIP_BYTES, 3 * STRIP_BYTES + 5]
)
def test_long_arrays_are_computed_strip_by_strip_in_both_directions(run, rng, size):
    a, b = rng.standard_normal((2, size)).astype(np.float32)
    column, row = np.arange(2.0)[:, None], a.astype(float)
    for _ in range(2):  # once forwards, once backwards
        np.testing.assert_array_equal(run("Add", a, b), a + b)
        np.testing.assert_array_equal(run("Relu", a), np.maximum(a, 0))
        np.testing.assert_array_equal(run("Less", a, b), a < b)
        np.testing.assert_array_equal(run("Multiply", a, b[:1]), a * b[0])
        np.testing.assert_array_equal(run("Sub", b[:1], a), b[0] - a)
        np.testing.assert_array_equal(run("Maximum", column, row), np.maximum(column, row))
        np.testing.assert_array_equal(run("Cast", a, dtype=as_dtype("int64")), a.astype(int))
