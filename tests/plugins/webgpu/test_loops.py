"""No invocation loops more than 65,535 times: lavapipe silently stops there."""

import numpy as np
import pytest

from plugrad.extend import float32
from plugrad.kernels import (
    binary,
    convolution,
    creation,
    depthwise,
    indexing,
    linalg,
    morphology,
    normalization,
    pooling,
    reduction,
    resize,
    scan,
)
from plugrad_webgpu.algorithms import windows
from plugrad_webgpu.kernels import normalization as normalization_kernels

LOOP_LIMIT = 300_000


def test_sums_longer_than_a_loop(run):
    ones = np.ones(LOOP_LIMIT, np.int32)
    assert run(reduction.sum, ones, axis=(0,)) == LOOP_LIMIT
    assert run(reduction.sum, ones[:, None].repeat(3, 1), axis=(0,)).tolist() == [LOOP_LIMIT] * 3
    assert run(reduction.sum, ones[None].repeat(3, 0), axis=(1,)).tolist() == [LOOP_LIMIT] * 3


def test_a_sum_with_many_outputs_is_split_too(run, monkeypatch):
    from plugrad_webgpu.algorithms import reduce

    monkeypatch.setattr(reduce, "SOFTWARE_MAX_INVOCATIONS", 1)
    assert run(reduction.sum, np.ones((1, LOOP_LIMIT), np.int32), axis=(1,)) == [LOOP_LIMIT]


def test_maximum_at_the_end_of_a_long_row(run):
    x = np.zeros(LOOP_LIMIT, np.float32)
    x[-1] = 1
    assert run(reduction.argmax, x, axis=0) == LOOP_LIMIT - 1
    assert run(reduction.max, x, reduction_indices=(0,)) == 1


def test_products_with_a_long_inner_axis(run):
    a = run.call(creation.fill, run.backend, shape=(3, 4 * LOOP_LIMIT), value=1.0, dtype=float32)
    b = run.call(creation.fill, run.backend, shape=(4 * LOOP_LIMIT, 2), value=1.0, dtype=float32)
    product = run.call(linalg.matmul, a, b, transpose_a=False, transpose_b=False)
    np.testing.assert_array_equal(run.to_host(product), np.full((3, 2), 4 * LOOP_LIMIT))
    a = run.call(creation.fill, run.backend, shape=(4 * LOOP_LIMIT, 4), value=1.0, dtype=float32)
    product = run.call(linalg.matmul, a, b, transpose_a=True, transpose_b=False)
    np.testing.assert_array_equal(run.to_host(product), np.full((4, 2), 4 * LOOP_LIMIT))


def test_the_filter_gradient_of_many_pixels(run):
    x = np.ones((1, 600, 600, 1), np.float32)
    attrs = {"strides": (1, 1), "pad": "valid", "filter_shape": (1, 1, 1, 1)}
    assert run(convolution.conv2d_filter_gradient, x, x, **attrs).item() == 360_000
    assert run(depthwise.depthwise_conv2d_filter_gradient, x, x, **attrs).item() == 360_000


@pytest.mark.parametrize("is_software", [True, False])
def test_softmax_of_a_long_row(run, monkeypatch, is_software):
    monkeypatch.setattr(run.device, "is_software", is_software)
    x = np.zeros((1, LOOP_LIMIT), np.float32)
    np.testing.assert_allclose(run(normalization.softmax, x, dim=1), 1 / LOOP_LIMIT, rtol=1e-5)


def test_many_sums_into_one_segment(run):
    x = np.ones(LOOP_LIMIT, np.float32)
    ids = np.zeros(LOOP_LIMIT, np.int32)
    assert run(indexing.unsorted_segment_sum, x, ids, num_segments=1) == [LOOP_LIMIT]


@pytest.mark.parametrize("size", [(300, 310), (1, 70_001)])
def test_pooling_with_more_cells_than_a_loop(run, rng, size):
    """Each window is computed in pieces; the maximum occurs twice, and the first occurrence counts."""
    x = rng.integers(-9, 9, (2, *size, 1)).astype(np.float32)
    rows = x.reshape(2, -1)
    rows[0, -5:-3] = 100
    window = {"filter_size": size, "strides": (1, 1), "pad": "valid"}
    largest = run(pooling.max_pool, x, **window)
    np.testing.assert_array_equal(largest.ravel(), rows.max(1))
    np.testing.assert_allclose(run(pooling.avg_pool, x, **window).ravel(), rows.mean(1), atol=1e-5)
    dy = np.float32([2, 3]).reshape(2, 1, 1, 1)
    dx = run(pooling.max_pool_gradient, dy, x, largest, **window).reshape(2, -1)
    first = np.zeros_like(dx)
    first[[0, 1], rows.argmax(1)] = 2, 3
    np.testing.assert_array_equal(dx, first)
    dx = run(pooling.avg_pool_gradient, dy, x, **window)
    np.testing.assert_allclose(dx, np.broadcast_to(dy / x[0].size, x.shape), rtol=1e-6)
    rows[1, 66_000] = np.nan
    largest, at = run(pooling.max_pool_with_argmax, x, include_batch_in_index=False, **window)
    np.testing.assert_array_equal(largest.ravel(), [100, np.nan])
    assert at.ravel().tolist() == [x[0].size - 5, 66_000]


def test_pieces_of_overlapping_windows_join(run, rng, monkeypatch):
    """With a lower loop limit, small windows have the same results."""
    x = rng.standard_normal((2, 9, 10, 4)).astype(np.float32)
    window = {"filter_size": (4, 5), "strides": (2, 1), "pad": ((3, 3), (2, 4))}
    attrs = {"dim_rounding_mode": "ceil"} | window
    cells = {"strides": (2, 1), "pad": "same", "dilations": (1, 2)}
    filter = rng.standard_normal((4, 5, 4)).astype(np.float32)
    filters = rng.standard_normal((4, 5, 4, 2)).astype(np.float32)
    strange = {"window_shape": (3, 4), "strides": (1, 2), "dilations": (3, 2), "pad": "same"}

    def dilated(x, filter, attrs):
        y = run(morphology.dilation2d, x, filter, **attrs)
        yield y
        yield run(morphology.dilation2d_input_gradient, x, filter, y, **attrs)
        yield run(morphology.dilation2d_filter_gradient, x, filter, y, **attrs)

    def results():
        y = run(pooling.max_pool, x, **attrs)
        dy = np.arange(y.size, dtype=np.float32).reshape(y.shape) % 7
        return [
            *(y, run(pooling.max_pool, (9 * x).astype(np.int32), **attrs)),
            run(pooling.avg_pool, x, **attrs),
            run(pooling.max_pool_gradient, dy, x, y, **attrs),
            run(pooling.avg_pool_gradient, dy, x, **attrs),
            *run(pooling.max_pool_with_argmax, x, include_batch_in_index=True, **window),
            *(run(pooling.pool, x, pooling_type=kind, **strange) for kind in ("max", "avg")),
            *dilated(x, filter, cells),
            *dilated((9 * x).astype(np.int32), (9 * filter).astype(np.int32), cells),
            run(depthwise.depthwise_conv2d, x, filters, **cells),
            run(
                depthwise.depthwise_conv2d_input_gradient,
                np.ones((2, 5, 10, 8), np.float32),
                filters,
                input_shape=x.shape,
                **cells,
            ),
            run(normalization.local_response_normalization, x[:, 0, :, 0], depth_radius=3),
            run(normalization.local_response_normalization_gradient, x, x, x, depth_radius=3),
        ]

    expected = results()
    monkeypatch.setattr(windows, "MAX_LOOP_STEPS", 6)
    monkeypatch.setattr(normalization_kernels, "MAX_LOOP_STEPS", 6)
    for cached in (windows._window_plan, windows.split_window):
        cached.cache_clear()
    for found, whole in zip(results(), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)
    windows.split_window.cache_clear()


def test_filters_with_more_cells_than_a_loop(run, rng):
    x = rng.integers(-9, 9, (1, 256, 259, 1)).astype(np.float32)
    filter = rng.integers(-9, 9, (256, 257, 1, 1)).astype(np.float32)
    shifted = np.lib.stride_tricks.sliding_window_view(x[0, ..., 0], (256, 257))[0]
    attrs = {"strides": (1, 1), "pad": "valid", "dilations": (1, 1)}
    y = run(depthwise.depthwise_conv2d, x, filter, **attrs)
    np.testing.assert_array_equal(y.ravel(), (shifted * filter[..., 0, 0]).sum((1, 2)))
    sums = (shifted + filter[..., 0, 0]).reshape(3, -1)
    filter = filter[..., 0]
    np.testing.assert_array_equal(
        run(morphology.dilation2d, x, filter, **attrs).ravel(), sums.max(1)
    )
    dy = np.float32([1, 2, 4]).reshape(1, 1, 3, 1)
    found = run(morphology.dilation2d_filter_gradient, x, filter, dy, **attrs).ravel()
    expected = np.zeros_like(found)
    np.add.at(expected, sums.argmax(1), dy.ravel())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("is_software", [True, False])
@pytest.mark.parametrize("shape", [(LOOP_LIMIT,), (2, LOOP_LIMIT, 3)])
def test_running_sums_longer_than_a_loop(run, monkeypatch, is_software, shape):
    monkeypatch.setattr(run.device, "is_software", is_software)
    axis = len(shape) // 2
    sums = np.moveaxis(run(scan.cumsum, np.ones(shape, np.int32), axis=axis), axis, -1)
    assert (sums == np.arange(1, LOOP_LIMIT + 1)).all()
    sums = run(scan.cumsum, np.ones(shape, np.float32), axis=axis, exclusive=True, reverse=True)
    assert (np.moveaxis(sums, axis, -1) == np.arange(LOOP_LIMIT - 1, -1, -1)).all()


def test_gradient_of_a_pixel_that_is_repeated_more_often_than_a_loop(run):
    images, dy = np.ones((1, 1, 2, 1), np.float32), np.ones((1, 1, LOOP_LIMIT, 1), np.float32)
    attrs = {"size": (1, LOOP_LIMIT)}
    nearest = run(resize.resize_nearest_neighbor_gradient, images, dy, **attrs)
    assert nearest.ravel().tolist() == [LOOP_LIMIT / 2] * 2
    bilinear = run(resize.resize_bilinear_gradient, images, dy, **attrs)
    np.testing.assert_allclose(bilinear.ravel(), [LOOP_LIMIT / 4, LOOP_LIMIT * 3 / 4], rtol=1e-4)


def test_elementwise_calls_on_large_arrays(run):
    x = np.arange(1_000_003, dtype=np.float32)
    np.testing.assert_array_equal(run(binary.add, x, np.float32(1)), x + 1)
