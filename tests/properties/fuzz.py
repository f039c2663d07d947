"""Call every public callable with anything for every argument; only errors of plugrad may come out.

The worker of `test_fuzz`. It makes calls in a process of its own, and says on standard output what
it does, so that a crash and a hang have a name, too. A call depends on the backend, the seed and its
number only, so that it can be made again, by itself:

    cd tests; python -m properties.fuzz --backend wasm --seed 0 --first 1234 --calls 1
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import os
import random
import re
import reprlib
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

import plugrad
from plugrad.errors import KernelFailed, PlugradError
from properties.fuzz_targets import make_targets
from properties.fuzz_values import OwnError, RandomValues

MAX_CALL_SECONDS = 5  # of processor time for one call
MAX_WALL_SECONDS = 60  # seconds after which a call hangs, also on a busy machine
MAX_GROWTH_MEBIBYTES = 600  # MiB by which one call may raise the peak of resident memory
MAX_ADDRESS_SPACE = 3 * 2**30  # bytes of data of the process; more is a MemoryError

length_limited_repr = reprlib.Repr()
length_limited_repr.maxother = length_limited_repr.maxstring = 120


def short_repr(value):
    """Return a short text for any value, even if its methods raise."""
    try:
        return length_limited_repr.repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {error!r}>"


def is_expected_error(error):
    """Whether an error is one of plugrad, or one that an argument's code raised."""
    if isinstance(error, KernelFailed):  # a kernel was given what the op should have refused
        return isinstance(error.__cause__, OwnError)
    return isinstance(error, PlugradError | OwnError)


def peak_resident_mebibytes():
    """Return the peak resident memory in MiB.

    What `getrusage` says includes the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def find_problem(function, args, kwargs):
    """Return the problem of a call, or None."""
    memory, started = peak_resident_mebibytes(), time.process_time()
    try:
        function(*args, **kwargs)
    except BaseException as error:
        if not is_expected_error(error):
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error}"[:300] + f" ({where.filename}:{where.lineno})"
        if isinstance(error, KeyboardInterrupt):
            raise
    seconds, grown = time.process_time() - started, peak_resident_mebibytes() - memory
    if seconds > MAX_CALL_SECONDS:
        return f"took {seconds:.1f} seconds"
    if grown > MAX_GROWTH_MEBIBYTES:
        return f"took {grown:.0f} MiB"
    return None


def write_report(kind, **what):
    """Write a report line for the parent process."""
    print(json.dumps({"kind": kind, **what}), flush=True, file=sys.__stdout__)


def main():
    """Make random calls, and report those that fail unexpectedly."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--only", default="", help="names of callables")
    options = parser.parse_args()
    known = {n: t for n, t in make_targets().items() if options.only in n}
    names = sorted(known)
    other = "cpu" if options.backend != "cpu" else next(iter(other_backends("cpu")), "cpu")
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
    # A text in place of a number of another length is a warning in NumPy, and its results are unspoilt.
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    sys.stdout = io.StringIO()  # where an argument prints
    with tempfile.TemporaryDirectory() as folder, plugrad.use(options.backend):
        os.chdir(folder)  # for the files that calls write
        plugrad.ones(2).numpy()
        for number in range(options.first, options.first + options.calls):
            rng = random.Random(f"{options.backend} {options.seed} {number}")
            name = names[number % len(names)]
            write_report("call", number=number, name=name)
            faulthandler.dump_traceback_later(MAX_WALL_SECONDS, exit=True)
            function, args, kwargs = known[name](RandomValues(rng, options.backend, other))
            wrong = find_problem(function, args, kwargs)
            if wrong is not None:
                given = [short_repr(x) for x in args] + [
                    f"{n}={short_repr(x)}" for n, x in kwargs.items()
                ]
                write_report(
                    "finding", number=number, name=name, given=", ".join(given), wrong=wrong
                )
    faulthandler.cancel_dump_traceback_later()
    write_report("end")


def other_backends(name):
    """Return the other available backends."""
    for candidate in plugrad.backends():
        if candidate.name != name and candidate.name != "webgpu":
            yield candidate.name


if __name__ == "__main__":
    main()
