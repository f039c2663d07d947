"""Long work is done in parts, between which Ctrl-C is raised."""

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
    monkeypatch.setattr(declare, "PART", 7)
    a, b = (rng.integers(0, 9, 100).astype(dtype) for dtype in dtypes)
    np.testing.assert_array_equal(run("Square", a), a * a)
    np.testing.assert_array_equal(run("Add", a, b), a + b)
    np.testing.assert_array_equal(run("Less", a, b), a < b)
    np.testing.assert_array_equal(run("Sub", a, b[:1]), a - b[0])
    np.testing.assert_array_equal(run("Sub", a[:1], b), a[0] - b)


@pytest.mark.parametrize("most", [1, 50, 1000])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_parts_join(run, monkeypatch, rng, most, transposed):
    monkeypatch.setattr(linalg, "MOST_PRODUCTS_FLOAT32", most)
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
    assert all(part.rows * part.columns * part.depth <= 10_000 for part, _ in parts)
    assert sum(part.rows * part.columns for part, _ in parts) == size_of(plan.shape)
    rows = [60 * row for row in range(0, 40, 3)]
    assert [out for _, (_, _, out) in parts] == [
        60 * 40 * i + row for i in range(6) for row in rows
    ]


PROGRAM = """
import os, signal, threading, time
import plugrad

signal.signal(signal.SIGINT, signal.default_int_handler)

with plugrad.use("wasm"):
    x = plugrad.ones((4000, 4000), dtype="float64")
    start = time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        x @ x
    except KeyboardInterrupt:
        print("interrupted")
    assert plugrad.memory().buffers == 1
    assert (plugrad.ones(3) + 1).tolist() == [2, 2, 2]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send itself a Ctrl-C")
def test_a_long_product_is_interrupted():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
