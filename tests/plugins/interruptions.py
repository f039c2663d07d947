"""A program that interrupts computations; its arguments are the kind of interruption, the backend and the tries.

What is raised from outside must come out unchanged, and afterwards everything must compute as before.
"""

import ctypes
import os
import random
import signal
import sys
import threading
import time
import traceback

import numpy as np

import plugrad

INPUT_VALUES = np.arange(-6, 6, dtype="float32").reshape(3, 4)


class InterruptedLate(Exception):
    """The exception that the signal handler raises."""


def compute_tensors():
    """Return the tensors of a transfer, a product, a view and a gradient."""
    x = plugrad.asarray(INPUT_VALUES)
    y = plugrad.relu(x @ x.T) + x[:, :3] * 2
    gradient = plugrad.grad(lambda t: plugrad.sum(plugrad.square(t)))(y.reshape((9,))[2:])
    return plugrad.sum(gradient), y


def read_tensors(tensors):
    """Return the values of tensors."""
    scalar, matrix = tensors
    return scalar.item(), matrix.tolist()


def compute_and_read():
    return read_tensors(compute_tensors())


def expected_values():
    y = np.maximum(INPUT_VALUES @ INPUT_VALUES.T, 0) + INPUT_VALUES[:, :3] * 2
    return float(2 * y.reshape(9)[2:].sum()), y.tolist()


def find_problem(interrupted):
    """Run an interrupted function; return the problems of its outcome and of the next computation."""
    try:
        interrupted()
    except InterruptedLate as error:
        problem = "" if error.__cause__ is None else f"it has the cause {error.__cause__!r}"
    except BaseException:
        problem = traceback.format_exc()
    else:
        problem = "it was swallowed"
    try:
        if compute_and_read() != expected_values():
            problem += "; what follows is wrong"
    except BaseException:
        problem += "; what follows fails: " + traceback.format_exc()
    return problem


def compute_for_seconds(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        compute_and_read()


def raise_interruption(number, frame):
    raise InterruptedLate


def run_with_alarms(tries):
    """Yield the problems after alarms at random moments of a computation."""
    signal.signal(signal.SIGALRM, raise_interruption)
    compute_and_read()
    start = time.perf_counter()
    compute_and_read()
    taken = time.perf_counter() - start

    def interrupted():
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + random.random() * max(1.5 * taken, 0.004))
        compute_for_seconds(2)

    for _ in range(tries):
        if problem := find_problem(interrupted):
            yield problem


def run_with_thread_exceptions(tries):
    """Yield the problems after another thread has raised exceptions in the computing one."""
    # NumPy's products give Python's lock away and take it back at once, for which a thread that waits the usual
    # 5 ms begins to wait anew each time.
    sys.setswitchinterval(1e-5)
    compute_and_read()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    me = ctypes.c_ulong(threading.get_ident())

    def send():
        begun.wait()
        time.sleep(0.005 * random.random())
        raise_in(me, ctypes.py_object(InterruptedLate))
        sent.set()

    def interrupted():
        begun.set()
        # On a busy machine the other thread can wait for Python's lock for seconds.
        while not sent.is_set():
            compute_and_read()
        compute_for_seconds(1)

    for _ in range(tries):
        begun, sent = threading.Event(), threading.Event()
        # Before the work: Python's own code must not be interrupted while it starts the thread.
        sender = threading.Thread(target=send)
        sender.start()
        problem = find_problem(interrupted)
        sender.join()
        if problem:
            yield problem


class InterruptingTracer:
    """A trace function that raises at one of plugrad's lines as a signal handler would, and counts the lines before."""

    def __init__(self, line, functions=()):
        self.line = line
        self.functions = functions
        self.seen = set()
        self.place = ""

    def line_key(self, frame):
        """Return the key of a line; lines with the same key count once."""
        return frame.f_code, frame.f_lineno

    def __call__(self, frame, event, argument):
        if "plugrad" not in frame.f_code.co_filename:
            return None
        if self.functions and frame.f_code.co_name not in self.functions:
            return self
        if event == "line" and (place := self.line_key(frame)) not in self.seen:
            self.seen.add(place)
            if len(self.seen) == self.line:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise InterruptedLate
        return self


class EveryLineTracer(InterruptingTracer):
    """A tracer that counts each execution of a line, optionally only in some functions."""

    def event(self, frame):
        return len(self.seen)


def interrupt_first_use(tries):
    """Yield the problems after the first use of a backend was interrupted at some lines, in a process each."""
    return interrupt_at_lines(
        tries, InterruptingTracer, lambda: None, lambda nothing: compute_and_read()
    )


SUBMITTING_FUNCTIONS = ("_end", "end", "fetch", "map", "submit")
"""The functions of webgpu between the end of a pass and the wait for its results."""


def interrupt_first_read(tries):
    """Yield the problems after the first read-back, which waits for all earlier work, was interrupted at some lines."""
    functions = SUBMITTING_FUNCTIONS if plugrad.config.get("backend") == "webgpu" else ()
    return interrupt_at_lines(
        tries, lambda line: EveryLineTracer(line, functions), compute_tensors, read_tensors
    )


def interrupt_at_lines(tries, make, prepare, use):
    """Yield the problems after a function was interrupted at some lines, evenly spaced."""
    if plugrad.config.get("backend") == "webgpu":
        import wgpu.backends.wgpu_native  # noqa: F401 - it takes a second, and is not ours
    lines, _ = interrupt_in_child(make(0), prepare, use)
    for i in range(min(tries, lines)):
        line = 1 + int(lines * (i + random.random()) / min(tries, lines))
        _, problem = interrupt_in_child(make(line), prepare, use)
        if problem:
            yield problem


def interrupt_in_child(tracer, prepare, use):
    """Return the number of lines before the interruption, and the problems, as a child process reports them."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:

        def interrupted():
            prepared = prepare()
            sys.settrace(tracer)
            try:
                use(prepared)
            finally:
                sys.settrace(None)
            if not tracer.place:
                raise InterruptedLate  # there are fewer lines

        problem = find_problem(interrupted)
        report = f"{len(tracer.seen)}\n{problem and f'{tracer.place}: {problem}'}"
        os.write(writer, report.encode()[:60_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as file:
        count, _, problem = file.read().partition("\n")
    status = os.waitpid(child, 0)[1]
    return int(count or 0), problem or (f"the process ended with {status}" if status else "")


if __name__ == "__main__":
    what, backend, tries = sys.argv[1:]
    random.seed(int(tries))
    plugrad.config.set("backend", backend)
    INTERRUPTION_KINDS = {
        "alarms": run_with_alarms,
        "threads": run_with_thread_exceptions,
        "first": interrupt_first_use,
        "read": interrupt_first_read,
    }
    problems = list(INTERRUPTION_KINDS[what](int(tries)))
    print(*problems, sep="\n" + "-" * 70 + "\n")
    sys.exit(f"{len(problems)} of {tries} went wrong" if problems else 0)
