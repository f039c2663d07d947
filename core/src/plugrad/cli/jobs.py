"""Run the code of plugins in separate processes, so that one that crashes, hangs or exits does not affect the rest.

A job is a function of `plugrad.cli.child`. Its process writes its results to a file, line by line, so
that the last stage that it reached is known.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.interruptions import suppress_failures

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Mapping

DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""The number of seconds that a plugin may take; opening a GPU for the first time compiles shaders."""
BOOTSTRAP_CODE: Final = (
    "import json, sys; request = json.load(sys.stdin); sys.path[:] = request['path']; "
    "from plugrad.cli.child import main; main(request)"
)
"""The Python code that the separate process runs."""
POLL_INTERVAL_SECONDS: Final = 0.01
"""How long to wait before running processes are looked at again."""
FIRST_STAGE_DESCRIPTION: Final = "plugrad itself is imported"
"""The stage before the first one that a job reports."""


def add_timeout_argument(parser: ArgumentParser) -> None:
    """Add the argument ``--timeout``."""
    parser.add_argument(
        "--timeout",
        type=parse_seconds,
        default=DEFAULT_TIMEOUT_SECONDS,
        metavar="S",
        help="the number of seconds that each plugin may take (default: %(default)g)",
    )


def parse_seconds(text: str) -> float:
    """Return the number of seconds that `text` denotes; it must be greater than 0 and less than a million."""
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1e6:
            return value
    raise ArgumentTypeError(f"{text!r} must be a number of seconds between 0 and a million")


class Job(NamedTuple):
    """The work for one process: the name of a function of `plugrad.cli.child`, and its arguments."""

    name: str
    """The name of the function."""
    arguments: Mapping[str, Any]
    """The arguments of the function by name, as JSON can hold them."""


class Outcome(NamedTuple):
    """How a job ended."""

    report: dict[str, Any]
    """What the job reported, by key."""
    problem: str
    """What went wrong, as a sentence without a subject, or ``""``."""
    details: str
    """The traceback, or the output of the process, if something went wrong."""
    seconds: float
    """How long the process ran."""
    has_started: bool
    """Whether plugrad itself could be imported."""


class _RunningJob:
    """A running process, and the temporary folder with its records and output."""

    def __init__(self, job: Job, timeout: float) -> None:
        self._folder = TemporaryDirectory(prefix="plugrad-", ignore_cleanup_errors=True)
        self._records = Path(self._folder.name) / "records"
        self._output = Path(self._folder.name) / "output"
        self._started = time.monotonic()
        self._timeout = timeout
        request = {
            "path": sys.path,
            "job": job.name,
            "arguments": dict(job.arguments),
            "records": str(self._records),
            "deadline": time.time() + timeout,
        }
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOTSTRAP_CODE],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # so that its own child processes can be ended with it
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(json.dumps(request).encode())

    def poll_outcome(self) -> Outcome | None:
        """Return the outcome, or None if the process is still running."""
        seconds = time.monotonic() - self._started
        code = self._process.poll()
        if code is None and seconds < self._timeout:
            return None
        self.kill()
        found, stage = self._read_report()
        error, trace = found.pop("error", ""), found.pop("traceback", "")
        finished, has_started = found.pop("finished", False), stage != FIRST_STAGE_DESCRIPTION
        if error:
            return Outcome(found, f"fails while {stage}: {error}", trace, seconds, has_started)
        if finished and code == 0:
            return Outcome(found, "", "", seconds, has_started)
        stage = "the interpreter ends" if finished else stage
        how = describe_exit_code(code) if code is not None else "hangs"
        problem = f"{how} while {stage}"
        if code is None:
            problem += f": no answer within {self._timeout:g} seconds"
        output = self._output.read_text("utf-8", "replace")
        return Outcome(found, problem, output, seconds, has_started)

    def _read_report(self) -> tuple[dict[str, Any], str]:
        """Return everything that the process reported, and the last stage that it reached."""
        found: dict[str, Any] = {}
        stage = FIRST_STAGE_DESCRIPTION
        lines = self._records.read_text("utf-8").splitlines() if self._records.exists() else []
        for line in lines:
            with contextlib.suppress(ValueError):  # the line is incomplete if the process died
                found |= json.loads(line)
                stage = found.pop("stage", stage)
        return found, stage

    def kill(self) -> None:
        """End the process and the processes that it started."""
        with suppress_failures(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()

    def remove_folder(self) -> None:
        """Remove the temporary folder."""
        self._folder.cleanup()


def describe_exit_code(code: int) -> str:
    """Return a phrase for how a process ended, given its return code."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"crashes with {signal.Signals(-code).name}"
    if code >= 0xC0000000:  # a crash on Windows
        return f"crashes with error {code:#x}"
    return f"ends the process with exit code {code}"


def run_jobs(jobs: Iterable[Job], timeout: float) -> list[Outcome]:
    """Return the outcomes of `jobs` in their order; several jobs run at the same time."""
    waiting = list(enumerate(jobs))
    running: dict[int, _RunningJob] = {}
    outcomes: dict[int, Outcome] = {}
    at_once = max(2, os.cpu_count() or 1)
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                i, job = waiting.pop(0)
                running[i] = _RunningJob(job, timeout)
            for i, process in list(running.items()):
                if outcome := process.poll_outcome():
                    outcomes[i] = outcome
                    running.pop(i).remove_folder()
            time.sleep(POLL_INTERVAL_SECONDS)
    finally:
        for process in running.values():  # not empty after an interruption by the user
            process.kill()
            process.remove_folder()
    return [outcomes[i] for i in sorted(outcomes)]
