"""Random arguments of every public callable raise only errors of plugrad.

Nothing crashes, hangs, or takes seconds or gigabytes before it raises. `make test` makes a few hundred
calls on each backend. Many more are made by

    FUZZ_CALLS=20000 make test ARGS="tests/properties/test_fuzz.py --backend cpu"
    FUZZ_CALLS=5000 make test ARGS="tests/properties/test_fuzz.py --backend wasm,webgpu"

and others with FUZZ_SEED=1. What goes wrong is listed with the command that repeats the call. How
calls are made is in `fuzz`, with which values in `fuzz_values`, and of what in `fuzz_targets`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import plugrad
from plugins.running import clean_environment
from properties import fuzz
from properties.fuzz_targets import UNCALLED_NAMES, make_targets, public_callables
from properties.fuzz_values import OwnError

CALLS = int(os.environ.get("FUZZ_CALLS", "300"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
CALLS_PER_PROCESS = 2500  # calls in one process
TESTS_FOLDER = Path(__file__).parents[1]
FUZZ_SCRIPT = "from properties.fuzz import main; main()"


def run_batch(backend, first, calls, program=FUZZ_SCRIPT, seed=SEED):
    """Make calls in a new process; return the problems, and the number of the next call."""
    where = [
        "--backend",
        backend,
        "--seed",
        str(seed),
        "--first",
        str(first),
        "--calls",
        str(calls),
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *where],
        cwd=TESTS_FOLDER,
        env=clean_environment(TESTS_FOLDER),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [line for line in lines if line["kind"] == "finding"]
    if lines and lines[-1]["kind"] == "end":
        return wrong, first + calls
    assert lines, done.stderr  # the first call was never reached
    last = [line for line in lines if line["kind"] == "call"][-1]
    how = (
        "hangs"
        if "Timeout" in done.stderr
        else f"ends the process: {describe_exit(done.returncode)}"
    )
    return [*wrong, {**last, "wrong": f"{how}\n{done.stderr[-2000:]}"}], last["number"] + 1


def describe_exit(status):
    """Return a description of how a process ended."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def describe_finding(finding, backend, seed=SEED):
    """Return a description of a failed call, and how to repeat it."""
    return (
        f"{finding['name']}({finding.get('given', '…')}): {finding['wrong']}\n"
        f"    cd tests; python -m properties.fuzz --backend {backend} --seed {seed} "
        f"--first {finding['number']} --calls 1"
    )


def test_only_errors_of_plugrad_leave_a_call(backend):
    wrong, number = [], 0
    while number < CALLS:
        more, number = run_batch(backend, number, min(CALLS_PER_PROCESS, CALLS - number))
        wrong += [describe_finding(finding, backend) for finding in more]
    assert not wrong, f"{len(wrong)} of {CALLS} calls:\n" + "\n".join(wrong)


def test_every_public_callable_is_called():
    assert make_targets().keys() >= public_callables().keys()
    everything = {
        n
        for space in ("image", "losses", "optimizers", "random", "tfjs")
        for n in public_callable_names(space)
    }
    assert UNCALLED_NAMES.keys() <= {*dir(plugrad), *everything}


def public_callable_names(space):
    return [f"{space}.{name}" for name in dir(getattr(plugrad, space))]


def test_a_call_with_one_number_is_always_the_same():
    found, _ = run_batch("cpu", 17, 3, ONE_TARGET_SCRIPT, seed=3)
    number = random.Random("cpu 3 19").random()
    assert (found[2]["number"], found[2]["given"]) == (19, f"{number}, 'x'")


PATCHED_SCRIPT = "from properties import fuzz; fuzz.make_targets = lambda: {%s}; fuzz.main()"
ONE_TARGET_SCRIPT = PATCHED_SCRIPT % '"f": lambda values: (int, [values.rng.random(), "x"], {})'


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("__import__('os').abort()", "ends the process: SIGABRT"),
        ("bytearray(10**9)", "MiB"),
    ],
)
def test_fuzzing_finds_crashes_and_memory_growth(body, finding):
    wrong, number = run_batch(
        "cpu", 7, 1, PATCHED_SCRIPT % f'"f": lambda values: (lambda: {body}, [], {{}})'
    )
    assert number == 8
    assert [(w["name"], w["number"]) for w in wrong] == [("f", 7)]
    assert finding in wrong[0]["wrong"]
    assert "--first 7 --calls 1" in describe_finding(wrong[0], "cpu")


def test_a_call_that_hangs_is_found():
    stuck = PATCHED_SCRIPT % '"f": lambda values: (__import__("time").sleep, [60], {})'
    wrong, _ = run_batch(
        "cpu", 0, 1, stuck.replace("fuzz.main", "fuzz.MAX_WALL_SECONDS = 1; fuzz.main")
    )
    assert wrong[0]["wrong"].startswith("hangs")


def test_fuzzing_ignores_errors_raised_by_arguments(monkeypatch):
    def failing():
        raise OwnError

    assert fuzz.find_problem(failing, [], {}) is None
    assert fuzz.find_problem(plugrad.exp, [None], {}) is None
    assert "TypeError" in fuzz.find_problem(plugrad.exp, [], {})
    assert "SystemExit" in fuzz.find_problem(sys.exit, [], {})
    monkeypatch.setattr(fuzz, "MAX_CALL_SECONDS", 0.01)
    assert "seconds" in fuzz.find_problem(
        lambda: [time.process_time() for _ in range(10**6)], [], {}
    )
