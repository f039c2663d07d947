"""Kernels that slide windows over images, against NumPy."""

import itertools

import numpy as np
import pytest

from plugrad.extend import ArgumentValueError, sliding_window
from plugrad.kernels import convolution, depthwise, pooling


def random_float32(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def reference_convolution(x, w, window):
    """Return the convolution of NHWC images by definition, in float64."""
    (top, bottom), (left, right) = window.padding
    x = np.pad(x.astype(np.float64), ((0, 0), (top, bottom + 99), (left, right + 99), (0, 0)))
    out = np.zeros((x.shape[0], *window.out, w.shape[3]))
    for i, j in itertools.product(range(w.shape[0]), range(w.shape[1])):
        rows = np.arange(window.out[0]) * window.strides[0] + i * window.dilations[0]
        columns = np.arange(window.out[1]) * window.strides[1] + j * window.dilations[1]
        out += x[:, rows][:, :, columns] @ w[i, j].astype(np.float64)
    return out


CONVOLUTION_ARGUMENTS = [
    ((2, 5, 6, 3), (3, 3, 3, 4), {"strides": (1, 1), "pad": "same"}),
    ((2, 5, 6, 4), (3, 2, 4, 5), {"strides": (2, 1), "pad": "valid"}),
    ((1, 7, 7, 8), (3, 3, 8, 8), {"strides": (1, 1), "pad": "same", "dilations": (2, 2)}),
    ((2, 6, 6, 2), (3, 3, 2, 3), {"strides": (2, 2), "pad": ((1, 2), (0, 1))}),
    ((2, 4, 4, 8), (1, 1, 8, 4), {"strides": (1, 1), "pad": "valid"}),
    ((2, 5, 5, 4), (1, 1, 4, 4), {"strides": (2, 2), "pad": "same"}),
    ((1, 9, 9, 1), (2, 2, 1, 2), {"strides": (3, 3), "pad": "valid", "dim_rounding_mode": "ceil"}),
    ((0, 5, 5, 2), (3, 3, 2, 2), {"strides": (1, 1), "pad": "same"}),
]


@pytest.mark.parametrize(("image", "filters", "attrs"), CONVOLUTION_ARGUMENTS, ids=str)
def test_convolution(run, rng, image, filters, attrs):
    x, w = random_float32(rng, image), random_float32(rng, filters)
    window = sliding_window(
        image[1:3],
        filters[:2],
        attrs["strides"],
        attrs["pad"],
        attrs.get("dilations", (1, 1)),
        attrs.get("dim_rounding_mode"),
    )
    expected = reference_convolution(x, w, window)
    assert_close(run(convolution.conv2d, x, w, **attrs), expected, 1e-4, 1e-4)
    # A convolution is linear in both: its gradients are its transposes.
    dy = random_float32(rng, expected.shape)
    dx = run(convolution.conv2d_input_gradient, dy, w, input_shape=x.shape, **attrs)
    dw = run(convolution.conv2d_filter_gradient, x, dy, filter_shape=w.shape, **attrs)
    value = (expected * dy).sum()
    assert_close((dx.astype(np.float64) * x).sum(), value, 1e-4, 1e-3)
    assert_close((dw.astype(np.float64) * w).sum(), value, 1e-4, 1e-3)
    other_x, other_w = random_float32(rng, image), random_float32(rng, filters)
    assert_close(
        (dx * other_x).sum(), (reference_convolution(other_x, w, window) * dy).sum(), 1e-4, 1e-3
    )
    assert_close(
        (dw * other_w).sum(), (reference_convolution(x, other_w, window) * dy).sum(), 1e-4, 1e-3
    )


def reference_pooling(x, window, combine):
    (top, _), (left, _) = window.padding
    out = np.zeros((x.shape[0], *window.out, x.shape[3]), x.dtype)
    for i, j in np.ndindex(*window.out):
        row, column = i * window.strides[0] - top, j * window.strides[1] - left
        cells = x[
            :,
            max(row, 0) : row + window.size[0],
            max(column, 0) : column + window.size[1],
        ]
        out[:, i, j] = combine(cells, axis=(1, 2))
    return out


POOLING_ARGUMENTS = [
    ((2, 4, 4, 3), {"filter_size": (2, 2), "strides": (2, 2), "pad": "valid"}),
    ((2, 5, 6, 4), {"filter_size": (3, 3), "strides": (1, 1), "pad": "same"}),
    ((1, 7, 5, 2), {"filter_size": (3, 2), "strides": (2, 3), "pad": "same"}),
    ((1, 6, 6, 1), {"filter_size": (2, 2), "strides": (1, 1), "pad": ((1, 0), (0, 1))}),
    ((0, 4, 4, 3), {"filter_size": (2, 2), "strides": (2, 2), "pad": "valid"}),
]


@pytest.mark.parametrize(("image", "attrs"), POOLING_ARGUMENTS, ids=str)
def test_pooling(run, rng, image, attrs):
    # Few values make ties, of which the first cell must win.
    x = rng.integers(0, 4, image).astype(np.float32)
    window = sliding_window(image[1:3], attrs["filter_size"], attrs["strides"], attrs["pad"])
    largest = reference_pooling(x, window, np.max)
    np.testing.assert_array_equal(run(pooling.max_pool, x, **attrs), largest)
    np.testing.assert_array_equal(
        run(pooling.max_pool, x.astype(np.int32), **attrs), largest.astype(np.int32)
    )
    assert_close(run(pooling.avg_pool, x, **attrs), reference_pooling(x, window, np.mean))

    dy = random_float32(rng, largest.shape)
    expected_max, expected_avg = np.zeros_like(x), np.zeros_like(x)
    (top, _), (left, _) = window.padding
    for n, i, j, c in np.ndindex(*dy.shape):
        row, column = i * window.strides[0] - top, j * window.strides[1] - left
        cells = x[
            n, max(row, 0) : row + window.size[0], max(column, 0) : column + window.size[1], c
        ]
        at = np.unravel_index(cells.argmax(), cells.shape)
        expected_max[n, max(row, 0) + at[0], max(column, 0) + at[1], c] += dy[n, i, j, c]
        expected_avg[
            n, max(row, 0) : row + window.size[0], max(column, 0) : column + window.size[1], c
        ] += dy[n, i, j, c] / cells.size
    assert_close(run(pooling.max_pool_gradient, dy, x, largest, **attrs), expected_max, atol=1e-5)
    assert_close(run(pooling.avg_pool_gradient, dy, x, **attrs), expected_avg, atol=1e-5)


CONVOLUTION_KERNELS = [convolution.conv2d, depthwise.depthwise_conv2d]


@pytest.mark.parametrize("kernel", CONVOLUTION_KERNELS, ids=str)
def test_the_numbers_of_a_shader_hold_any_stride_but_not_any_dilation(run, kernel):
    x, filter = np.ones((1, 4, 5, 1), np.float32), np.ones((2, 2, 1, 1), np.float32)
    far = {"strides": (2**31 - 1, 2**30), "pad": "valid", "data_format": "NHWC"}
    assert run(kernel, x, filter, **far).tolist() == [[[[4.0]]]]
    attrs = {"strides": (1, 1), "pad": "same", "data_format": "NHWC", "dilations": (1, 2**31 - 1)}
    with pytest.raises(ArgumentValueError, match=r"reaches further than .*x\.to\('cpu'\)"):
        run(kernel, x, filter, **attrs)
