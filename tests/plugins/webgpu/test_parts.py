"""Arrays that are larger than a device can bind at once: shaders read and write them in parts."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import OutOfMemory, float32
from plugrad.kernels import (
    binary,
    convolution,
    creation,
    image,
    indexing,
    linalg,
    movement,
    reduction,
    scatter,
    unary,
)
from plugrad_webgpu.shaders.parts import split_bindings


@pytest.fixture
def limit_bindings(run, monkeypatch):
    """Limit bindings to 16,384 bytes, so that small arrays are split into several parts."""
    run.backend.synchronize()
    monkeypatch.setattr(run.device, "part_bytes", 1 << 14)
    monkeypatch.setattr(run.device, "_has_large", True)
    monkeypatch.setattr(run.device, "_split_pipelines", {})
    return run


@pytest.fixture
def limit_bindings_moderately(limit_bindings, monkeypatch):
    """Double the limit on devices that bind few buffers: the tested arrays have up to 14 parts."""
    if limit_bindings.device._raw.max_operands < 14:
        monkeypatch.setattr(limit_bindings.device, "part_bytes", 1 << 15)
    return limit_bindings


def test_more_parts_than_a_device_binds_are_an_error(limit_bindings, monkeypatch):
    monkeypatch.setattr(limit_bindings.device, "part_bytes", 1 << 8)
    monkeypatch.setattr(limit_bindings.device._raw, "max_operands", 32)  # GPUs bind half a million
    x = np.ones(10_000, np.float32)
    with pytest.raises(
        OutOfMemory, match=r"have \d+ parts of at most 256 bytes, more than the \d+ that"
    ):
        limit_bindings(binary.add, x, x)


def test_the_source_of_a_shader():
    source = """
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> y: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
fn main() { output[x[y[i]].x] += f32(y[x[2][3]]); }
"""
    text = split_bindings(source, "test", (2, 1, 3), 1024)
    assert "@binding(2) var<storage, read> y:" in text
    assert "@binding(5) var<storage, read_write> output_2:" in text
    assert "let place_in_output = u32(of_x(u32(y[i])).x);" in text
    assert "default { output_0[place_in_output - 0u] += f32(y[of_x(u32(2))[3]]); }" in text
    assert "value = select(value, x_1[index - 64u], index >= 64u);" in text


def test_the_source_of_a_shader_with_atomics():
    source = """
@group(0) @binding(0) var<storage, read> places: array<u32>;
@group(0) @binding(1) var<storage, read_write> sums: array<atomic<i32>>;
@group(0) @binding(2) var<storage, read> unused: array<f32>;
fn main() { let old = atomicAdd(&sums[places[i]], atomicLoad( & sums[0])); }
"""
    text = split_bindings(source, "test", (2, 2), 1024)
    assert "@binding(3) var<storage, read_write> sums_1: array<atomic<i32>>;" in text
    assert "@binding(4) var<storage, read> unused:" in text
    assert "atomicAdd_of_sums(u32(of_places(u32(i))), atomicLoad_of_sums(u32(0)));" in text
    assert "case 1u { return atomicAdd(&sums_1[index - 256u], value); }" in text


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("atomic<u32>", "&x[0]"),
        ("Element", "x[0]"),
        ("u32", "f(&x[1])"),
        ("u32", "arrayLength(&x)"),
    ],
)
def test_a_shader_whose_arrays_have_no_parts_is_refused(kind, use):
    source = f"@group(0) @binding(0) var<storage, read_write> x: array<{kind}>; fn main() {{ let y = {use}; }}"
    with pytest.raises(OutOfMemory, match="takes 'x' only as a whole"):
        split_bindings(source, "test", (2,), 1024)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex64])
def test_transfers_and_copies(limit_bindings_moderately, dtype):
    run, x = limit_bindings_moderately, (np.arange(80 * 101) % 7).astype(dtype).reshape(80, 101)
    np.testing.assert_array_equal(run.to_host(run.to_device(x)), x)
    np.testing.assert_array_equal(run(movement.transpose, x, perm=(1, 0)), x.T)
    np.testing.assert_array_equal(run(movement.reverse, x, dims=(0, 1)), x[::-1, ::-1])
    shape = (2, *x.shape)
    np.testing.assert_array_equal(
        run(movement.broadcast_to, x, shape=shape), np.broadcast_to(x, shape)
    )


def test_elementwise_calls_and_reductions(limit_bindings_moderately, rng):
    run, x = limit_bindings_moderately, rng.standard_normal((50, 203)).astype(np.float32)
    for row in (x, x[:1], x[:, :1]):
        np.testing.assert_array_equal(run(binary.add, x, row), x + row)
    np.testing.assert_allclose(run(unary.exp, x), np.exp(x), rtol=1e-6)
    for axis in ((0,), (1,), (0, 1)):
        np.testing.assert_allclose(run(reduction.sum, x, axis=axis), x.sum(axis), atol=1e-4)
    np.testing.assert_array_equal(run(reduction.argmax, x, axis=0), x.argmax(0))
    y = x[:48].reshape(29, 336)  # is read and written in lines of vectors
    found = run(reduction.sum, np.stack([y, y, y]), axis=(0,))
    np.testing.assert_allclose(found, 3 * y, rtol=1e-6)


def test_products_of_split_arrays(limit_bindings, rng):
    run = limit_bindings
    a = rng.standard_normal((70, 65)).astype(np.float32)
    b = rng.standard_normal((65, 80)).astype(np.float32)
    np.testing.assert_allclose(run(linalg.matmul, a, b), a @ b, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_sums_of_segments_and_scattered_elements(limit_bindings_moderately, rng, dtype):
    run, x = limit_bindings_moderately, rng.integers(-9, 9, (5000, 2)).astype(dtype)
    labels = rng.integers(0, 4100, 5000).astype(np.int32)
    start = np.full((4000, 2), 7, dtype)
    sums, last, kept = np.zeros_like(start), start.copy(), labels < 4000
    np.add.at(sums, labels[kept], x[kept])
    last[labels[kept]] = x[kept]
    found = run(indexing.unsorted_segment_sum, x, labels, num_segments=4000)
    np.testing.assert_array_equal(found, sums)
    places = labels[:, None]
    np.testing.assert_array_equal(run(scatter.scatter_nd, places, x, shape=(4000, 2)), sums)
    np.testing.assert_array_equal(run(scatter.tensor_scatter_update, start, places, x), last)


def test_counts_and_gradients_of_crops(limit_bindings_moderately, rng):
    run, labels = limit_bindings_moderately, rng.integers(0, 9000, 12_000).astype(np.int32)
    counts = np.bincount(labels, minlength=9000)
    for binary_output, expected in ((False, counts), (True, counts > 0)):
        attrs = {"size": 9000, "binary_output": binary_output}
        found = run.call(reduction.dense_bincount, run.to_device(labels), None, **attrs)
        np.testing.assert_array_equal(run.to_host(found), expected)
    dy, boxes = np.ones((2, 60, 60, 1), np.float32), np.float32([[0, 0, 1, 1]] * 2)
    given = {"image_shape": (1, 80, 80, 1), "method": "nearest"}
    dx = run(image.crop_and_resize_image_gradient, dy, boxes, np.zeros(2, np.int32), **given)
    assert dx.sum() == 7200


def test_a_convolution_of_one_large_image(limit_bindings, rng):
    x = rng.standard_normal((1, 40, 40, 8)).astype(np.float32)
    w = rng.standard_normal((3, 3, 8, 8)).astype(np.float32)
    expected = plugrad.conv2d(plugrad.asarray(x, device="cpu"), plugrad.asarray(w, device="cpu"))
    found = limit_bindings(convolution.conv2d, x, w, strides=(1, 1), pad="valid")
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_arrays_of_three_hundred_megabytes(run):
    count = 300_000_000 // 4
    x = run.call(creation.fill, run.backend, shape=(count,), value=1.5, dtype=float32)
    y = run.call(binary.add, x, x)
    del x
    assert run.to_host(run.call(reduction.sum, y, axis=(0,))) == 3 * count
    last = run.call(movement.slice, y, begin=(count - 5,), size=(5,))
    np.testing.assert_array_equal(run.to_host(last), np.full(5, 3))
    del y
    run.device.pool.trim()


def test_a_convolution_of_one_image_of_a_megapixel_and_sixty_four_channels(run):
    shape = (1, 1024, 1024, 64)  # 256 MiB
    x = run.call(creation.fill, run.backend, shape=shape, value=1.0, dtype=float32)
    w = run.to_device(np.ones((3, 3, 64, 2), np.float32))
    y = run.to_host(run.call(convolution.conv2d, x, w, strides=(1, 1), pad="valid"))
    assert y.shape == (1, 1022, 1022, 2)
    assert (y == 576).all()
    del x
    run.device.pool.trim()
