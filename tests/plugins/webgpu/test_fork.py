"""A forked child gets an error for each use of its parent's device, and never waits."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.usefixtures("run"),  # which skips where there is no device
]

PROGRAM_START = """
import gc, os, signal, sys, threading, time
import numpy as np
import plugrad
from plugrad.errors import BackendUnavailable

def outcome_of(child, leave=os._exit):
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)  # a child that waits dies of it
        try:
            child()
        except BackendUnavailable as error:
            leave(0 if "'spawn'" in str(error) else 2)
        leave(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

plugrad.use("webgpu")
x = plugrad.asarray(np.ones(1000, np.float32))
(x + x).numpy()
backend = x.backend
"""

CHILDREN_PROGRAM = """
def computes():
    x + x

def reads():
    x.numpy()

def reads_what_waits():
    waiting.numpy()

def uploads():
    plugrad.asarray(np.ones(5, np.float32))

def fills():
    plugrad.zeros((3,))

def synchronizes():
    backend.synchronize()

def trims():
    backend.active_device.pool.trim()

def drops_arrays():
    global x
    del x
    gc.collect()
    backend.synchronize()

def closes_and_opens():
    plugrad.close_backend(backend)
    plugrad.asarray(np.ones(5, np.float32), device="webgpu")

def compute():
    while not stop.is_set():
        y = x
        for _ in range(20):
            y = y + x
        assert y.numpy()[0] == 21

children = [
    computes, reads, reads_what_waits, uploads, fills, synchronizes, trims, drops_arrays, closes_and_opens,
]
waiting = x + x  # elementwise calls are recorded later
stop = threading.Event()
thread = threading.Thread(target=compute)
thread.start()
outcomes = []
for i in range(24):
    time.sleep(0.01)
    child = children[i % len(children)]
    outcomes.append((child.__name__, outcome_of(child)))
stop.set()
thread.join()
assert not [name for name, outcome in outcomes if outcome], outcomes
assert (x + x).numpy()[0] == 2  # the parent goes on
"""

EXIT_PROGRAM = """
assert [outcome_of(lambda: x + x, leave=sys.exit) for _ in range(3)] == [0, 0, 0]
"""

FORK_BEFORE_USE_PROGRAM = """
import os
import numpy as np
import plugrad
import plugrad_webgpu

pid = os.fork()
y = plugrad.asarray(np.ones(5, np.float32), device="webgpu")
assert (y + y).numpy()[0] == 2
if pid == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def run_program(program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_use_in_a_child_is_an_error_while_a_thread_of_the_parent_computes():
    run_program(PROGRAM_START + CHILDREN_PROGRAM)


def test_finalizers_at_the_end_of_a_child_leave_the_device_alone(run):
    if run.backend.gpu_device.adapter.info["vendor"] == "NVIDIA":
        pytest.skip("the exit functions of this driver end a child by SIGSEGV")
    run_program(PROGRAM_START + EXIT_PROGRAM)


def test_a_child_that_is_forked_before_the_first_use_opens_a_device():
    run_program(FORK_BEFORE_USE_PROGRAM)
