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

UNSUPPORTED_VERSION_PROGRAM = """
from plugrad_webgpu.device import adapters
adapters.SUPPORTED_WGPU_VERSION = (0, 0)
"""


def test_wgpu_version_selects_the_driver(run, portable_device):
    assert run.device._driver is native
    assert portable_device.device._driver is portable
    assert wgpu.version_info[:2] == adapters.SUPPORTED_WGPU_VERSION


def test_missing_private_parts_of_wgpu_select_the_portable_driver(run, monkeypatch, make_runner):
    class Changed:
        def __init__(self, device):
            device.something_that_is_gone  # noqa: B018

    monkeypatch.setattr(native, "NativeDevice", Changed)
    assert make_runner().device._driver is portable


def test_kernels_through_the_portable_driver(portable_device, rng):
    x = rng.standard_normal((1, 9, 8, 3)).astype(np.float32)
    w = rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
    way = {"strides": (1, 1), "pad": "valid"}
    total = sum(x[0, i : i + 7, j : j + 6] @ w[i, j] for i, j in np.ndindex(3, 3))
    np.testing.assert_allclose(
        portable_device(convolution.conv2d, x, w, **way)[0], total, atol=1e-5
    )
    for values in (x, x > 0, np.zeros((0, 3), np.float32)):
        np.testing.assert_array_equal(
            portable_device.to_host(portable_device.to_device(values)), values
        )
    np.testing.assert_allclose(
        portable_device(reduction.sum, x, axis=(1, 2)), x.sum((1, 2)), atol=1e-5
    )
    many = x.reshape((2,) * 3 + (27,))  # parameters in a buffer
    perm = (3, 2, 1, 0)
    np.testing.assert_array_equal(
        portable_device(movement.transpose, many, perm=perm), many.transpose(perm)
    )
    portable_device.backend.synchronize()
    assert portable_device.backend.memory().buffers == 0


def test_errors_of_the_portable_driver(portable_device, monkeypatch):
    with pytest.raises(ArgumentValueError, match=r"'nonsense\(x\)' does not compile: .*nonsense"):
        elementwise("nonsense(x)")(portable_device.to_device(np.ones(3, np.float32)))
    with pytest.raises(ArgumentValueError, match=r"to_buffer: .*wgpu 0\.32 only"):
        portable_device.device.lend(portable_device.to_device(np.ones(3, np.float32)))

    def create_buffer(**_):
        raise wgpu.GPUValidationError("Not enough memory left.")

    with monkeypatch.context() as patch:
        patch.setattr(portable_device.device.wgpu_device, "create_buffer", create_buffer)
        with pytest.raises(OutOfMemory, match=r"no memory for 5242880 bytes .* release arrays"):
            portable_device.device.empty((5 << 18,), float32)
    assert portable_device(binary.add, np.float32([1]), np.float32([2])) == [3]


LOST_DEVICE_PROGRAM = """
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
        [sys.executable, "-c", UNSUPPORTED_VERSION_PROGRAM + LOST_DEVICE_PROGRAM],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n" * 3 + "[2. 2.]\n", 0), done.stderr
