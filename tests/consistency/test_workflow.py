"""The jobs of continuous integration cover the systems and versions of Python that wheels are for."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKFLOW_TEXT = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
JOB_TEXTS = dict(re.findall(r"^  ([\w-]+):(?: #.*)?\n((?:    .*\n)+)", WORKFLOW_TEXT, re.MULTILINE))
"""The lines of each job, by its name."""


def find_matrix(job, name):
    """Return the values of one entry of a job's matrix."""
    (values,) = re.findall(rf"^ +{name}: \[(.*)\]$", JOB_TEXTS[job], re.MULTILINE)
    return [value.strip(' "') for value in values.split(",")]


def test_every_system_that_wheels_are_for_has_a_job():
    machines = find_matrix("wheels", "machine")
    systems = {re.sub(r"-[\d.]+", "", machine) for machine in machines}
    assert systems == {"macos", "macos-intel", "ubuntu-arm", "windows"}
    assert JOB_TEXTS["test"].count("runs-on: ubuntu-latest") == 1
    assert "needs: install" in JOB_TEXTS["wheels"]
    assert "plugrad conformance cpu" in JOB_TEXTS["wheels"]


def test_every_version_of_python_has_a_job():
    versions = find_matrix("test", "python-version")
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    least = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert least is not None
    assert least[1] == versions[0]
    assert find_matrix("wheels", "python-version") == [versions[0], versions[-1]]
    assert 'python-version: "3.14t"' in JOB_TEXTS["free-threaded"]
    assert JOB_TEXTS["free-threaded"].count('PYTHON_GIL: "0"') == 2


def test_scripts_that_the_jobs_run_exist():
    commands = re.findall(r"- run: (.*)", WORKFLOW_TEXT)
    assert len(commands) >= 8
    named = {w for c in commands for w in c.split() if re.match(r"(tests|plugins|core|\.ci)\b", w)}
    assert len(named) >= 8
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert "\ncheck:" in (ROOT / "Makefile").read_text("utf-8")
