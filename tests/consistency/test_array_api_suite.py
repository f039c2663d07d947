"""The public test suite of the array API standard, where a checkout of it is given.

    ARRAY_API_TESTS=/path/to/array-api-tests pytest tests/consistency/test_array_api_suite.py

The checkout needs its submodule and the packages in its requirements.txt. The files in array_api/ list the tests
that must fail, on all backends and on each, with the reasons, and those that are not run because their outcome
depends on the values drawn. Dtypes that a backend does not have are left out. So are the other backends, to whose
devices the suite would copy them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plugrad

LISTS_FOLDER = Path(__file__).parent / "array_api"
STANDARD_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "complex64", "complex128"),
)
SUITE_FOLDER = os.environ.get("ARRAY_API_TESTS", "")
BACKENDS = ("cpu", "wasm", "webgpu")
PYTEST_OPTIONS = (
    *("--max-examples=20", "--disable-deadline", "--hypothesis-derandomize", "--tb=short"),
    *("-o", "xfail_strict=true", "--disable-warnings", "-rfE"),
)


def read_test_lists(*parts: str) -> str:
    """Return the tests in several lists; a list without tests has no file."""
    files = [LISTS_FOLDER / f"{part}.txt" for part in parts]
    return "".join(file.read_text() for file in files if file.exists())


@pytest.mark.skipif(
    not SUITE_FOLDER,
    reason="ARRAY_API_TESTS is not set to a checkout of github.com/data-apis/array-api-tests",
)
def test_array_api_test_suite_passes(backend, tmp_path):
    name = plugrad.which().backend.name
    has = plugrad.__array_namespace_info__().dtypes()
    failing, skipped = tmp_path / "failing.txt", tmp_path / "skipped.txt"
    failing.write_text(read_test_lists("all", name))
    skipped.write_text(read_test_lists(f"{name}-skipped"))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PYTEST_OPTIONS),
            *(f"--xfails-file={failing}", f"--skips-file={skipped}", "array_api_tests"),
        ],
        cwd=SUITE_FOLDER,
        env=os.environ
        | {
            "ARRAY_API_TESTS_MODULE": "plugrad",
            "ARRAY_API_TESTS_SKIP_DTYPES": ",".join(d for d in STANDARD_DTYPES if d not in has),
            "PLUGRAD_BACKEND": name,
            "PLUGRAD_PLUGINS_DISABLE": ",".join(b for b in BACKENDS if b != name),
        },
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
