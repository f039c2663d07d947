"""Conversion of pictures to tensors and back; pictures are on the host in any case."""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError
from plugrad.kernels import pixels as kernels

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
OPAQUE_ALPHA = 255
"""The opacity of an opaque pixel, as a byte."""


def from_pixels(pixels: Array, *, num_channels: int) -> Array:
    """Return the first channels as int32."""
    return _as_rgba(pixels.astype(np.int32), OPAQUE_ALPHA)[..., :num_channels]


def draw(image: Array, *, alpha: float) -> Array:
    """Return four channels of integers from 0 to 255.

    Raises:
        ArgumentValueError: a value does not round to a byte, or is NaN.
    """
    pixels, most = image, OPAQUE_ALPHA
    if image.dtype.kind == "f":
        pixels, most = (
            np.floor(image.astype(np.result_type(image, np.float32)) * OPAQUE_ALPHA + 0.5),
            1,
        )
    if image.size and not (pixels.min() >= 0 and pixels.max() <= OPAQUE_ALPHA):
        raise ArgumentValueError(
            f"Draw: an image of {image.dtype} has values from 0 to {most}; these go from {image.min()} to {image.max()}"
        )
    opacity = math.floor(OPAQUE_ALPHA * alpha + 0.5)
    return _as_rgba(np.atleast_3d(pixels.astype(np.int32)), opacity)


def _as_rgba(pixels: Array, opacity: int) -> Array:
    """Return red, green, blue and opacity."""
    if pixels.shape[2] == 4:
        return pixels
    colours = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.concatenate([colours, np.full_like(colours[..., :1], opacity)], axis=2)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    kernels.from_pixels: from_pixels,
    kernels.draw: draw,
}
"""By kernel, the NumPy function that computes it."""
