"""Long work is done in parts, between which Ctrl-C is raised."""

import os
import subprocess
import sys

import numpy as np
import pytest

from plugrad.extend import size_of
from plugrad_wasm import declare
from plugrad_wasm.kernels import linalg

FLAGS = {"transpose_a": False, "transpose_b": False}


@pytest.mark.parametrize("dtypes", [("float32",) * 2, ("uint8",) * 2])
def test_elementwise_parts_join(run, monkeypatch, rng, dtypes):
    monkeypatch.setattr(declare, "LONG", 10)
    monkeypatch.setattr(declare, "GROUP", 7)
    monkeypatch.setattr(declare, "ELEMENTS", declare.Portion(1, 7))
    a, b = (rng.integers(0, 9, 100).astype(dtype) for dtype in dtypes)
    np.testing.assert_array_equal(run("Square", a), a * a)
    np.testing.assert_array_equal(run("Add", a, b), a + b)
    np.testing.assert_array_equal(run("Less", a, b), a < b)
    np.testing.assert_array_equal(run("Sub", a, b[:1]), a - b[0])
    np.testing.assert_array_equal(run("Sub", a[:1], b), a[0] - b)


@pytest.mark.parametrize("most", [1, 50, 1000])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_parts_join(run, monkeypatch, rng, most, transposed):
    monkeypatch.setattr(declare, "PRODUCTS_FLOAT32", declare.Portion(1, most))
    flags = dict(zip(FLAGS, transposed, strict=True))
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


def test_parts_cover_the_product_and_are_not_too_large():
    plan = linalg.product((2, 3, 40, 50), (3, 50, 60), False, False)
    parts = list(linalg.parts(plan, 10_000))
    assert all((part.rows - 3) * part.columns * part.depth <= 10_000 for part, _ in parts)
    assert sum(part.rows * part.columns for part, _ in parts) == size_of(plan.shape)
    rows = [60 * row for row in range(0, 40, 4)]
    assert [out for _, (_, _, out) in parts] == [
        60 * 40 * i + row for i in range(6) for row in rows
    ]


PROGRAM = """
import os, signal, sys, threading, time
import plugrad
from plugrad import ones
from plugrad.kernels import convolution, convolution3d

signal.signal(signal.SIGINT, signal.default_int_handler)
plugrad.use("wasm")
double = ones((4000, 4000), dtype="float64")
small, filter = ones((2, 20, 20, 4)), ones((3, 3, 4, 4))
images, filters, dy = ones((8, 200, 200, 64)), ones((3, 3, 64, 256)), ones((8, 200, 200, 256))
volumes, boxes = ones((1, 32, 32, 32, 64)), ones((5, 5, 5, 64, 128))
rows = ones((200, 100_000))
ways = {"strides": (1, 1), "pad": "same"}
calls = [
    lambda: double @ double,
    lambda: plugrad.conv2d(images, filters, pad="same"),
    lambda: convolution.conv2d_input_gradient(dy, filters, input_shape=images.shape, **ways),
    lambda: convolution.conv2d_filter_gradient(images, dy, filter_shape=filters.shape, **ways),
    lambda: plugrad.conv3d(volumes, boxes),
    lambda: plugrad.argsort(rows),
    lambda: plugrad.fft.fft(rows[:, :99_991]),
    lambda: plugrad.pow(plugrad.asarray(rows, dtype="float64"), rows[:, :1].astype("float64")),
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
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PLUGRAD_WASM_THREADS": threads},
    )
    expected = "".join(f"{i} True\n" for i in range(8))
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)
