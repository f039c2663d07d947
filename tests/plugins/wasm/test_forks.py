"""Forks: a child that uses the backend works or gets an error, and never hangs."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from plugrad.extend import BackendUnavailable
from plugrad_wasm import forks

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

# A trap is a signal, and a child that gets none of them would end as if nothing had happened.
FORKING_PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import plugrad, plugrad_wasm

plugrad.use("wasm")
x = plugrad.asarray(np.random.default_rng(0).standard_normal((500, 500)).astype("float32"))
expected = plugrad.matmul(x, x).numpy()
cube = plugrad_wasm.elementwise("(f32.mul (local.get $x) (f32.mul (local.get $x) (local.get $x)))")
is_over = False


def compute():
    while not is_over:
        plugrad.matmul(x, x)


def multiply(products):
    products.append(plugrad.matmul(x, x).numpy())


def child():
    signal.alarm(5)
    assert (plugrad.asarray([1.0, 2.0]) + 1).tolist() == [2, 3]
    products = []
    threads = [threading.Thread(target=multiply, args=(products,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(products) == 3
    assert all(np.array_equal(product, expected) for product in products)
    assert cube(plugrad.asarray([2.0]).array).shape == (1,)


computing = [threading.Thread(target=compute, daemon=True) for _ in range(2)]
for thread in computing:
    thread.start()
for _ in range(20):
    time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as failure:
            print(repr(failure), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
is_over = True
for thread in computing:
    thread.join()
"""


def test_children_work_while_threads_of_the_parent_compute():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING_PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == (["0"] * 20, "", 0)


def run_in_child(function):
    """Return the exit status of a child that calls a function: 1 for an error, a signal if it hangs."""
    import signal

    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            function()
        except BaseException as failure:
            os._exit(2 if isinstance(failure, BackendUnavailable) else 1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_store_that_is_busy_for_too_long_is_lost_to_the_child(fresh_runner, monkeypatch):
    monkeypatch.setattr(forks, "MAX_FORK_WAIT_SECONDS", 0.05)
    small = fresh_runner.put(np.float32([1, 2, 3]))
    large = fresh_runner.put(np.zeros(100_000, np.float32))
    is_held, is_over = threading.Event(), threading.Event()

    def hold():
        with fresh_runner.store.lock:
            is_held.set()
            is_over.wait()

    def copy():
        np.testing.assert_array_equal(fresh_runner.get(small), [1, 2, 3])

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        assert run_in_child(lambda: fresh_runner.functions["Add"](small, small)) == 2
        assert run_in_child(lambda: fresh_runner.functions["Add"](large, large)) == 2
        assert run_in_child(lambda: run_in_child(copy)) == 0  # reading does no harm
    finally:
        is_over.set()
        thread.join()
    assert run_in_child(lambda: fresh_runner.functions["Add"](small, small)) == 0
    np.testing.assert_array_equal(
        fresh_runner.get(fresh_runner.functions["Add"](large, large)), np.zeros(100_000)
    )


def test_a_thread_may_fork_while_it_holds_the_lock_itself(fresh_runner):
    x = fresh_runner.put(np.float32([1, 2, 3]))

    def compute():
        with fresh_runner.store.lock:
            fresh_runner.functions["Add"](x, x)

    with fresh_runner.store.lock:
        assert run_in_child(compute) == 0
    compute()


def test_two_threads_may_fork_at_once(fresh_runner, runner_class):
    stores = [fresh_runner, runner_class()]
    results = []

    def fork():
        for _ in range(5):
            results.append(
                run_in_child(lambda: [s.store.exports_holding_gil["fill_4"] for s in stores])
            )

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0] * 15


COMPILING_PROGRAM = """
import os, signal
import plugrad, plugrad_wasm
from plugrad.extend import KernelConfig, Shaped, kernel, register_kernel

MODULE = '''(module (memory (export "memory") 1)
  (func (export "plugrad_abi_version") (result i32) (i32.const 1))
  (func (export "kernel") (param i32) (result i32) (i32.const 0)))'''

contract = kernel("test>InChild")(lambda x: Shaped(x.shape, x.dtype))
implementation = plugrad_wasm.load_wasm_kernel(MODULE, contract)
register_kernel(KernelConfig(contract.name, "wasm", implementation))
plugrad.use("wasm")
x = plugrad.asarray([1.0, 4.0])
(x + x).numpy()
child = os.fork()
if child == 0:
    signal.alarm(100)
    assert plugrad.sqrt(x).tolist() == [1, 2]
    assert contract(x).shape == (2,)
    assert plugrad_wasm.elementwise("(f32.sqrt (local.get $x))")(x.array).shape == (2,)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_child_can_compile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILING_PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == (["0"], "", 0)
