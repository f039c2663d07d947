"""NumPy's warnings, in a process of its own: pytest has filters for warnings too."""

import subprocess
import sys

import pytest

OPS_PROGRAM = """
import numpy as np, plugrad
plugrad.use("cpu")
zero, large = plugrad.asarray([0.0]), plugrad.asarray([1e30])
assert plugrad.log(zero).item() == -np.inf
assert np.isnan((zero / zero).item())
assert (1 / zero).item() == plugrad.exp(large).item() == (large * large).item() == np.inf
assert plugrad.floor_divide([1], 0).item() == 0
assert np.isnan(plugrad.grad(plugrad.sqrt)(zero - 1).item())
assert np.isnan((plugrad.asarray([[np.inf, -np.inf]]) @ plugrad.ones((2, 1))).item())
"""
NUMPY_PROGRAM = """
import numpy as np, plugrad
plugrad.ones((2,), device="cpu")
np.log(np.zeros(2))
"""


def run_with_warnings_as_errors(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )


def test_values_that_the_contracts_define_do_not_warn():
    done = run_with_warnings_as_errors(OPS_PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")


def test_numpy_warns_its_other_users():
    with pytest.raises(subprocess.CalledProcessError):
        run_with_warnings_as_errors(NUMPY_PROGRAM).check_returncode()
    assert "RuntimeWarning: divide by zero" in run_with_warnings_as_errors(NUMPY_PROGRAM).stderr
