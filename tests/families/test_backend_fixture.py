"""What tests/conftest.py does with a backend that cannot run, a missing kernel and a known defect."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST_FILE = Path(__file__).parents[1] / "conftest.py"
TEST_FILE_TEXT = """
import plugrad, pytest

def test_missing_kernel(backend):
    removed = plugrad.unregister_kernel("Sin", backend)
    try:
        plugrad.sin(1.0)
    finally:
        plugrad.register_kernel(removed)

@pytest.mark.broken("cpu", reason="it is wrong")
def test_known_defect(backend):
    assert backend != "cpu"

@pytest.mark.broken("cpu", reason="it was wrong")
def test_mended_defect(backend):
    assert backend == "cpu"

@pytest.mark.broken("abacus", reason="it is wrong elsewhere")
def test_defect_of_another_backend(backend, rng):
    assert rng.integers(10) < 10
"""


@pytest.fixture
def run_pytest(tmp_path):
    shutil.copy(CONFTEST_FILE, tmp_path)
    (tmp_path / "test_it.py").write_text(TEST_FILE_TEXT)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = broken(backend, *, reason)\n")

    def pytest_on(*arguments: str, expected: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-rA", "--color=no", *arguments]
        environment = {
            **os.environ,
            "PLUGRAD_EXPECT_BACKENDS": expected,
            "PYTHONPATH": os.pathsep.join(
                [str(CONFTEST_FILE.parent), os.environ.get("PYTHONPATH", "")]
            ),
        }
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return pytest_on


def test_known_defects_are_strict_and_belong_to_one_backend(run_pytest):
    done = run_pytest("--backend", "cpu", "-k", "defect")
    assert "XFAIL test_it.py::test_known_defect[cpu] - it is wrong" in done.stdout
    assert (
        "FAILED test_it.py::test_mended_defect[cpu] - [XPASS(strict)] it was wrong" in done.stdout
    )
    assert "PASSED test_it.py::test_defect_of_another_backend[cpu]" in done.stdout


def test_a_missing_kernel_skips_unless_the_backend_is_expected(run_pytest):
    done = run_pytest("--backend", "cpu", "-k", "missing")
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "'Sin'" in done.stdout
    done = run_pytest("--backend", "cpu", "-k", "missing", expected="cpu")
    assert done.returncode == 1
    assert "KernelNotFound" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"), [((), "cpu,abacus"), (("--backend", "abacus"), "")]
)
def test_a_backend_that_is_expected_and_missing_fails_the_run(arguments, expected, run_pytest):
    done = run_pytest(*arguments, expected=expected)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "'abacus' is expected here: no installed plugin brings a backend" in done.stderr
