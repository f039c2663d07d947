"""Buffers and devices that plugrad shares with other users of wgpu."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import wgpu

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, UnsupportedDtype
from plugrad_webgpu import from_buffer, requirements, to_buffer

BUFFER_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST


@pytest.fixture
def wgpu_device(run):
    """The wgpu device of the webgpu backend; `run` skips the test without one."""
    with plugrad.use("webgpu"):
        yield plugrad.zeros(()).backend.gpu_device


def make_buffer(gpu, values, usage=BUFFER_USAGE):
    return gpu.create_buffer_with_data(data=np.ascontiguousarray(values), usage=usage)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "complex64", "int64"])
def test_a_buffer_becomes_a_tensor(wgpu_device, rng, dtype):
    values = (rng.standard_normal((4, 6)) * 100).astype(dtype)
    x = from_buffer(make_buffer(wgpu_device, values), (4, 6), dtype)
    assert (x.shape, str(x.dtype)) == ((4, 6), dtype)
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal((x + x).numpy(), values + values)


def test_gradients_flow_to_a_buffer(wgpu_device):
    x = from_buffer(make_buffer(wgpu_device, np.float32([1, 2, 3, 4])), (4,))
    np.testing.assert_array_equal(plugrad.grad(lambda x: (x * x).sum())(x).numpy(), [2, 4, 6, 8])


def test_shared_buffers_are_not_copied(wgpu_device):
    buffer = make_buffer(wgpu_device, np.float32([1, 2, 3, 4]))
    x = from_buffer(buffer, (2, 2))
    wgpu_device.queue.write_buffer(buffer, 0, np.float32([5, 6, 7, 8]))
    np.testing.assert_array_equal((x * 2).numpy(), [[10, 12], [14, 16]])
    y = x + 1
    shared = to_buffer(y)
    wgpu_device.queue.write_buffer(shared, 4, np.float32([-1]))
    np.testing.assert_array_equal(y.numpy(), [[6, -1], [8, 9]])


def test_work_is_submitted_before_a_buffer_is_handed_out(wgpu_device):
    x = plugrad.asarray(np.arange(1000, dtype=np.float32))
    for _ in range(10):
        x = plugrad.tanh(x) + 1  # elementwise calls may wait
    buffer = to_buffer(x)
    assert buffer.size >= 4000
    values = np.frombuffer(wgpu_device.queue.read_buffer(buffer, 0, 4000), np.float32)
    np.testing.assert_array_equal(values, x.numpy())


def test_a_buffer_that_is_handed_out_keeps_its_memory(wgpu_device):
    before = np.arange(300, dtype=np.float32)
    buffer = to_buffer(plugrad.asarray(before) * 1)
    for i in range(20):  # they would take the memory if it were free
        (plugrad.zeros(300) + i).numpy()
    values = np.frombuffer(wgpu_device.queue.read_buffer(buffer, 0, 1200), np.float32)
    np.testing.assert_array_equal(values, before)
    gc.collect()
    in_use = plugrad.memory().bytes
    del buffer
    assert plugrad.memory().bytes < in_use


def test_a_tensor_keeps_the_buffer_of_the_program_and_releases_it(wgpu_device):
    from weakref import ref

    x = from_buffer(make_buffer(wgpu_device, np.float32([1, 2, 3, 4])), (4,))
    buffer = ref(x.array.buffer.storage.buffer)
    gc.collect()
    assert buffer() is not None
    np.testing.assert_array_equal((x + 1).numpy(), [2, 3, 4, 5])
    backend = x.backend
    pooled = backend.memory().details["pooled_bytes"]
    del x
    gc.collect()
    assert buffer() is None
    assert backend.memory().details["pooled_bytes"] == pooled


def test_exported_buffer_can_be_imported_again(wgpu_device):
    x = plugrad.asarray(np.float32([1, 2, 3])) * 2
    y = from_buffer(to_buffer(x), (3,))
    del x
    np.testing.assert_array_equal((y + y).numpy(), [4, 8, 12])


def test_buffers_that_cannot_be_used(wgpu_device):
    with pytest.raises(ArgumentError, match=r"must be a wgpu\.GPUBuffer"):
        from_buffer(np.zeros(4), (4,))
    buffer = make_buffer(wgpu_device, np.zeros(8, np.float32))
    for shape, dtype in (
        ((9,), "float32"),
        ((3, 3), "int32"),
        ((5,), "complex64"),
        ((-1,), "int32"),
    ):
        with pytest.raises(ArgumentValueError, match="buffer of 32 bytes cannot hold a tensor"):
            from_buffer(buffer, shape, dtype)
    with pytest.raises(ArgumentValueError, match="a multiple of 16 and at least 16"):
        from_buffer(make_buffer(wgpu_device, np.zeros(3, np.float32)), (3,))
    for usage in (wgpu.BufferUsage.STORAGE, wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST):
        with pytest.raises(ArgumentValueError, match="usages STORAGE and COPY_SRC"):
            from_buffer(make_buffer(wgpu_device, np.zeros(4, np.float32), usage), (4,))
    with pytest.raises(UnsupportedDtype, match="float64"):
        from_buffer(buffer, (4,), "float64")
    with pytest.raises(UnsupportedDtype, match="kept as int32"):
        from_buffer(buffer, (4,), "int8")
    mapped = wgpu_device.create_buffer(size=16, usage=BUFFER_USAGE, mapped_at_creation=True)
    with pytest.raises(ArgumentValueError, match="destroyed or mapped"):
        from_buffer(mapped, (4,))
    buffer.destroy()
    with pytest.raises(ArgumentValueError, match="destroyed or mapped"):
        from_buffer(buffer, (4,))


def test_a_buffer_of_another_device_is_refused(wgpu_device):
    adapter = wgpu_device.adapter
    other = adapter.request_device_sync(**requirements(adapter))
    with pytest.raises(ArgumentValueError, match="belongs to a device on which plugrad does not"):
        from_buffer(make_buffer(other, np.zeros(4, np.float32)), (4,))


def test_tensors_that_cannot_be_handed_out(wgpu_device):
    for tensor in (plugrad.asarray(1.0, device="cpu"), plugrad.asarray("text"), 7):
        with pytest.raises(ArgumentError, match="must be a tensor of numbers on webgpu"):
            to_buffer(tensor)
    with pytest.raises(ArgumentValueError, match="cannot be destroyed"):
        to_buffer(plugrad.zeros(3)).destroy()


DESTROYED_BUFFER_PROGRAM = """
import numpy as np, plugrad, wgpu
from plugrad_webgpu import from_buffer
with plugrad.use("webgpu"):
    gpu = plugrad.zeros(()).backend.gpu_device
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffer = gpu.create_buffer_with_data(data=np.ones(4, np.float32), usage=usage)
    x = from_buffer(buffer, (4,))
    print((x + 1).numpy())
    plugrad.matmul(x, x)  # the first one asks a GPU for the size of its subgroups, and submits
    y = plugrad.matmul(x, x)  # recorded, but not submitted
    buffer.destroy()
    for use in (y.numpy, lambda: plugrad.matmul(x, x).numpy(), x.numpy):
        try:
            print(use())
        except plugrad.errors.ArgumentValueError as error:
            print("refused" if "is destroyed or mapped" in str(error) else error)
    print((plugrad.ones(3) + 1).numpy())
"""

SHARED_BUFFER_PROGRAM = """
import numpy as np, plugrad, wgpu
import plugrad_webgpu
adapter = wgpu.gpu.request_adapter_sync()
poor = adapter.request_device_sync()
for device in (poor, 7):
    try:
        plugrad_webgpu.use_device(device)
    except (TypeError, ValueError) as error:
        print("requirements(adapter)" in str(error), "wgpu.GPUDevice" in str(error))
device = adapter.request_device_sync(**plugrad_webgpu.requirements(adapter))
plugrad_webgpu.use_device(device)
with plugrad.use("webgpu"):
    x = plugrad.ones(4)
    print(x.device, x.backend.gpu_device is device, (x + 1).numpy())
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffer = device.create_buffer_with_data(data=np.arange(4, dtype=np.float32), usage=usage)
    print((plugrad_webgpu.from_buffer(buffer, (4,)) + x).numpy())
    try:
        plugrad_webgpu.use_device(None)
    except plugrad.errors.BackendUnavailable as error:
        print("close_backend" in str(error))
    plugrad.close_backend(x.backend)
plugrad_webgpu.use_device(None)
with plugrad.use("webgpu"):
    print(plugrad.ones(1).device)
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (DESTROYED_BUFFER_PROGRAM, "[2. 2. 2. 2.]\nrefused\nrefused\nrefused\n[2. 2. 2.]\n"),
        (
            SHARED_BUFFER_PROGRAM,
            "True False\nFalse True\nwebgpu:shared True [2. 2. 2. 2.]\n[1. 2. 3. 4.]\nTrue\nwebgpu:0\n",
        ),
    ],
    ids=["a buffer is destroyed", "a device of the program"],
)
def test_programs_that_share_buffers_print_expected_output(run, program, expected):
    """Each program runs in a new process, which a mistake would abort."""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (out.stdout, out.returncode) == (expected, 0), out.stderr
