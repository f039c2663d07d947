"""The calls that use wgpu-py alone, as with a version of it whose private parts are not known."""

import subprocess
import sys

import numpy as np
import pytest
import wgpu

from plugrad.extend import ArgumentValueError, OutOfMemory, float32
from plugrad.kernels import binary, convolution, movement, reduction
from plugrad_webgpu import elementwise
from plugrad_webgpu.device import adapters
from plugrad_webgpu.driver import native, portable

FORCED = """
from plugrad_webgpu.device import adapters
adapters.SUPPORTED_WGPU_VERSION = (0, 0)
"""


def test_the_version_decides(run, forced):
    assert run.device._driver is native
    assert forced.device._driver is portable
    assert wgpu.version_info[:2] == adapters.SUPPORTED_WGPU_VERSION


def test_private_parts_that_are_missing(run, monkeypatch, make_runner):
    class Changed:
        def __init__(self, device):
            device.something_that_is_gone  # noqa: B018

    monkeypatch.setattr(native, "NativeDevice", Changed)
    assert make_runner().device._driver is portable


def test_kernels(forced, rng):
    x = rng.standard_normal((1, 9, 8, 3)).astype(np.float32)
    w = rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
    way = {"strides": (1, 1), "pad": "valid"}
    total = sum(x[0, i : i + 7, j : j + 6] @ w[i, j] for i, j in np.ndindex(3, 3))
    np.testing.assert_allclose(forced(convolution.conv2d, x, w, **way)[0], total, atol=1e-5)
    for values in (x, x > 0, np.zeros((0, 3), np.float32)):
        np.testing.assert_array_equal(forced.down(forced.up(values)), values)
    np.testing.assert_allclose(forced(reduction.sum, x, axis=(1, 2)), x.sum((1, 2)), atol=1e-5)
    many = x.reshape((2,) * 3 + (27,))  # parameters in a buffer
    perm = (3, 2, 1, 0)
    np.testing.assert_array_equal(forced(movement.transpose, many, perm=perm), many.transpose(perm))
    forced.backend.synchronize()
    assert forced.backend.memory().buffers == 0


def test_errors(forced, monkeypatch):
    with pytest.raises(ArgumentValueError, match=r"'nonsense\(x\)' does not compile: .*nonsense"):
        elementwise("nonsense(x)")(forced.up(np.ones(3, np.float32)))
    with pytest.raises(ArgumentValueError, match=r"to_buffer: .*wgpu 0\.32 only"):
        forced.device.lend(forced.up(np.ones(3, np.float32)))

    def create_buffer(**_):
        raise wgpu.GPUValidationError("Not enough memory left.")

    with monkeypatch.context() as patch:
        patch.setattr(forced.device.wgpu_device, "create_buffer", create_buffer)
        with pytest.raises(OutOfMemory, match=r"no memory for 5242880 bytes .* release arrays"):
            forced.device.empty((5 << 18,), float32)
    assert forced(binary.add, np.float32([1]), np.float32([2])) == [3]


LOST = """
import numpy as np, plugrad
x = plugrad.asarray(np.ones(1000, np.float32), device="webgpu")
y = plugrad.matmul(x, x)
x.backend.active_device.wgpu_device.destroy()
for use in (y.numpy, lambda: (x + 1).numpy(), x.backend.synchronize):
    try:
        use()
    except plugrad.errors.DeviceLost as error:
        print("plugrad.use('webgpu')" in str(error))
plugrad.close_backend(x.backend)
print((plugrad.ones(2, device="webgpu") + 1).numpy())
"""


def test_a_lost_device(run):
    done = subprocess.run(
        [sys.executable, "-c", FORCED + LOST],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n" * 3 + "[2. 2.]\n", 0), done.stderr
