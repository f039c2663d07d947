"""No Python code runs where an object dies: Python reports and drops what a handler of signals raises there."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad.kernels import unary

WEAKREF_CALLBACKS = {
    ("weakref.py", "remove"),  # of `WeakKeyDictionary` and `WeakValueDictionary`
    ("weakref.py", "__call__"),  # of `finalize`
    ("_weakrefset.py", "_remove"),
}

PLUGRAD_AND_LIBRARIES = ("plugrad", "wasmtime", "wgpu", Path(__file__).name)
"""Whose methods are noted: Python's own do so while they import."""


class FinalizerWatch:
    """A profile function that records the Python functions that run as finalizers while signals may arrive."""

    def __init__(self):
        self.found = []

    def __call__(self, frame, event, argument):
        code = frame.f_code
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        is_method = code.co_name == "__del__" and any(
            n in code.co_filename for n in PLUGRAD_AND_LIBRARIES
        )
        if event == "call" and (is_method or (file, code.co_name) in WEAKREF_CALLBACKS):
            interrupts = sys.modules.get("plugrad_webgpu.driver.interrupts")
            if interrupts is None or not interrupts.uninterruptible._depth:
                caller = frame.f_back
                self.found.append(f"{code.co_qualname} in {caller and caller.f_code.co_qualname}")


def run_training_step(backend):
    x = plugrad.asarray(np.linspace(-1, 1, 600, dtype="f4").reshape(20, 30))
    w = plugrad.Variable(np.zeros(30, "f4"), name="w")
    optimizer = plugrad.optimizers.Adam(0.1)

    def step():
        return optimizer.minimize(lambda: plugrad.sum(plugrad.square(x @ w - 1)), [w])

    for mode in ("off", "replay", "compile"):
        with plugrad.config.override("jit", mode):
            run = plugrad.jit(step)
            for _ in range(3):
                run()
    with plugrad.tidy():
        plugrad.exp(x).numpy()
    with plugrad.override_kernel("Tanh", backend, lambda x: x):
        plugrad.tanh(x).numpy()
    with plugrad.override_gradient(unary.tanh, x=lambda dy: dy * 7):
        plugrad.grad(lambda t: plugrad.sum(plugrad.tanh(t)))(x).numpy()
    with plugrad.config.override("debug", True), plugrad.profile():
        plugrad.exp(x).numpy()
    plugrad.vmap(plugrad.sum)(x).numpy()
    plugrad.random.Generator(0).normal((3,)).numpy()
    plugrad.permute_dims(x, (1, 0)).ctypes  # noqa: B018 - the copy dies with the tensor
    [row.tolist() for row in x]
    plugrad.memory()
    plugrad.conv2d(x.reshape((1, 20, 30, 1)), plugrad.ones((3, 3, 1, 2))).numpy()


def test_no_python_code_runs_where_something_dies(backend):
    gc.collect()  # what other tests have left
    gc.disable()
    watch = FinalizerWatch()
    sys.setprofile(watch)
    try:
        run_training_step(backend)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert watch.found == []


@pytest.mark.parametrize("kind", ["finalizer", "reference", "method"])
def test_finalizer_watch_detects_finalizers(kind):
    import weakref

    class Mortal:
        if kind == "method":

            def __del__(self):
                pass

    watch, mortal, kept = FinalizerWatch(), Mortal(), weakref.WeakKeyDictionary()
    if kind == "finalizer":
        weakref.finalize(mortal, int)
    else:
        kept[mortal] = 1
    sys.setprofile(watch)
    del mortal
    sys.setprofile(None)
    assert watch.found
