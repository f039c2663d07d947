"""Programs that end in the middle of work, and work that is interrupted: quietly, on every backend.

pytest tests/plugins/test_endings.py --tries 100     each ending a hundred times
"""

import os
import subprocess
import sys

import pytest

import plugrad

PROGRAM_START = """
import os, random, sys, threading, time
import plugrad

backend = sys.argv[1]
plugrad.config.set("backend", backend)
kept = [plugrad.ones((100, 100)) for _ in range(3)]

def compute():
    x = plugrad.ones((100, 100)) / 100
    while True:
        plugrad.tanh(x @ x).numpy()

def start(daemon):
    thread = threading.Thread(target=compute, daemon=daemon)
    thread.start()
    time.sleep(0.1 + 0.2 * random.random())
"""
PROGRAM_ENDINGS = {
    "live tensors": "assert kept[0].numpy().sum() == 10_000",
    "recorded work": "for _ in range(200): kept.append(kept[-1] * 1.5)",
    "open blocks": """
plugrad.use(backend).__enter__()
scope = plugrad.tidy()
scope.__enter__()
kept.append(kept[0] + 1)
""",
    "a recorded gradient": "kept.append(plugrad.vjp(lambda x: x * x, kept[0]))",
    "a daemon thread that computes": "start(daemon=True)",
    "three daemon threads that compute": "for _ in range(3): start(daemon=True)",
    "a child": """
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
""",
    "a child of a process that computes": """
start(daemon=True)
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
""",
}
JOINED_THREADS_PROGRAM = """
import atexit, sys, threading, time

is_over = threading.Event()
threads = []

def end():
    is_over.set()
    for thread in threads:
        thread.join()

atexit.register(end)  # runs last, because it is registered before the backend opens

import plugrad

plugrad.config.set("backend", sys.argv[1])
x = plugrad.ones((100, 100)) / 100
x.numpy()

def compute():
    while not is_over.is_set():
        plugrad.tanh(x @ x).numpy()

threads += [threading.Thread(target=compute, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.2)
sys.exit(5)
"""
INTERRUPTED_PROGRAM = """
import gc, signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored
x, w = plugrad.ones((64, 128)) / 128, plugrad.Variable(plugrad.ones((128, 128)) / 128)
optimizer = plugrad.optimizers.SGD(0.0)

def step():
    return optimizer.minimize(lambda: plugrad.mean(plugrad.tanh(x @ w) @ w), [w]).item()

def interrupt():
    time.sleep(0.03 * random.random())
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

right = [step(), step()][-1]
gc.collect()
before = plugrad.memory()
for _ in range(int(sys.argv[2])):
    sent = []
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        while not sent or time.perf_counter() < sent[0] + 0.5:
            step()
    except KeyboardInterrupt:
        pass
    else:
        sys.exit("an interrupt was lost")
    thread.join()
    assert step() == right, step()
gc.collect()
after = plugrad.memory()
assert before[:3] == after[:3], (before, after)
"""


@pytest.fixture
def try_count(request):
    return request.config.getoption("--tries")


def run_program(program, *arguments, start=PROGRAM_START, **variables):
    return subprocess.run(
        [sys.executable, "-c", start + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | variables,
    )


@pytest.mark.parametrize("ending", PROGRAM_ENDINGS)
def test_program_ends_quietly_with_its_own_status(ending, backend, try_count):
    variables = {}
    if ending == "a child of a process that computes":
        # A fork while another thread multiplies matrices hangs NumPy's OpenBLAS, if that has threads.
        variables["OPENBLAS_NUM_THREADS"] = "1"
    for _ in range(try_count):
        done = run_program(PROGRAM_ENDINGS[ending] + "\nsys.exit(5)", backend, **variables)
        assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


def test_an_exit_function_may_join_threads_that_compute(backend):
    done = run_program(JOINED_THREADS_PROGRAM, backend, start="")
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


def test_no_python_code_runs_when_an_array_dies(backend):
    """Python delivers Ctrl-C in the next Python code; in a finalizer, the exception would be lost."""
    x = plugrad.zeros((200, 200))
    device = x.device
    before = plugrad.memory().backends[device]
    called = []
    sys.setprofile(lambda frame, event, value: called.append((event, frame.f_code.co_name)))
    del x
    sys.setprofile(None)
    after = plugrad.memory().backends[device]
    assert [name for event, name in called if event == "call"] == []
    assert before.buffers - after.buffers == 1
    assert before.bytes - after.bytes >= 160_000


def test_interrupts_are_raised_at_once_and_leak_nothing(backend, try_count):
    done = run_program(INTERRUPTED_PROGRAM, backend, str(max(20, 2 * try_count)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
