"""No invocation loops more than 65,535 times: lavapipe silently stops there."""

import numpy as np
import pytest

from plugrad.extend import ArgumentValueError, float32
from plugrad.kernels import (
    binary,
    convolution,
    creation,
    depthwise,
    indexing,
    linalg,
    normalization,
    pooling,
    reduction,
    resize,
    scan,
)

LONG = 300_000


def test_sums_longer_than_a_loop(run):
    ones = np.ones(LONG, np.int32)
    assert run(reduction.sum, ones, axis=(0,)) == LONG
    assert run(reduction.sum, ones[:, None].repeat(3, 1), axis=(0,)).tolist() == [LONG] * 3
    assert run(reduction.sum, ones[None].repeat(3, 0), axis=(1,)).tolist() == [LONG] * 3


def test_a_sum_with_many_outputs_is_split_too(run, monkeypatch):
    from plugrad_webgpu import reduce

    monkeypatch.setattr(reduce, "SOFTWARE_INVOCATIONS", 1)
    assert run(reduction.sum, np.ones((1, LONG), np.int32), axis=(1,)) == [LONG]


def test_an_extreme_at_the_far_end(run):
    x = np.zeros(LONG, np.float32)
    x[-1] = 1
    assert run(reduction.argmax, x, axis=0) == LONG - 1
    assert run(reduction.max, x, reduction_indices=(0,)) == 1


def test_products_with_a_long_inner_axis(run):
    a = run.call(creation.fill, run.backend, shape=(3, 4 * LONG), value=1.0, dtype=float32)
    b = run.call(creation.fill, run.backend, shape=(4 * LONG, 2), value=1.0, dtype=float32)
    product = run.call(linalg.matmul, a, b, transpose_a=False, transpose_b=False)
    np.testing.assert_array_equal(run.down(product), np.full((3, 2), 4 * LONG))
    a = run.call(creation.fill, run.backend, shape=(4 * LONG, 4), value=1.0, dtype=float32)
    product = run.call(linalg.matmul, a, b, transpose_a=True, transpose_b=False)
    np.testing.assert_array_equal(run.down(product), np.full((4, 2), 4 * LONG))


def test_the_filter_gradient_of_many_pixels(run):
    x = np.ones((1, 600, 600, 1), np.float32)
    attrs = {"strides": (1, 1), "pad": "valid", "filter_shape": (1, 1, 1, 1)}
    assert run(convolution.conv2d_filter_gradient, x, x, **attrs).item() == 360_000
    assert run(depthwise.depthwise_conv2d_filter_gradient, x, x, **attrs).item() == 360_000


@pytest.mark.parametrize("is_software", [True, False])
def test_softmax_of_a_long_row(run, monkeypatch, is_software):
    monkeypatch.setattr(run.device, "is_software", is_software)
    x = np.zeros((1, LONG), np.float32)
    np.testing.assert_allclose(run(normalization.softmax, x, dim=1), 1 / LONG, rtol=1e-5)


def test_many_sums_into_one_segment(run):
    x = np.ones(LONG, np.float32)
    ids = np.zeros(LONG, np.int32)
    assert run(indexing.unsorted_segment_sum, x, ids, num_segments=1) == [LONG]


def test_a_window_too_large_for_a_loop_is_an_error(run):
    x = np.ones((1, 256, 256, 1), np.float32)
    with pytest.raises(ArgumentValueError, match="pool in two steps"):
        run(pooling.avg_pool, x, filter_size=(256, 256), strides=(1, 1), pad="valid")


@pytest.mark.parametrize("is_software", [True, False])
@pytest.mark.parametrize("shape", [(LONG,), (2, LONG, 3)])
def test_running_sums_longer_than_a_loop(run, monkeypatch, is_software, shape):
    monkeypatch.setattr(run.device, "is_software", is_software)
    axis = len(shape) // 2
    sums = np.moveaxis(run(scan.cumsum, np.ones(shape, np.int32), axis=axis), axis, -1)
    assert (sums == np.arange(1, LONG + 1)).all()
    sums = run(scan.cumsum, np.ones(shape, np.float32), axis=axis, exclusive=True, reverse=True)
    assert (np.moveaxis(sums, axis, -1) == np.arange(LONG - 1, -1, -1)).all()


def test_a_pixel_that_many_steps_show(run):
    images, dy = np.ones((1, 1, 2, 1), np.float32), np.ones((1, 1, LONG, 1), np.float32)
    attrs = {"size": (1, LONG)}
    nearest = run(resize.resize_nearest_neighbor_gradient, images, dy, **attrs)
    assert nearest.ravel().tolist() == [LONG / 2] * 2
    bilinear = run(resize.resize_bilinear_gradient, images, dy, **attrs)
    np.testing.assert_allclose(bilinear.ravel(), [LONG / 4, LONG * 3 / 4], rtol=1e-4)


def test_neighbours_too_many_for_a_loop_are_an_error(run):
    x = np.ones((1, LONG), np.float32)
    with pytest.raises(ArgumentValueError, match=r"depth_radius=40000 .*65535"):
        run(normalization.local_response_normalization, x, depth_radius=40_000)


def test_large_elementwise(run):
    x = np.arange(1_000_003, dtype=np.float32)
    np.testing.assert_array_equal(run(binary.add, x, np.float32(1)), x + 1)
