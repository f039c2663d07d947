"""tests/conftest.py handles unavailable backends, missing kernels, known defects, and rows of tables."""

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

@pytest.mark.rows(
    ("name", "number"), [("relu", 0), ("relu", 1), ("relu", 2), ("relu", 3), ("exp", 4)],
    ids=lambda x: {1: "odd"}.get(x, str(x)),
)
def test_rows(name, number, backend):
    assert number % 2 == 0

@pytest.mark.rows("number", [2, 3], ids=str)
def test_rows_that_should_raise(number):
    with pytest.raises(ZeroDivisionError):
        1 / (number - 3)

@pytest.mark.rows(
    ("kernel", "kind"),
    [*(("Sin", x) for x in ("odd", "even")), *((x, y) for x in ("partly", "wrongly") for y in ("missing", "right"))],
)
def test_rows_of_missing_kernels(kernel, kind, backend):
    if kernel == "Sin" or kind == "missing":
        test_missing_kernel(backend)
    assert kernel != "wrongly"

DRAWN = []

@pytest.mark.rows("case", [" ", "  "])
def test_random_numbers_of_rows(case, rng):
    DRAWN.append(rng.integers(1 << 30))
    assert DRAWN[-1] == DRAWN[0]
"""


def run_pytest(folder, *arguments, expected=""):
    """Run the tests above in another process."""
    shutil.copy(CONFTEST_FILE, folder)
    (folder / "test_it.py").write_text(TEST_FILE_TEXT)
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    broken(backend, *, reason)\n    rows(names, table, *, ids)\n"
    )
    command = [sys.executable, "-m", "pytest", "-rA", "--color=no", *arguments]
    environment = {
        **os.environ,
        "COLUMNS": "120",  # of the summary
        "PLUGRAD_EXPECT_BACKENDS": expected,
        "PYTHONPATH": os.pathsep.join(
            [str(CONFTEST_FILE.parent), os.environ.get("PYTHONPATH", "")]
        ),
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def pytest_output(tmp_path_factory):
    """What pytest prints of all tests above, on a backend that may lack kernels."""
    return run_pytest(tmp_path_factory.mktemp("unexpected"), "--backend", "cpu").stdout


def test_known_defects_are_strict_and_belong_to_one_backend(pytest_output):
    assert "XFAIL test_it.py::test_known_defect[cpu] - it is wrong" in pytest_output
    assert (
        "FAILED test_it.py::test_mended_defect[cpu] - [XPASS(strict)] it was wrong" in pytest_output
    )
    assert "PASSED test_it.py::test_defect_of_another_backend[cpu]" in pytest_output


def test_a_missing_kernel_skips_unless_the_backend_is_expected(pytest_output, tmp_path):
    assert "SKIPPED" in pytest_output
    assert "'Sin'" in pytest_output
    assert "FAILED test_it.py::test_missing_kernel" not in pytest_output
    expected = run_pytest(
        tmp_path, "--backend", "cpu", "-k", "missing or rows", "--row", "odd", expected="cpu"
    ).stdout
    assert "FAILED test_it.py::test_missing_kernel[cpu] - plugrad.errors.KernelNotFound" in expected
    assert "FAILED test_it.py::test_rows_of_missing_kernels[Sin-cpu]" in expected
    # One row is left, whose error is reported as that of any other test.
    assert "FAILED test_it.py::test_rows[relu-cpu] - assert (1 % 2) == 0" in expected
    assert "test_rows[exp-cpu]" not in expected


def test_each_row_that_fails_is_reported(pytest_output):
    assert (
        "FAILED test_it.py::test_rows[relu-cpu] - ExceptionGroup: 2 of 4 rows fail" in pytest_output
    )
    assert "The row is 'relu-odd'." in pytest_output
    assert "The row is 'relu-3'." in pytest_output
    assert "The row is 'relu-2'." not in pytest_output
    assert "PASSED test_it.py::test_rows[exp-cpu]" in pytest_output


def test_row_that_should_fail_but_raises_nothing_is_reported(pytest_output):
    assert "FAILED test_it.py::test_rows_that_should_raise[rows]" in pytest_output
    assert "The row is '2'." in pytest_output


def test_rows_are_skipped_one_by_one(pytest_output):
    assert "PASSED test_it.py::test_rows_of_missing_kernels[partly-cpu]" in pytest_output
    assert "FAILED test_it.py::test_rows_of_missing_kernels[wrongly-cpu]" in pytest_output
    assert "test_rows_of_missing_kernels[Sin-cpu]" not in pytest_output  # neither passed nor failed
    assert "partly-missing: backend 'cpu' does not implement kernel 'Sin'" in pytest_output
    assert "partly-right: " not in pytest_output


@pytest.mark.parametrize("workers", ["0", "2"])
def test_nothing_runs_if_no_test_has_the_row(workers, tmp_path):
    """The tests without rows would pass."""
    done = run_pytest(tmp_path, "--backend", "cpu", "--row", "strange", "-n", workers)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "no tests ran" in done.stdout


def test_each_row_draws_the_numbers_that_it_would_draw_alone(pytest_output):
    assert "PASSED test_it.py::test_random_numbers_of_rows[rows]" in pytest_output


@pytest.mark.parametrize(
    ("arguments", "expected"), [((), "cpu,abacus"), (("--backend", "abacus"), "")]
)
def test_a_backend_that_is_expected_and_missing_fails_the_run(arguments, expected, tmp_path):
    done = run_pytest(tmp_path, *arguments, expected=expected)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "'abacus' is expected here: no installed plugin brings a backend" in done.stderr
