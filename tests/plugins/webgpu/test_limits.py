"""Exceeding the limits of a shader or a device raises an error of plugrad that names a remedy."""

from types import SimpleNamespace

import numpy as np
import pytest

from plugrad.extend import (
    ArgumentValueError,
    DeviceLost,
    OutOfMemory,
    ShapeError,
    bool_,
    float32,
    int32,
)
from plugrad.kernels import (
    binary,
    convolution,
    creation,
    indexing,
    linalg,
    movement,
    reduction,
    scan,
)
from plugrad_webgpu import elementwise, plan
from plugrad_webgpu.driver import native
from plugrad_webgpu.driver.limits import MAX_GRID_SIZE
from plugrad_webgpu.shaders.program import Program

CPU_REMEDY = r"compute on the cpu backend, as in x\.to\('cpu'\)"


def alternating_shape(rank, first=1):
    """Return a shape of alternating ones and twos; no axes of two such shapes can be merged."""
    return tuple(first if axis % 2 == 0 else 3 - first for axis in range(rank))


def consecutive_numbers(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def add(run):
    a, b = consecutive_numbers(alternating_shape(16)), consecutive_numbers(alternating_shape(16, 2))
    return run(binary.add, a, b), a + b


def select(run):
    a, b = consecutive_numbers(alternating_shape(16)), consecutive_numbers(alternating_shape(16, 2))
    return run(binary.select, a > 1, a, b), np.where(a > 1, a, b)


def transpose(run):
    x, perm = consecutive_numbers((2,) * 16), tuple(reversed(range(16)))
    return run(movement.transpose, x, perm=perm), x.transpose(perm)


def broadcast_to(run):
    x, shape = consecutive_numbers(alternating_shape(16)), (2,) * 16
    return run(movement.broadcast_to, x, shape=shape), np.broadcast_to(x, shape)


SLICED_SHAPE = (3,) * 12 + (1,) * 4
HALF_SHAPE = (2,) * 12 + (1,) * 4


def slice_(run):
    x, begin = consecutive_numbers(SLICED_SHAPE), (1,) * 12 + (0,) * 4
    return run(movement.slice, x, begin=begin, size=HALF_SHAPE), x[(slice(1, None),) * 12]


def strided_slice(run):
    x = consecutive_numbers(SLICED_SHAPE)
    bounds = {"begin": (0,) * 16, "end": SLICED_SHAPE, "strides": (2,) * 16}
    return run(movement.strided_slice, x, **bounds), x[(slice(None, None, 2),) * 16]


def strided_slice_gradient(run):
    dy, expected = consecutive_numbers(HALF_SHAPE), np.zeros(SLICED_SHAPE, np.float32)
    expected[(slice(None, None, 2),) * 16] = dy
    bounds = {"begin": (0,) * 16, "end": SLICED_SHAPE, "strides": (2,) * 16}
    return run(movement.strided_slice_gradient, dy, shape=SLICED_SHAPE, **bounds), expected


def pad(run):
    x, paddings = consecutive_numbers(HALF_SHAPE), ((0, 1),) * 12 + ((0, 0),) * 4
    return run(movement.pad, x, paddings=paddings, constant_value=0), np.pad(x, paddings)


def tile(run):
    x, reps = consecutive_numbers(alternating_shape(16)), alternating_shape(16)
    return run(movement.tile, x, reps=reps), np.tile(x, reps)


def reverse(run):
    x, dims = consecutive_numbers((2,) * 16), tuple(range(0, 16, 2))
    return run(movement.reverse, x, dims=dims), np.flip(x, dims)


def matmul(run):
    a, b = (
        consecutive_numbers((*alternating_shape(14), 2, 2)),
        consecutive_numbers((*alternating_shape(14, 2), 2, 2)),
    )
    return run(linalg.matmul, a, b), a @ b


def sum_(run):
    x, axis = consecutive_numbers((2,) * 16), tuple(range(0, 16, 2))
    return run(reduction.sum, x, axis=axis), x.sum(axis)


def concatenate(run):
    x = consecutive_numbers((2,) * 15 + (1,))
    return run(movement.concat, x, x, axis=7), np.concatenate([x, x], 7)


def argmax(run):
    x = consecutive_numbers((2,) * 16) % 7
    return run(reduction.argmax, x, axis=9), x.argmax(9)


def cumsum(run):
    x = consecutive_numbers((2,) * 16) % 7
    return run(scan.cumsum, x, axis=9), x.cumsum(9)


def gather(run):
    x, indices = consecutive_numbers((2,) * 15), np.int32([[1, 0]])
    return run(indexing.gather, x, indices, axis=5), np.take(x, indices, 5)


def roll_of_complex_numbers(run):
    x, perm = (consecutive_numbers((2,) * 16) * 1j).astype(np.complex64), tuple(reversed(range(16)))
    return run(movement.transpose, x, perm=perm), x.transpose(perm)


@pytest.mark.parametrize(
    "call",
    [
        *(add, select, transpose, broadcast_to, slice_, strided_slice, strided_slice_gradient),
        *(pad, tile, reverse, matmul, sum_, concatenate, argmax, cumsum, gather),
        roll_of_complex_numbers,
    ],
)
def test_sixteen_axes(run, call):
    """A call with more than 128 bytes of parameters passes them in a buffer."""
    np.testing.assert_array_equal(*call(run))
    np.testing.assert_array_equal(*call(run))


def test_parameters_in_a_buffer_are_those_of_the_call(run):
    """Calls of one program in one batch have different parameters; some cache entries are dropped before submission."""
    x = consecutive_numbers((2,) * 12)
    orders = [tuple(np.roll(range(12)[::-1], shift).tolist()) for shift in range(12)]
    given = run.to_device(x)
    results = [run.call(movement.transpose, given, perm=perm) for perm in orders]
    run.device._constants.clear()
    results += [run.call(movement.transpose, given, perm=perm) for perm in orders]
    for result, perm in zip(results, orders * 2, strict=True):
        np.testing.assert_array_equal(run.to_host(result), x.transpose(perm))


# --- what a device can store


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
            run.to_device(np.zeros(3, np.int32)),
            depth=1 << 31,
            on_value=1,
            off_value=0,
            dtype=bool_,
        ),
        lambda run: run.call(
            movement.broadcast_to, run.to_device(np.float32([1, 2])), shape=(1 << 31, 2)
        ),
    ],
    ids=["fill", "range", "one_hot", "broadcast_to"],
)
def test_arrays_that_a_device_cannot_store(run, monkeypatch, call):
    run.device.pool.trim()  # a larger buffer that is free would do
    monkeypatch.setattr(run.device.pool, "largest", 1 << 20)
    with pytest.raises(
        OutOfMemory, match=rf"of \d+ bytes exceeds the 1048576 bytes .*{CPU_REMEDY}"
    ):
        call(run)


def test_convolution_of_images_whose_patches_exceed_a_binding(run, monkeypatch):
    monkeypatch.setattr(run.device.pool, "largest", 1 << 16)
    image, filters = np.ones((1, 32, 32, 8), np.float32), np.ones((3, 3, 8, 2), np.float32)
    found = run(convolution.conv2d, image, filters, strides=(1, 1), pad="valid")
    np.testing.assert_array_equal(found, np.full((1, 30, 30, 2), 72, np.float32))


# --- programs of other authors


def test_more_operands_than_a_device_can_bind(run, monkeypatch):
    raw = run.device._raw
    monkeypatch.setattr(raw, "max_operands", min(32, raw.max_operands))  # GPUs bind half a million
    names = [f"x{i}" for i in range(run.device._raw.max_operands)]
    x = run.to_device(np.ones(3, np.float32))
    total = elementwise(" + ".join(names[1:]), names[1:])
    np.testing.assert_array_equal(run.to_host(total(*[x] * (len(names) - 1))), len(names) - 1)
    total = elementwise(" + ".join(names), names)
    message = rf"has {len(names) + 1} operands, .* than the {len(names)} that .*{CPU_REMEDY}"
    with pytest.raises(ArgumentValueError, match=message):
        total(*[x] * len(names))


def test_any_number_of_parameters(run):
    names = [f"p{i}" for i in range(100)]
    x = run.to_device(np.ones(3, np.float32))
    total = elementwise(" + ".join(f"parameters.{n}" for n in names), attributes=names)
    np.testing.assert_array_equal(run.to_host(total(x, **dict.fromkeys(names, 1.0))), 100)
    np.testing.assert_array_equal(run.to_host(total(x, **dict.fromkeys(names, 2.0))), 200)


def test_seventy_thousand_workgroups(run):
    """A dispatch has at most 65,535 workgroups along an axis."""
    x = np.arange(70_000 * 64, dtype=np.int32).reshape(64, 70_000)
    np.testing.assert_array_equal(run(movement.transpose, x, perm=(1, 0)), x.T)
    np.testing.assert_array_equal(run(reduction.sum, x[:4], axis=(0,)), x[:4].sum(0))
    ids = np.zeros((70_000, 65), np.int32)
    assert (run(indexing.gather, np.int32([7]), ids, axis=0) == 7).all()


def test_more_workgroups_than_a_dispatch_takes():
    program = Program("busy", lambda: "", workgroup=1)
    assert plan(program, (), MAX_GRID_SIZE**2, (1,), float32).grid == (
        MAX_GRID_SIZE,
        MAX_GRID_SIZE,
        1,
    )
    message = rf"'busy' needs 4294836226 workgroups, more than the 65535 x 65535 .*{CPU_REMEDY}"
    with pytest.raises(ShapeError, match=message):
        plan(program, (), MAX_GRID_SIZE**2 + 1, (1,), float32)


# --- memory that the driver does not have


@pytest.mark.parametrize("kind", ["GPUOutOfMemoryError", "GPUValidationError"])
def test_a_driver_without_memory(run, monkeypatch, kind):
    """Free buffers are released before the call fails, whatever error the driver returns."""
    import wgpu

    calls = []

    def create_buffer(device, descriptor):
        calls.append(descriptor.size)
        raise getattr(wgpu, kind)("Not enough memory left.")

    run.to_device(np.zeros(1 << 20, np.float32))  # the pool has a free buffer now
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
    x = run.to_device(np.ones(100, np.float32))
    y = run.call(binary.add, x, x)
    raw = run.device._raw
    with monkeypatch.context() as patch:
        patch.setattr(raw, "acquire_staging", lambda size: None)
        with pytest.raises(OutOfMemory, match=r"no memory to transfer 400 bytes .* smaller parts"):
            run.to_host(y)
    np.testing.assert_array_equal(run.to_host(y), np.full(100, 2))


def test_a_device_that_does_not_return_its_values(run, monkeypatch):
    x = run.to_device(np.ones(100, np.float32))
    arrive = native.NativeStaging._on_mapped

    def fail(staging, status, *others):
        arrive(staging, native.lib.WGPUMapAsyncStatus_Error, *others)

    with monkeypatch.context() as patch:
        patch.setattr(run.device._raw, "_idle", [])
        patch.setattr(native.NativeStaging, "_on_mapped", fail)
        with pytest.raises(DeviceLost, match=r"does not return its values .*plugrad\.use"):
            run.to_host(x)
    np.testing.assert_array_equal(run.to_host(x), np.ones(100))


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64])
def test_an_array_is_read_in_several_transfers(run, monkeypatch, dtype):
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_BYTES", 4096)
    values = (np.arange(5003) % 3).astype(dtype)
    np.testing.assert_array_equal(run.to_host(run.to_device(values)), values)


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64, np.int64, np.float16])
@pytest.mark.parametrize("name", ["run", "portable_device"])
def test_arrays_are_read_together(request, monkeypatch, name, dtype):
    """Small arrays share a transfer, and large ones take several."""
    runner = request.getfixturevalue(name)
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_BYTES", 4096)
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_COPIES", 3)
    values = [
        (np.arange(size) % 7).astype(dtype) for size in (5, 0, 5003, 1, 1, 1, 1, 1, 1024, 600)
    ]
    parts = [part.copy() for part in runner.backend.read(map(runner.to_device, values))]
    assert {part.dtype for part in parts} == {np.dtype(dtype)}
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(values))
    assert all(0 < part.nbytes <= 4096 for part in parts)
    assert list(runner.backend.read([])) == []
    assert list(runner.backend.read([runner.to_device(values[1])])) == []


def test_the_next_part_is_on_its_way_while_one_is_used(run, monkeypatch):
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_BYTES", 4096)
    sent, fetch = [], run.device._raw.submit_readback

    def noted(*arguments):
        sent.append(arguments)
        fetch(*arguments)

    monkeypatch.setattr(run.device._raw, "submit_readback", noted)
    x = run.to_device(np.arange(4096, dtype=np.float32))
    for i, part in enumerate(run.backend.read([x])):
        assert len(sent) == min(i + 2, 4)
        np.testing.assert_array_equal(part, np.arange(1024 * i, 1024 * i + 1024))


def test_abandoned_read_releases_its_memory(run, monkeypatch):
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_BYTES", 4096)
    raw = run.device._raw
    x = run.to_device(np.arange(4096, dtype=np.float32))
    for _ in range(3):
        parts = run.backend.read([x])
        next(parts)
        parts.close()
        run.backend.synchronize()
        run.to_host(x)  # what came late is taken back
        assert sum(map(len, (raw._idle, raw._late))) <= 3
    np.testing.assert_array_equal(run.to_host(x), np.arange(4096))
