"""Run the conformance kit in processes of their own, far from the settings and conftest files of this repository."""

import json
import os
import subprocess
import sys


def environment_without_settings():
    """Return the environment without the settings of plugrad and of pytest."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PLUGRAD_", "PYTEST_"))}


def clean_environment():
    """Return the environment without settings and without the plugins of pytest."""
    return environment_without_settings() | {"PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio"}


def run_outside_repository(folder, program):
    """Run a program in a folder outside of this repository's settings and conftest files."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment_without_settings(),
        capture_output=True,
        text=True,
        check=False,
    )


def run_conformance_kit(folder, backend, **options):
    """Run the conformance kit on a backend; return the exit code, the output and the report."""
    options = {"report": "report.json", **options}
    call = f"run_conformance({backend!r}, **{options!r})"
    done = run_outside_repository(
        folder,
        f"import sys\nfrom plugrad.testing import run_conformance\ncode = {call}\n"
        "assert 'hypothesis' not in sys.modules, 'the kit must not wait for Hypothesis'\n"
        "sys.exit(code)",
    )
    path = folder / "report.json"
    report = json.loads(path.read_text("utf-8")) if path.exists() else None
    return done.returncode, done.stdout + done.stderr, report


def run_pytest(folder, *arguments):
    """Run pytest as an author of plugins does; return the exit code, the output and the failures."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--plugrad-report=report.json", *arguments],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    path = folder / "report.json"  # a run that is refused writes none
    backends = json.loads(path.read_text("utf-8"))["backends"] if path.exists() else {}
    return done.returncode, done.stdout + done.stderr, backends.get("careless")
