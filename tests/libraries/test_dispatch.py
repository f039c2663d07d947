"""SciPy and scikit-learn take tensors where their documentation says that they take arrays of any library."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("sklearn") is None:  # to import it takes as long as to collect all of tests/core
    reason = "scikit-learn is in the group libraries, not in plugrad"
    pytest.skip(reason, allow_module_level=True)

SUMMARY_PATTERN = re.compile(r"(\w+) on \w+: (\d+) calls, (\d+) accepted .*, (\d+) right")
MIN_CALLS = {"scipy": 80, "sklearn": 45}
"""How many calls there are at least."""
# Functions of SciPy in C that take only float64 do not take the float32 of webgpu.
MIN_SHARES = {"cpu": (0.985, 0.98), "wasm": (0.985, 0.98), "webgpu": (0.96, 0.96)}
"""Which parts of them are accepted at least, and right."""
WRONG_CALLS = {"signal.oaconvolve"}
"""The calls that give wrong values without an error: they assign to what is a view in NumPy. The guide lists them."""


def test_most_calls_of_scipy_and_sklearn_take_tensors(backend):
    # In a process of its own, because SciPy reads the variable that allows this when it is imported.
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("dispatch.py"), "--backend", backend],
        env={k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")},
        capture_output=True,
        text=True,
        check=True,
    )
    counts = {
        name: tuple(map(int, numbers)) for name, *numbers in SUMMARY_PATTERN.findall(done.stdout)
    }
    assert counts.keys() == {"scipy", "sklearn"}, done.stdout
    assert set(re.findall(r"^(\S+) +WRONG: ", done.stdout, re.MULTILINE)) == WRONG_CALLS, (
        done.stdout
    )
    share_accepted, share_right = MIN_SHARES[backend]
    for library, least in MIN_CALLS.items():
        calls, accepted, right = counts[library]
        assert calls >= least
        assert accepted >= share_accepted * calls, done.stdout
        assert right >= share_right * calls, done.stdout
