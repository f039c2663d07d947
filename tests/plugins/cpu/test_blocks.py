"""Convolutions compute a few images at a time, with the results of the whole batch."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import Window
from plugrad_cpu.kernels import convolution


def convolution_and_gradients(x, filter, **attrs):
    """Return a convolution and both of its gradients."""

    def loss(x, filter):
        return plugrad.sum(plugrad.conv2d(x, filter, **attrs) ** 2)

    with plugrad.use("cpu"):
        y = plugrad.conv2d(x, filter, **attrs)
        dx, dfilter = plugrad.grad(loss, argnums=(0, 1))(
            plugrad.asarray(x), plugrad.asarray(filter)
        )
        return [part.numpy() for part in (y, dx, dfilter)]


@pytest.mark.parametrize("attrs", [{"padding": "same"}, {"strides": 2, "padding": 1}], ids=str)
@pytest.mark.parametrize("images", [2, 3])  # at a time, of 7
def test_convolutions_in_blocks_of_images_match_the_whole_batch(images, attrs, monkeypatch, rng):
    x = rng.normal(size=(7, 6, 6, 2))
    filter = rng.normal(size=(3, 3, 2, 4))
    at_once = convolution_and_gradients(x, filter, **attrs)
    stops = at_once[0][0, ..., 0].size
    monkeypatch.setattr(convolution, "MAX_BLOCK_BYTES", images * stops * 3 * 3 * 2 * 8)
    sizes = [len(x[few]) for few in convolution.iter_batch_blocks(x, window_with_positions(stops))]
    assert sizes == [images] * (7 // images) + [7 % images] * bool(7 % images)
    for part, expected in zip(convolution_and_gradients(x, filter, **attrs), at_once, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)


def window_with_positions(stops):
    """Return a 3 × 3 window with a given number of positions."""
    return Window((3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (stops, 1))
