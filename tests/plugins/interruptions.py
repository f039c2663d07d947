"""A program that is interrupted: it tries what its first argument says on the backend of the second, some times.

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

VALUES = np.arange(-6, 6, dtype="float32").reshape(3, 4)


class Late(Exception):
    """What a handler raises."""


def results():
    """Return tensors of every kind of work: transfers, products, views, gradients."""
    x = plugrad.asarray(VALUES)
    y = plugrad.relu(x @ x.T) + x[:, :3] * 2
    gradient = plugrad.grad(lambda t: plugrad.sum(plugrad.square(t)))(y.reshape((9,))[2:])
    return plugrad.sum(gradient), y


def read(tensors):
    """Return the values of results."""
    scalar, matrix = tensors
    return scalar.item(), matrix.tolist()


def compute():
    return read(results())


def expected():
    y = np.maximum(VALUES @ VALUES.T, 0) + VALUES[:, :3] * 2
    return float(2 * y.reshape(9)[2:].sum()), y.tolist()


def wrong(interrupted):
    """Run a function, and return what is wrong with what comes out of it and with what follows."""
    try:
        interrupted()
    except Late as error:
        problem = "" if error.__cause__ is None else f"it has the cause {error.__cause__!r}"
    except BaseException:
        problem = traceback.format_exc()
    else:
        problem = "it was swallowed"
    try:
        if compute() != expected():
            problem += "; what follows is wrong"
    except BaseException:
        problem += "; what follows fails: " + traceback.format_exc()
    return problem


def compute_for_seconds(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        compute()


def alarm(number, frame):
    raise Late


def alarms(tries):
    """Alarms at random moments of the work."""
    signal.signal(signal.SIGALRM, alarm)
    compute()
    start = time.perf_counter()
    compute()
    taken = time.perf_counter() - start

    def interrupted():
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + random.random() * max(1.5 * taken, 0.004))
        compute_for_seconds(2)

    for _ in range(tries):
        if problem := wrong(interrupted):
            yield problem


def thread_exceptions(tries):
    """Exceptions that another thread raises in the one that works."""
    # NumPy's products give Python's lock away and take it back at once, for which a thread that waits the usual
    # 5 ms begins to wait anew each time.
    sys.setswitchinterval(1e-5)
    compute()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    me = ctypes.c_ulong(threading.get_ident())

    def send():
        begun.wait()
        time.sleep(0.005 * random.random())
        raise_in(me, ctypes.py_object(Late))
        sent.set()

    def interrupted():
        begun.set()
        # On a busy machine the other thread can wait for Python's lock for seconds.
        while not sent.is_set():
            compute()
        compute_for_seconds(1)

    for _ in range(tries):
        begun, sent = threading.Event(), threading.Event()
        # Before the work: Python's own code must not be interrupted while it starts the thread.
        sender = threading.Thread(target=send)
        sender.start()
        problem = wrong(interrupted)
        sender.join()
        if problem:
            yield problem


class Tracer:
    """Raises `Late` at one of plugrad's lines, as a handler of a signal would; counts the lines until then."""

    def __init__(self, line, functions=()):
        self.line = line
        self.functions = functions
        self.seen = set()
        self.place = ""

    def event(self, frame):
        """Return what is counted once."""
        return frame.f_code, frame.f_lineno

    def __call__(self, frame, event, argument):
        if "plugrad" not in frame.f_code.co_filename:
            return None
        if self.functions and frame.f_code.co_name not in self.functions:
            return self
        if event == "line" and (place := self.event(frame)) not in self.seen:
            self.seen.add(place)
            if len(self.seen) == self.line:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise Late
        return self


class RepeatedTracer(Tracer):
    """Counts a line each time that it runs, in some functions if they are given."""

    def event(self, frame):
        return len(self.seen)


def first_use(tries):
    """The first use of a backend is interrupted at some of its lines, each in a process of its own."""
    return at_lines(tries, Tracer, lambda: None, lambda nothing: compute())


SUBMITTING = ("_end", "end", "fetch", "map", "submit")
"""The functions of webgpu between the end of a pass and the wait for its results."""


def first_read(tries):
    """The first read-back, which waits for all work before it, is interrupted at some of its lines."""
    functions = SUBMITTING if plugrad.config.get("backend") == "webgpu" else ()
    return at_lines(tries, lambda line: RepeatedTracer(line, functions), results, read)


def at_lines(tries, make, prepare, use):
    """Yield what is wrong after what is used has been interrupted at some lines, evenly spread."""
    if plugrad.config.get("backend") == "webgpu":
        import wgpu.backends.wgpu_native  # noqa: F401 - it takes a second, and is not ours
    lines, _ = interrupted_at(make(0), prepare, use)
    for i in range(min(tries, lines)):
        line = 1 + int(lines * (i + random.random()) / min(tries, lines))
        _, problem = interrupted_at(make(line), prepare, use)
        if problem:
            yield problem


def interrupted_at(tracer, prepare, use):
    """Return the number of lines until the interruption, and what is wrong, as a child says it."""
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
                raise Late  # there are fewer lines

        problem = wrong(interrupted)
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
    kinds = {"alarms": alarms, "threads": thread_exceptions, "first": first_use, "read": first_read}
    problems = list(kinds[what](int(tries)))
    print(*problems, sep="\n" + "-" * 70 + "\n")
    sys.exit(f"{len(problems)} of {tries} went wrong" if problems else 0)
