"""A lost device is an error of plugrad, never the end of the process; a new device can be opened."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("run")  # which skips where there is no device

PROGRAM_START = """
import numpy as np
import plugrad
from plugrad.errors import DeviceLost
from plugrad_webgpu.driver import exits


def check(use, lose=None):
    x = plugrad.asarray(np.ones(1000, np.float32), device="webgpu")
    y = x + x  # is recorded
    y.numpy()
    z = x * 3  # is recorded and not submitted
    device = x.backend.active_device
    lose(device) if lose else x.backend.lose_device()
    for _ in range(2):
        try:
            use(x, z, device)
        except DeviceLost as error:
            assert error.device == ("webgpu:0" if x.backend.lost else ""), error
        else:
            raise AssertionError("nothing was raised")
    plugrad.close_backend(x.backend)  # which plugrad does itself if it has seen the error, as below
    again = plugrad.asarray(np.ones(1000, np.float32), device="webgpu")
    np.testing.assert_array_equal((again + again).numpy(), np.full(1000, 2))
    assert x.backend.is_closed
    for dead in (x, z) if x.backend.lost else ():
        try:
            (dead + dead).numpy()
        except DeviceLost as error:
            assert "is lost, and so are the tensors on it" in str(error), error
        else:
            raise AssertionError("nothing was raised")
    plugrad.close_backend(again.backend)
"""


USES_OF_DEVICE = [
    "x.numpy()",
    "z.numpy()",
    "(x + x).numpy()",
    "plugrad.exp(x).numpy()",
    "plugrad.asarray(np.ones(50_000, np.float32), device=x.backend)",
    "plugrad.asarray(np.ones(3_000_000, np.float32), device=x.backend)",
    "list(x.backend.read([x.array, x.array]))",
    "plugrad.zeros(300_000, device=x.backend).numpy()",
    "plugrad.synchronize(x.backend)",
    "(plugrad.flip(x), device.flush())",  # x + x would wait
    "(x + x, device.pool.trim())",
]


def test_each_use_of_a_lost_device():
    """One process loses a device before each use and opens another, because opening the first takes a second."""
    run_program(
        "\n".join(
            f"print({use!r}, flush=True)\ncheck(lambda x, z, device: {use})"
            for use in USES_OF_DEVICE
        )
    )


@pytest.mark.parametrize("use", ["x.numpy()", "(plugrad.flip(x), device.flush())"])
def test_a_device_that_is_lost_just_before_a_submission(use):
    """`pause_thread_if_exiting` is the last place where another thread may use the device."""
    lose = "setattr(exits, 'pause_thread_if_exiting', device.wgpu_device.destroy)"
    run_program(f"check(lambda x, z, device: {use}, lambda device: {lose})")


def test_the_next_use_by_name_opens_another_device():
    run_program("""
x = plugrad.asarray([1.0, 2.0] * 1000, device="webgpu:0")
with plugrad.use("webgpu"):
    x.backend.lose_device()
    for _ in range(2):
        try:
            x.numpy()
        except DeviceLost as error:
            assert error.device == "webgpu:0"
        else:
            raise AssertionError("nothing was raised")
    try:
        plugrad.zeros(3)
    except DeviceLost as error:
        assert "plugrad.use('webgpu')" in str(error), error
    else:
        raise AssertionError("the choice stands")
plugrad.synchronize()
with plugrad.use("webgpu"):
    y = plugrad.ones(2000) * 2
    assert y.tolist() == [2.0] * 2000
    assert x.backend.is_closed and not y.backend.is_closed
""")


def run_program(program):
    done = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM_START}\n{program}"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
