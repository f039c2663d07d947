"""Tests of a program that runs with the plugin installed."""

import os
import re
import subprocess
import sys

PROGRAM = """
import plugrad
x = plugrad.asarray([1.0, 2.0])
for _ in range(3):
    x = plugrad.exp(x) * 0.1
"""


def run_program(**variables: str) -> str:
    """Run the program, and return its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PLUGRAD_BACKEND": "cpu", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_calls_and_milliseconds_of_each_kernel_are_printed():
    printed = run_program()
    assert re.search(r"^Exp on cpu: 3 calls, \d+\.\d{3} ms$", printed, re.MULTILINE)
    assert re.search(r"^Multiply on cpu: 3 calls, ", printed, re.MULTILINE)


def test_the_kernel_with_the_most_milliseconds_comes_first():
    times = [float(line.split()[-2]) for line in run_program().splitlines()]
    assert times == sorted(times, reverse=True)


def test_telemetry_can_be_switched_off():
    assert run_program(PLUGRAD_PLUGINS_DISABLE="plugrad-acme-telemetry") == ""
