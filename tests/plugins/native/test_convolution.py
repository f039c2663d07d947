"""Convolutions in bands and panels agree with plugrad-cpu's, which copy each window."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.extend import sliding_window
from plugrad.kernels import convolution as kernels, depthwise as depthwise_kernels

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
declare = import_module("plugrad_native.declare")
convolution = import_module("plugrad_native.kernels.convolution")
depthwise = import_module("plugrad_native.kernels.depthwise")
open_backend("cpu")

CONVOLUTIONS = {
    # images, filter, strides, padding, dilations
    "several panels of filters, the last one partial": ((2, 9, 9, 5), (3, 3, 5, 100), 1, "same", 1),
    "patches longer than a panel": ((1, 5, 5, 300), (3, 3, 300, 17), 1, "same", 1),
    "runs longer than a panel": ((1, 3, 3, 700), (2, 2, 700, 48), 1, "valid", 1),
    "rows longer than a band": ((2, 3, 700, 4), (3, 3, 4, 8), 1, "same", 1),
    "frames larger than the cache": ((3, 7, 7, 600), (3, 3, 600, 4), 2, "same", 1),
    "single pixels": ((40, 3, 3, 3), (3, 3, 3, 33), 1, "valid", 1),
    "padding wider than the filter": ((2, 4, 5, 3), (2, 3, 3, 7), 1, ((5, 4), (6, 7)), 1),
    "dilations": ((2, 11, 13, 6), (2, 3, 6, 20), 1, "same", (4, 3)),
    "strides": ((3, 11, 13, 6), (3, 2, 6, 20), (3, 2), "same", 1),
    "strides without padding": ((2, 17, 16, 6), (3, 1, 6, 20), (2, 3), "valid", 1),
    "one axis": ((2, 999, 3), (5, 3, 4), 2, "same", 1),
    "three axes": ((2, 5, 6, 7, 3), (3, 2, 3, 3, 18), (2, 1, 1), "same", 1),
}


def random_float32(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("images", "filter", "strides", "padding", "dilations"), CONVOLUTIONS.values(), ids=CONVOLUTIONS
)
def test_bands_of_results_match_numpy(images, filter, strides, padding, dilations):
    axes = len(filter) - 2
    strides = (strides,) * axes if isinstance(strides, int) else strides
    dilations = (dilations,) * axes if isinstance(dilations, int) else dilations
    window = sliding_window(images[1:-1], filter[:-2], strides, padding, dilations)
    x, weights = random_float32(1, images), random_float32(2, filter)
    y = declare.numpy_implementation(kernels.conv2d)(x, weights, window=window)
    dy, bias = random_float32(3, y.shape), random_float32(4, filter[-1:])
    filter_gradient = kernels.conv2d_filter_gradient, (x, dy), {"filter_shape": filter}
    input_gradient = kernels.conv2d_input_gradient, (dy, weights), {"input_shape": images}
    for make, (kernel, arrays, shape) in (
        (convolution.make_filter_gradient, filter_gradient),
        (convolution.make_input_gradient, input_gradient),
    ):
        expected = declare.numpy_implementation(kernel)(*arrays, **shape, window=window)
        assert_close_to_sums(make(kernel)(*arrays, **shape, window=window), expected, expected)
    assert_close_to_sums(convolution.convolve(x, weights, window), y, y)
    limits = -0.5, 1.5
    assert_close_to_sums(
        convolution.convolve(x, weights, window, bias, limits), (y + bias).clip(*limits), y
    )


def assert_close_to_sums(found, expected, sums):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(sums).max())


DEPTHWISE_CONVOLUTIONS = {
    # images, multiplier, size, strides, padding, dilations
    "many neighbours": ((2, 5, 30, 70), 1, (3, 3), (1, 1), "same", (1, 1)),
    "few neighbours": ((2, 7, 7, 33), 1, (3, 3), (1, 1), "same", (1, 1)),
    "no neighbours": ((2, 4, 4, 16), 1, (3, 3), (1, 1), "same", (1, 1)),
    "only padding": ((1, 2, 1, 20), 1, (3, 5), (1, 1), ((4, 4), (6, 6)), (1, 1)),
    "strides": ((1, 15, 21, 40), 1, (3, 2), (2, 3), "valid", (1, 1)),
    "dilations": ((1, 12, 17, 65), 1, (2, 3), (1, 1), "same", (3, 2)),
    "few channels, several filters": ((2, 9, 14, 3), 3, (3, 3), (1, 1), "same", (1, 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("images", "multiplier", "size", "strides", "padding", "dilations"),
    DEPTHWISE_CONVOLUTIONS.values(),
    ids=DEPTHWISE_CONVOLUTIONS,
)
def test_groups_of_windows_match_numpy(
    images, multiplier, size, strides, padding, dilations, dtype
):
    x = random_float32(1, images).astype(dtype)
    filter = random_float32(2, (*size, images[3], multiplier)).astype(dtype)
    bias = random_float32(3, (images[3] * multiplier,)).astype(dtype)
    window = sliding_window(images[1:3], size, strides, padding, dilations)
    y = declare.numpy_implementation(depthwise_kernels.depthwise_conv2d)(x, filter, window=window)
    limits = -0.5, 1.5
    assert_close_to_sums(depthwise.convolve(x, filter, window), y, y)
    assert_close_to_sums(
        depthwise.convolve(x, filter, window, bias, limits), (y + bias).clip(*limits), y
    )


@pytest.mark.parametrize("activation", ["linear", "relu", "relu6"])
@pytest.mark.parametrize("convolve", [plugrad.fused.conv2d, plugrad.fused.depthwise_conv2d])
def test_activations_of_convolutions_propagate_special_values(activation, convolve):
    special = np.array([np.nan, np.inf, -np.inf, -0.0, -1, 7], np.float32)
    x, one = special.reshape(1, 2, 3, 1), np.ones((1, 1, 1, 1), np.float32)
    expected = {
        "linear": special,
        "relu": [np.nan, np.inf, 0, 0, 0, 7],
        "relu6": [np.nan, 6, 0, 0, 0, 6],
    }[activation]
    with plugrad.use("cpu"):
        y = convolve(x, one, 1, "valid", activation=activation).numpy()
    np.testing.assert_array_equal(y.reshape(-1), expected)
