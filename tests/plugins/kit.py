"""Run the conformance kit in processes of their own, far from the settings and conftest files of this repository."""

import json
import os
import subprocess
import sys


def environment():
    """Return the environment without settings, and without what pytest's other plugins do in each run or fixture."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PLUGRAD_", "PYTEST_"))}
    return own | {"PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio"}


def run(folder, program):
    """Run a program in a folder, far from the settings and conftest files of this repository."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def conformance(folder, backend, **options):
    """Run the kit on a backend; return the exit code, what it printed, and the report."""
    options = {"report": "report.json", **options}
    call = f"run_conformance({backend!r}, **{options!r})"
    done = run(folder, f"import sys\nfrom plugrad.testing import run_conformance\nsys.exit({call})")
    path = folder / "report.json"
    report = json.loads(path.read_text("utf-8")) if path.exists() else None
    return done.returncode, done.stdout + done.stderr, report


def own_run(folder, *arguments):
    """Run pytest as an author does; return the exit code, what it printed, and the failures."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--plugrad-report=report.json", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    path = folder / "report.json"  # a run that is refused writes none
    backends = json.loads(path.read_text("utf-8"))["backends"] if path.exists() else {}
    return done.returncode, done.stdout + done.stderr, backends.get("careless")
