"""SciPy and scikit-learn take tensors where their documentation says that they take arrays of any library."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="scikit-learn is in the group libraries, not in plugrad")

SUMMARY = re.compile(r"(\w+) on cpu: (\d+) calls, (\d+) accepted .*, (\d+) right")


def test_most_calls_of_scipy_and_sklearn_take_tensors():
    # In a process of its own, because SciPy reads the variable that allows this when it is imported.
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("dispatch.py")],
        env={k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")},
        capture_output=True,
        text=True,
        check=True,
    )
    counts = {name: tuple(map(int, numbers)) for name, *numbers in SUMMARY.findall(done.stdout)}
    assert counts.keys() == {"scipy", "sklearn"}, done.stdout
    for library, least in {"scipy": 80, "sklearn": 45}.items():
        calls, accepted, right = counts[library]
        assert calls >= least
        assert accepted >= 0.97 * calls, done.stdout
        assert right >= 0.96 * calls, done.stdout
