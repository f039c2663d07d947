"""Interruptions, such as exceptions of signal handlers, pass unchanged and leave consistent state.

    pytest tests/plugins/test_interruptions.py --tries 300      each kind three hundred times

`plugins/interruptions.py` is the program that is interrupted.
"""

import builtins
import ctypes
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import plugrad
from core.conftest import FakeBackend, unregister_backend
from plugrad.errors import BackendFailed, KernelFailed, RegistrationError, describe_exception
from plugrad.extend import KernelTable, is_interruption, suppress_failures
from plugrad.kernels import unary
from plugrad.settings import cache

INTERRUPTIONS_PROGRAM = Path(__file__).with_name("interruptions.py")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarms and no fork")


class InterruptedLate(Exception):
    """An exception of a signal handler, unknown to all backends."""


@pytest.mark.parametrize(
    ("what", "tries"), [("alarms", 15), ("threads", 15), ("first", 3), ("read", 4)]
)
def test_interrupted_work_ends_with_the_exception_and_is_right_afterwards(
    what, tries, backend, request
):
    tries = max(tries, request.config.getoption("--tries"))
    done = subprocess.run(
        [sys.executable, INTERRUPTIONS_PROGRAM, what, backend, str(tries)],
        capture_output=True,
        text=True,
        timeout=60 + 5 * tries,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- which exceptions -----------------------------------------------------------------------------


def raise_late(number, frame):
    raise InterruptedLate


def raise_deeper(number, frame):
    raise_late(None, None)


def raise_anything(*arguments):
    raise InterruptedLate


class RaisingHandler:
    def method(self, number, frame):
        raise InterruptedLate

    def __call__(self, number, frame):
        raise InterruptedLate


def raise_with_name(name, number, frame):
    raise InterruptedLate(name)


def raise_timeout(number, frame):
    raise TimeoutError


SIGNAL_HANDLERS = {
    "function": raise_late,
    "function that calls another": raise_deeper,
    "any arguments": raise_anything,
    "method": RaisingHandler().method,
    "callable": RaisingHandler(),
    "partial": partial(raise_with_name, "a name"),
    "built-in class": raise_timeout,
}


@pytest.fixture
def raise_signal(request):
    """A function that raises a signal, whose handler raises an exception."""
    handler = getattr(request, "param", raise_late)
    before = signal.signal(signal.SIGUSR1, handler)
    yield partial(signal.raise_signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def catch_exception(function, *arguments):
    try:
        function(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "raise_signal", SIGNAL_HANDLERS.values(), ids=SIGNAL_HANDLERS, indirect=True
)
def test_exception_of_a_signal_handler_is_an_interruption(raise_signal):
    assert is_interruption(catch_exception(raise_signal))
    assert is_interruption(catch_exception(lambda: [raise_signal() for _ in range(2)]))


@pytest.mark.parametrize("kind", [InterruptedLate, TimeoutError, SystemExit])
def test_exception_injected_by_another_thread_is_an_interruption(kind):
    """The exception arrives in a loop, where no call can have failed."""

    def work():
        me = ctypes.c_ulong(threading.get_ident())
        timer = threading.Timer(
            0.05, ctypes.pythonapi.PyThreadState_SetAsyncExc, (me, ctypes.py_object(kind))
        )
        timer.start()
        while True:
            pass

    error = catch_exception(work)
    assert type(error) is kind
    assert is_interruption(error)


def throw_into_a_generator():
    generator = (x for x in [1, 2])
    next(generator)
    generator.throw(ValueError())


def recurse():
    recurse()


def raise_in_finally():
    try:
        raise InterruptedLate
    finally:
        threading.current_thread()


ORDINARY_FAILURES = {
    "raise": lambda: raise_late(1, None),
    "raise at the end of finally": raise_in_finally,
    "a built-in function": lambda: int("x"),
    "NumPy's compiled code": lambda: np.ones(2) @ np.ones(3),
    "a class of NumPy": lambda: np.add("a", 1),
    "a class of NumPy, of which NumPy says the module": lambda: np.sum(np.ones(1), axis=3),
    "a key": lambda: {}["x"],
    "division": lambda: 1 / 0,
    "too deep": recurse,
    "a generator": throw_into_a_generator,
    "exit": sys.exit,
    "import": lambda: __import__("no_such_module"),
    "JSON": lambda: __import__("json").loads("{"),
}


@pytest.mark.parametrize("name", ORDINARY_FAILURES)
def test_exception_raised_by_code_is_no_interruption(name):
    assert not is_interruption(catch_exception(ORDINARY_FAILURES[name]))


def test_exception_thrown_into_a_generator_expression_is_an_interruption():
    numbers = (number for number in range(2))
    next(numbers)
    with pytest.raises(InterruptedLate) as caught:
        numbers.throw(InterruptedLate())
    assert is_interruption(caught.value)


def test_the_end_of_a_suspended_generator_is_an_interruption():
    found = []

    def generate_once():
        try:
            yield
        except BaseException as error:
            found.append(is_interruption(error))
            raise

    generator = generate_once()
    next(generator)
    generator.close()
    assert found == [True]


def test_ctrl_c_is_an_interruption():
    assert is_interruption(KeyboardInterrupt())
    assert not is_interruption(ValueError())


# --- where they pass ------------------------------------------------------------------------------


@pytest.fixture
def interrupt_backend_method(raise_signal, monkeypatch):
    """A function that makes one method of a backend be interrupted once."""
    FakeBackend.events.clear()

    class Ringing(FakeBackend):
        name = "ringing_device"

    plugrad.register_backend(Ringing.name, Ringing)

    def spoil(method):
        right = getattr(Ringing, method)

        def interrupted(*arguments, **attributes):
            setattr(Ringing, method, right)
            raise_signal()

        setattr(Ringing, method, interrupted)
        return Ringing.name

    yield spoil
    unregister_backend(Ringing.name)


def compute_exp(device):
    return plugrad.exp(plugrad.asarray([0.0, 0.0], device=device)).tolist()


BACKEND_METHODS = {
    "probe": compute_exp,
    "open": compute_exp,
    "dtypes": compute_exp,
    "from_numpy": compute_exp,
    "to_numpy": compute_exp,
    "set_memory_limit": compute_exp,
    "synchronize": lambda device: plugrad.synchronize(compute_exp(device) and device),
    "memory": lambda device: compute_exp(device) and plugrad.memory(),
    "read": lambda device: plugrad.save("saved", {"x": plugrad.zeros(3, device=device)}),
    "close": lambda device: plugrad.close_backend(plugrad.zeros(1, device=device).backend),
}


@pytest.mark.parametrize("method", BACKEND_METHODS)
def test_interrupted_method_of_a_backend_is_no_failure(
    method, interrupt_backend_method, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    device = interrupt_backend_method(method)
    error = catch_exception(BACKEND_METHODS[method], device)
    assert type(error) is InterruptedLate
    assert error.__cause__ is None
    assert [p.status for p in plugrad.backends() if p.name == device] != ["failed"]
    assert compute_exp(device) == [1.0, 1.0]


def test_failing_method_is_still_a_failure(interrupt_backend_method, monkeypatch):
    device = interrupt_backend_method("from_numpy")
    assert type(catch_exception(compute_exp, device)) is InterruptedLate
    kind = type(plugrad.zeros(1, device=device).backend)
    monkeypatch.setattr(kind, "from_numpy", lambda self, array: raise_late(0, None))
    error = catch_exception(compute_exp, device)
    assert type(error) is BackendFailed
    assert type(error.__cause__) is InterruptedLate


def test_interrupted_kernel_is_no_failure(raise_signal):
    x = plugrad.asarray([1.0], device="cpu")
    with plugrad.override_kernel("Exp", "cpu", lambda x: raise_signal()):
        error = catch_exception(plugrad.exp, x)
    assert type(error) is InterruptedLate
    assert error.__cause__ is None
    with plugrad.override_kernel("Exp", "cpu", lambda x: raise_late(0, None)):
        error = catch_exception(plugrad.exp, x)
    assert type(error) is KernelFailed


def test_interrupted_setup_of_a_kernel_is_no_failure(raise_signal, interrupt_backend_method):
    calls = []

    def setup(backend):
        calls.append(backend)
        if len(calls) == 1:
            raise_signal()

    device = interrupt_backend_method("dtypes")
    with plugrad.override_kernel("Exp", device, np.exp):
        assert type(catch_exception(compute_exp, device)) is InterruptedLate
    plugrad.register_kernel(
        plugrad.KernelConfig("Exp", device, np.exp, setup_func=setup), replace=True
    )
    assert type(catch_exception(compute_exp, device)) is InterruptedLate
    assert compute_exp(device) == [1.0, 1.0]
    assert len(calls) == 2


def test_interrupted_import_of_a_plugin_is_repeated(raise_signal, site):
    source = """
        import builtins
        builtins.ring_once()
    """
    site.install_pack("ops", "acme", source)
    rings = [raise_signal]
    builtins.ring_once = lambda: rings.pop()() if rings else None
    try:
        assert type(catch_exception(plugrad.op_pack, "acme")) is InterruptedLate
        assert plugrad.op_pack("acme").__name__ == "acme_acme"
    finally:
        del builtins.ring_once


def test_interrupted_import_of_kernels_is_repeated():
    table = KernelTable("toy")
    module = {"__name__": "toy_kernels", "table": table, "np": np, "unary": unary}
    source = "table.update({unary.exp: np.exp})\n"
    exec(compile(source, "toy_kernels.py", "exec"), dict(module))
    again = dict(module)
    exec(compile(source, "toy_kernels.py", "exec"), again)
    with pytest.raises(RegistrationError, match="implements Exp twice"):
        exec(compile(source, "toy_kernels.py", "exec"), again)
    with pytest.raises(RegistrationError, match="implements Exp twice"):
        exec(compile(source, "other.py", "exec"), module | {"__name__": "other_kernels"})


def test_interrupted_hook_is_no_failure(raise_signal):
    class Plugin:
        @plugrad.hookimpl
        def plugrad_configure(self):
            raise_signal()

    plugrad.register_plugin(Plugin())
    try:
        assert type(catch_exception(plugrad.config.get, "fallback")) is InterruptedLate
    finally:
        plugrad.unregister_plugin("Plugin")


def test_interrupted_text_of_an_error_is_not_replaced(raise_signal):
    class Ringing(Exception):
        def __str__(self):
            raise_signal()

    assert type(catch_exception(describe_exception, Ringing())) is InterruptedLate


@pytest.mark.parametrize("raise_signal", [raise_timeout], indirect=True)
def test_an_alarm_is_no_failure_of_the_system(raise_signal, tmp_path, monkeypatch):
    """Handlers of alarms often raise `TimeoutError`, an `OSError` that is no failure of a cache."""
    monkeypatch.setattr("plugrad.settings.cache.cache_directories", lambda: [tmp_path])
    tmp_path.chmod(0o700)
    digest = cache._content_digest
    monkeypatch.setattr(
        cache, "_content_digest", lambda *args: (len(args) > 1 and raise_signal()) or digest(*args)
    )
    assert (
        type(catch_exception(cache.UserCache("example").write, "key", b"content")) is TimeoutError
    )


def test_suppress_failures_suppresses_only_errors_of_the_block(raise_signal):
    def interrupted(*kinds):
        with suppress_failures(*kinds):
            raise_signal()

    assert type(catch_exception(interrupted, InterruptedLate, OSError)) is InterruptedLate
    with suppress_failures(ValueError, OSError):
        Path("/no/such/file").unlink()
    with pytest.raises(KeyError), suppress_failures(OSError):
        {}["x"]
