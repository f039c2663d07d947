"""A process that is forked while another thread computes: its child works, and never hangs."""

import os
import subprocess
import sys
import textwrap

import pytest

FORK_PROGRAM = """
    import os, signal, sys, threading, warnings
    import plugrad

    warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
    x = plugrad.ones((8, 8))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            with plugrad.override_kernel("Abs", "cpu", lambda x: x):
                plugrad.abs(x)
            plugrad.config.set("debug", False)
            plugrad.backends(refresh=True)

    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs dies of it
            plugrad.register_kernel(plugrad.KernelConfig("Mine", "cpu", lambda x: x))
            plugrad.config.set("fallback", "silent")
            plugrad.plugins()
            os._exit(0 if plugrad.sum(plugrad.exp(x)).item() > 0 else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
    stop.set()
    thread.join()
    print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_children_take_no_lock_that_another_thread_held():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK_PROGRAM)],
        env=environment | {"PLUGRAD_BACKEND": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["done"], done.stderr


FORK_DURING_IMPORT_PROGRAM = """
    import os, signal, sys, threading, time, warnings
    import plugrad

    warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
    x = plugrad.ones(3)
    begun = threading.Event()

    class Slow:
        def find_spec(self, name, path, target=None):
            if name == "plugrad.ops.sorting":
                begun.set()
                time.sleep(0.3)

    sys.meta_path.insert(0, Slow())
    thread = threading.Thread(target=lambda: plugrad.sort(x))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        os._exit(0 if plugrad.sort(x).shape == (3,) else 1)
    _, status = os.waitpid(child, 0)
    thread.join()
    print("done" if status == 0 else status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_children_do_not_wait_for_an_import_of_another_thread():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK_DURING_IMPORT_PROGRAM)],
        env=os.environ | {"PLUGRAD_BACKEND": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["done"], done.stderr
