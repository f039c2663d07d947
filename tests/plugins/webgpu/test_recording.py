"""Batches: order of uploads, threads, errors, large grids."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from plugrad.extend import ArgumentValueError, UnsupportedDtype, float32, float64
from plugrad.kernels import binary, creation, movement, resize, unary
from plugrad_webgpu import elementwise, reduction
from plugrad_webgpu.device import bindings
from plugrad_webgpu.driver import native
from plugrad_webgpu.driver.limits import MAX_GRID_SIZE
from plugrad_webgpu.shaders.program import workgroup_grid


def test_an_upload_does_not_overtake_recorded_work(run):
    size = 7777  # of its own size class, so that the pool must hand out the same buffers
    ones = np.ones(size, np.float32)
    sums = []
    for i in range(20):
        x = run.to_device(ones * i)
        sums.append(run.call(binary.add, x, x))
        del x  # its buffer may be taken by the next upload while the addition is still recorded
    for i, y in enumerate(sums):
        np.testing.assert_array_equal(run.to_host(y), ones * (2 * i))


@pytest.fixture
def without_upload_memory(run, monkeypatch):
    """Start without staging memory for uploads, and let arrays of 4 KB use little of it."""
    monkeypatch.setattr(run.device._raw, "_uploads", [])
    monkeypatch.setattr(native, "UPLOAD_STAGING_BYTES", 4096)
    monkeypatch.setattr(native, "STAGED_UPLOAD_MIN_BYTES", 4096)


@pytest.mark.usefixtures("without_upload_memory")
@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5003, 40_000])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64, np.int64])
def test_large_arrays_are_uploaded_in_parts(run, size, dtype):
    values = (np.arange(size) % 3).astype(dtype)
    for start in (0, 1):
        np.testing.assert_array_equal(run.to_host(run.to_device(values[start:])), values[start:])
    assert len(run.device._raw._uploads) <= native.MAX_UPLOAD_STAGINGS


@pytest.mark.usefixtures("without_upload_memory")
def test_a_large_upload_does_not_overtake_recorded_work(run):
    test_an_upload_does_not_overtake_recorded_work(run)
    assert run.device._raw._uploads


@pytest.mark.usefixtures("without_upload_memory")
def test_uploads_do_not_wait_for_the_device(run, monkeypatch):
    values = np.arange(9000, dtype=np.float32)
    raw = run.device._raw
    with monkeypatch.context() as patch:  # the host may not use the memory yet
        patch.setattr(native.NativeStaging, "map", lambda *_: None)
        x = run.to_device(values)
    np.testing.assert_array_equal(run.to_host(x), values)
    assert len(raw._uploads) == native.MAX_UPLOAD_STAGINGS
    with monkeypatch.context() as patch:
        patch.setattr(raw, "_uploads", [])
        patch.setattr(raw, "create_buffer", lambda *_: None)
        raw.write(x.buffer.storage.handle, np.flip(values).copy(), values.nbytes)
    np.testing.assert_array_equal(run.to_host(x), np.flip(values))


def test_scalar_uploads_do_not_submit_the_batch(run):
    x = run.to_device(np.ones(100, np.float32))
    run.backend.synchronize()
    flushes = run.device.flushes
    for i in range(20):
        x = run.call(binary.add, x, run.to_device(np.float32(i)))
    assert run.device.flushes == flushes
    np.testing.assert_array_equal(run.to_host(x), np.full(100, 191))


def test_a_full_batch_is_submitted(run):
    x = run.to_device(np.zeros(10, np.float32))
    run.backend.synchronize()
    flushes = run.device.flushes
    for _ in range(3 * run.device.batch_limit):
        x = run.call(movement.reverse, x, dims=(0,))  # elementwise calls would be merged
    assert run.device.flushes == flushes + 3


def test_many_bind_groups_are_dropped(run, monkeypatch):
    monkeypatch.setattr(bindings, "MAX_BIND_GROUPS", 4)
    arrays = [run.to_device(np.full(50, i, np.float32)) for i in range(20)]
    sums = [run.call(binary.add, a, b) for a, b in pairwise(arrays)]
    for i, y in enumerate(sums):
        np.testing.assert_array_equal(run.to_host(y), np.full(50, 2 * i + 1))


def test_grids_beyond_one_dimension(run):
    assert workgroup_grid(MAX_GRID_SIZE) == (MAX_GRID_SIZE, 1, 1)
    columns, rows, _ = workgroup_grid(MAX_GRID_SIZE + 1)
    assert columns * rows > MAX_GRID_SIZE
    assert columns <= MAX_GRID_SIZE
    count = 64 * 4 * (MAX_GRID_SIZE + 10) + 3  # vectors of four in workgroups of 64
    x = run.call(creation.fill, run.backend, shape=(count,), value=2.0, dtype="float32")
    y = run.to_host(run.call(unary.square, x))
    assert (y == 4).all()


def test_kernel_with_the_same_input_twice(run):
    x = run.to_device(np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(run.to_host(run.call(binary.multiply, x, x)), [0, 1, 4, 9, 16])


def test_threads_share_a_device(run):
    failures = []

    def work(value):
        x = run.to_device(np.full(1000, value, np.float32))
        y = x
        for _ in range(100):
            y = run.call(binary.add, y, x)
        if not (run.to_host(y) == 101 * value).all():
            failures.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_unsupported_dtypes_name_the_remedy(run):
    for values in (np.zeros(3), np.zeros(3, np.uint64), np.zeros(3, np.complex128)):
        with pytest.raises(UnsupportedDtype, match=r'webgpu.*dtype="float32".*cpu'):
            run.to_device(values)
    with pytest.raises(UnsupportedDtype, match="float64"):
        run.call(unary.cast, run.to_device(np.zeros(3, np.float32)), dtype=float64)


def test_custom_elementwise_kernel(run, rng):
    kernel = elementwise("select(a, parameters.scale * b, a < b)", ("a", "b"), attributes=["scale"])
    a, b = rng.standard_normal((2, 3, 5)).astype(np.float32)
    result = run.to_host(kernel(run.to_device(a), run.to_device(b), scale=0.5))
    np.testing.assert_allclose(result, np.where(a < b, 0.5 * b, a))


def test_custom_reduction(run, rng):
    x = rng.standard_normal(7).astype(np.float32)
    squares = elementwise("x * x")(run.to_device(x))
    norm = reduction("a + b", {float32: 0}, finish="sqrt(value)")
    np.testing.assert_allclose(
        run.to_host(norm(squares, (0,), False)), np.linalg.norm(x), rtol=1e-6
    )


def test_an_error_in_a_custom_expression_is_an_exception(run):
    x = run.to_device(np.ones(3, np.float32))
    with pytest.raises(
        ArgumentValueError, match=r"'x \+ undefined_name' does not compile: .*identifier"
    ):
        elementwise("x + undefined_name")(x)
    assert run(unary.negative, np.float32([1])) == [-1]


def test_tables_of_places_are_uploaded_once(run, monkeypatch):
    images = run.to_device(np.ones((1, 3, 5, 2), np.float32))
    attrs = {"size": (7, 6), "align_corners": False, "half_pixel_centers": True}
    first = run.call(resize.resize_bilinear, images, **attrs)
    run.call(resize.resize_bilinear_gradient, images, first, **attrs)
    monkeypatch.setattr(run.device, "upload", None)
    again = run.call(resize.resize_bilinear, images, **attrs)
    run.call(resize.resize_bilinear_gradient, images, again, **attrs)
    np.testing.assert_array_equal(run.to_host(again), run.to_host(first))
