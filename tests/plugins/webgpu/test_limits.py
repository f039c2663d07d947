"""What exceeds the limits of a shader or of a device is an error of plugrad that names a remedy."""

from types import SimpleNamespace

import numpy as np
import pytest

from plugrad.extend import (
    ArgumentValueError,
    BackendUnavailable,
    OutOfMemory,
    ShapeError,
    bool_,
    float32,
    int32,
)
from plugrad.kernels import binary, convolution, creation, indexing, linalg, movement
from plugrad_webgpu import elementwise, native, plan
from plugrad_webgpu.limits import MOST_GROUPS
from plugrad_webgpu.program import Program

CPU = r"compute on the cpu backend, as in x\.to\('cpu'\)"


def alternating(rank, first=1):
    """Return a shape of ones and twos in turn; two such shapes leave no axes to merge."""
    return tuple(first if axis % 2 == 0 else 3 - first for axis in range(rank))


def numbers(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def add(run, rank):
    a, b = numbers(alternating(rank)), numbers(alternating(rank, 2))
    return run(binary.add, a, b), a + b


def select(run, rank):
    a, b = numbers(alternating(rank)), numbers(alternating(rank, 2))
    return run(binary.select, a > 1, a, b), np.where(a > 1, a, b)


def transpose(run, rank):
    x, perm = numbers((2,) * rank), tuple(reversed(range(rank)))
    return run(movement.transpose, x, perm=perm), x.transpose(perm)


def broadcast_to(run, rank):
    x, shape = numbers(alternating(rank)), (2,) * rank
    return run(movement.broadcast_to, x, shape=shape), np.broadcast_to(x, shape)


def slice_(run, rank):
    x = numbers((3,) * rank)
    part = run(movement.slice, x, begin=(1,) * rank, size=(2,) * rank)
    return part, x[(slice(1, None),) * rank]


def strided_slice(run, rank):
    x = numbers((3,) * rank)
    bounds = {"begin": (0,) * rank, "end": x.shape, "strides": (2,) * rank}
    return run(movement.strided_slice, x, **bounds), x[(slice(None, None, 2),) * rank]


def strided_slice_gradient(run, rank):
    dy, expected = numbers((2,) * rank), np.zeros((3,) * rank, np.float32)
    expected[(slice(None, None, 2),) * rank] = dy
    bounds = {"begin": (0,) * rank, "end": expected.shape, "strides": (2,) * rank}
    return run(movement.strided_slice_gradient, dy, shape=expected.shape, **bounds), expected


def pad(run, rank):
    x, paddings = numbers((2,) * rank), ((0, 1),) * rank
    return run(movement.pad, x, paddings=paddings, constant_value=0), np.pad(x, paddings)


def tile(run, rank):
    x = numbers((2,) * rank)
    return run(movement.tile, x, reps=(2,) * rank), np.tile(x, (2,) * rank)


def reverse(run, rank):
    x, dims = numbers((2,) * rank), tuple(range(0, rank, 2))
    return run(movement.reverse, x, dims=dims), np.flip(x, dims)


def matmul(run, rank):
    a, b = numbers((*alternating(rank), 2, 2)), numbers((*alternating(rank, 2), 2, 2))
    return run(linalg.matmul, a, b), a @ b


@pytest.mark.parametrize(
    ("call", "kernel", "rank", "most"),
    # `rank` is the highest that works, and `most` how many axes of a loop there may be
    [
        (add, r"'a \+ b'", 10, 10),
        (select, r"'select\(e, t, condition\)'", 7, 7),
        (transpose, "Transpose on webgpu", 9, 9),
        (broadcast_to, "BroadcastTo on webgpu", 9, 9),
        (slice_, "Slice on webgpu", 9, 9),
        (strided_slice, "StridedSlice on webgpu", 9, 9),
        (strided_slice_gradient, "StridedSliceGrad on webgpu", 9, 9),
        (pad, "PadV2 on webgpu", 9, 9),
        (tile, "Tile on webgpu", 4, 9),
        (reverse, "Reverse on webgpu", 9, 9),
        (matmul, "BatchMatMul on webgpu", 8, 9),
    ],
)
def test_axes(run, call, kernel, rank, most):
    np.testing.assert_array_equal(*call(run, rank))
    message = rf"{kernel}: .* loop over \d+ axes, of sizes \(.* \(128 bytes\) hold only {most}; reshape .*{CPU}"
    with pytest.raises(ShapeError, match=message):
        call(run, rank + 1)
    np.testing.assert_array_equal(*call(run, rank))


# --- what a device can bind


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.call(
            creation.fill, run.backend, shape=(1 << 33,), value=1.0, dtype=float32
        ),
        lambda run: run.call(
            creation.range, run.backend, start=0, stop=1 << 19, step=1, dtype=int32
        ),
        lambda run: run.call(
            indexing.one_hot,
            run.up(np.zeros(3, np.int32)),
            depth=1 << 31,
            on_value=1,
            off_value=0,
            dtype=bool_,
        ),
        lambda run: run.call(movement.broadcast_to, run.up(np.float32([1, 2])), shape=(1 << 31, 2)),
    ],
    ids=["fill", "range", "one_hot", "broadcast_to"],
)
def test_arrays_that_a_device_cannot_bind(run, monkeypatch, call):
    run.device.pool.trim()  # a larger buffer that is free would do
    monkeypatch.setattr(run.device.pool, "largest", 1 << 20)
    with pytest.raises(OutOfMemory, match=rf"of \d+ bytes exceeds the 1048576 bytes .*{CPU}"):
        call(run)


def test_patches_that_a_device_cannot_bind(run, monkeypatch):
    monkeypatch.setattr(run.device.pool, "largest", 1 << 16)
    image, filters = np.ones((1, 32, 32, 8), np.float32), np.ones((3, 3, 8, 2), np.float32)
    message = rf"convolution on webgpu: .* \(1, 32, 32, 8\) take 294912 bytes, more than .*{CPU}"
    with pytest.raises(OutOfMemory, match=message):
        run(convolution.conv2d, image, filters, strides=(1, 1), pad="same", data_format="NHWC")


# --- programs of other authors


def test_more_operands_than_a_device_can_bind(run):
    names = [f"x{i}" for i in range(run.device._raw.most_operands)]
    x = run.up(np.ones(3, np.float32))
    total = elementwise(" + ".join(names[1:]), names[1:])
    np.testing.assert_array_equal(run.down(total(*[x] * (len(names) - 1))), len(names) - 1)
    total = elementwise(" + ".join(names), names)
    message = rf"has {len(names) + 1} operands, .* than the {len(names)} that .*{CPU}"
    with pytest.raises(ArgumentValueError, match=message):
        total(*[x] * len(names))


def test_more_parameters_than_a_shader_takes(run):
    names = [f"p{i}" for i in range(32)]
    x = run.up(np.ones(3, np.float32))
    total = elementwise(" + ".join(f"parameters.{n}" for n in names[1:]), attributes=names[1:])
    np.testing.assert_array_equal(run.down(total(x, **dict.fromkeys(names[1:], 1.0))), 31)
    total = elementwise(" + ".join(f"parameters.{n}" for n in names), attributes=names)
    message = "takes 132 bytes of parameters, more than the 128 .* elements of an input array"
    with pytest.raises(ArgumentValueError, match=message):
        total(x, **dict.fromkeys(names, 1.0))


def test_more_workgroups_than_a_dispatch_takes():
    program = Program("busy", lambda: "", workgroup=1)
    assert plan(program, (), MOST_GROUPS**2, (1,), float32).grid == (MOST_GROUPS, MOST_GROUPS, 1)
    message = rf"'busy' needs 4294836226 workgroups, more than the 65535 x 65535 .*{CPU}"
    with pytest.raises(ShapeError, match=message):
        plan(program, (), MOST_GROUPS**2 + 1, (1,), float32)


# --- memory that the driver does not have


@pytest.mark.parametrize("kind", ["GPUOutOfMemoryError", "GPUValidationError"])
def test_a_driver_without_memory(run, monkeypatch, kind):
    """Free buffers go back to the driver before the call fails, whatever the driver's error is."""
    import wgpu

    calls = []

    def create_buffer(device, descriptor):
        calls.append(descriptor.size)
        raise getattr(wgpu, kind)("Not enough memory left.")

    run.up(np.zeros(1 << 20, np.float32))  # the pool has a free buffer now
    library = SimpleNamespace(wgpuDeviceCreateBuffer=create_buffer)
    with monkeypatch.context() as patch:
        patch.setattr(native, "libf", library)
        assert run.device.pool.memory().details["pooled_bytes"] >= 1 << 22
        with pytest.raises(OutOfMemory, match=r"no memory for 5242880 bytes .* release arrays"):
            run.device.empty((5 << 18,), float32)
        assert calls == [5 << 20, 5 << 20]
        assert run.device.pool.memory().details["pooled_bytes"] == 0
    assert run(binary.add, np.float32([1]), np.float32([2])) == [3]


def test_no_memory_to_read_an_array(run, monkeypatch):
    x = run.up(np.ones(100, np.float32))
    y = run.call(binary.add, x, x)
    raw = run.device._raw
    with monkeypatch.context() as patch:
        patch.setattr(raw, "make_room_to_read", lambda size: False)
        with pytest.raises(OutOfMemory, match=r"no memory to transfer 400 bytes .* smaller parts"):
            run.down(y)
    np.testing.assert_array_equal(run.down(y), np.full(100, 2))


def test_a_device_that_does_not_return_its_values(run, monkeypatch):
    class Library:
        def __getattr__(self, name):
            return getattr(native_library, name)

        def wgpuBufferMapAsync(self, *arguments):  # noqa: N802 - the name in the library
            raw._map_status = native_library.WGPUMapAsyncStatus_Error

    raw, native_library = run.device._raw, native.lib
    x = run.up(np.ones(100, np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(native, "lib", Library())
        with pytest.raises(BackendUnavailable, match=r"does not return its values .*close_backend"):
            run.down(x)
    np.testing.assert_array_equal(run.down(x), np.ones(100))
