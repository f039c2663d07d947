"""Foreign modules that are stopped: by the clock, by Ctrl-C, and at the end of the stack."""

import os
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest

import plugrad
from plugins.wasm.foreign import ENDLESS_LOOP_BODY, large_module, module_text
from plugrad.errors import KernelFailed


def test_an_endless_kernel_is_stopped(register_module):
    run = register_module(module_text(ENDLESS_LOOP_BODY), seconds=0.2)
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(KernelFailed, match=r"stopped after 0.2 seconds; load it with a larger"):
            run(plugrad.ones(3))
    assert time.monotonic() - start < 30  # and not for ever
    assert (plugrad.ones(3) + 1).tolist() == [2, 2, 2]


def test_an_endless_start_is_stopped(register_module):
    more = "(func $begin (loop $again (br $again))) (start $begin)"
    with pytest.raises(KernelFailed, match="stopped"):
        register_module(module_text("(i32.const 0)", more=more), seconds=0.2)(plugrad.ones(3))


def test_a_large_module_is_compiled(register_module):
    assert register_module(large_module(1 << 12))(plugrad.ones(3)).shape == (3,)


def test_to_compile_takes_no_longer_than_the_seconds(register_module):
    start = time.monotonic()
    with pytest.raises(KernelFailed, match=r"stopped after 0\.5 seconds"):
        register_module(large_module(5 << 20), seconds=0.5)(plugrad.ones(3))
    assert time.monotonic() - start < 4  # the process that compiles starts first
    assert register_module(module_text("(i32.const 0)"))(plugrad.ones(3)).shape == (3,)


@pytest.mark.parametrize("size", [64 << 10, 512 << 10])
def test_endless_recursion_in_a_thread_with_a_small_stack(size):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SMALL_STACK_PROGRAM,
            str(size),
            module_text("(call 1 (local.get $call))"),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "stack stack ", "")


SMALL_STACK_PROGRAM = """
import sys, threading
import plugrad
from plugrad.errors import KernelFailed
from plugrad.extend import Shaped, kernel
from plugrad_wasm import load_wasm_kernel

contract = kernel("test>Recursion")(lambda x: Shaped(x.shape, x.dtype))
run = load_wasm_kernel(sys.argv[2], contract)
with plugrad.use("wasm"):
    x = plugrad.ones(3).array
try:
    run(x)
except KernelFailed as failure:
    print("stack" * ("call stack exhausted" in str(failure)), end=" ")

def work():
    try:
        run(x)
    except KernelFailed as failure:
        print("stack" * ("call stack exhausted" in str(failure)), end=" ")

threading.stack_size(int(sys.argv[1]))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


INTERRUPTED_PROGRAM = """
import os, signal, sys, threading, time
import plugrad
from plugrad.extend import KernelConfig, Shaped, Spec, kernel, register_kernel
from plugrad_wasm import load_wasm_kernel

signal.signal(signal.SIGINT, signal.default_int_handler)

@kernel("test>Endless")
def endless(x: Spec) -> Spec:
    return Shaped(x.shape, x.dtype)

register_kernel(KernelConfig("test>Endless", "wasm", load_wasm_kernel(sys.argv[1], endless)))
sent = []

def interrupt():
    time.sleep(0.2)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

with plugrad.use("wasm"):
    x = plugrad.ones(3)
    for _ in range(3):
        threading.Thread(target=interrupt).start()
        try:
            endless(x)
        except KeyboardInterrupt:
            print(time.monotonic() - sent[-1] < 0.5)
    assert (x + 1).tolist() == [2, 2, 2]
    print(signal.set_wakeup_fd(-1))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send itself a Ctrl-C")
def test_ctrl_c_stops_an_endless_kernel():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_PROGRAM, module_text(ENDLESS_LOOP_BODY)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["True", "True", "True", "-1"]


INTERRUPTED_COMPILATION_PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import plugrad
from plugrad.extend import Shaped, kernel
from plugrad_wasm import load_wasm_kernel

class Alarm(Exception):
    pass

def ring(*_):
    raise Alarm

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, ring)
contract = kernel("test>Interrupted")(lambda x: Shaped(x.shape, x.dtype))
source = open(sys.argv[1], "rb").read()
with plugrad.use("wasm"):
    x = plugrad.ones(3).array
for number, raised in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, Alarm)):
    run = load_wasm_kernel(source, contract)
    sent = []
    threading.Timer(0.3, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), number))).start()
    try:
        run(x)
    except BaseException as error:
        print(type(error) is raised, time.monotonic() - sent[0] < 1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send itself a Ctrl-C")
@pytest.mark.parametrize("source", [large_module(5 << 20), module_text(ENDLESS_LOOP_BODY).encode()])
def test_exceptions_of_signal_handlers_are_raised_at_once(source, tmp_path):
    (tmp_path / "module").write_bytes(source)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_COMPILATION_PROGRAM, tmp_path / "module"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["True"] * 4


TRAP_PROGRAM = """
import faulthandler, sys
import plugrad
from plugrad.errors import KernelFailed
from plugrad.extend import KernelConfig, Shaped, Spec, kernel, register_kernel
from plugrad_wasm import load_wasm_kernel

with plugrad.use("wasm"):
    x = plugrad.ones(3) + 1
    faulthandler.enable()
    for i, source in enumerate(sys.argv[1:]):
        contract = kernel(f"test>Trap{i}")(lambda x: Shaped(x.shape, x.dtype))
        implementation = load_wasm_kernel(source, contract)
        register_kernel(KernelConfig(contract.name, "wasm", implementation))
        try:
            contract(x)
        except KernelFailed as failure:
            print("trapped" in str(failure))
    assert (x + 1).tolist() == [3, 3, 3]
"""


def test_a_trap_does_not_end_a_process_with_a_faulthandler():
    bodies = [
        *("(unreachable)", "(i32.div_s (i32.const 1) (i32.const 0))"),
        *("(i32.load (i32.const -8))", "(call 1 (local.get $call))"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", TRAP_PROGRAM, *map(module_text, bodies)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["True"] * 4


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")
def test_signal_wakeup_descriptors_still_receive_signals(register_module):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer)
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        run = register_module(module_text(ENDLESS_LOOP_BODY), seconds=0.5)
        Thread(target=lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGUSR1))).start()
        with pytest.raises(KernelFailed, match="stopped after"):
            run(plugrad.ones(3))
        os.set_blocking(reader, False)
        assert os.read(reader, 10) == bytes([signal.SIGUSR1])
    finally:
        signal.signal(signal.SIGUSR1, handler)
        signal.set_wakeup_fd(previous)
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_stops_modules_and_has_a_compiler_of_its_own(register_module):
    run = register_module(module_text(ENDLESS_LOOP_BODY), seconds=0.3)
    other = register_module(module_text("(i32.const 0)"))
    with pytest.raises(KernelFailed, match="stopped after"):
        run(plugrad.ones(3))
    child = os.fork()
    if child == 0:
        try:
            other(plugrad.ones(3))
            run(plugrad.ones(3))
        except KernelFailed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert register_module(module_text("(i32.const 0)"))(plugrad.ones(3)).shape == (3,)
