"""Test rows of the conversions between images of bytes and tensors."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

from plugrad.kernels import pixels
from plugrad.testing.rows import Array, Row, integers, numbers

OPAQUE_ALPHA = 255
"""The opacity of an opaque pixel, as a byte."""


def as_rgba(x: Array, opacity: float) -> Array:
    """Return an image with the four channels red, green, blue and opacity."""
    x = x if x.ndim == 3 else x[..., None]
    colours = np.repeat(x, 3, -1) if x.shape[-1] == 1 else x[..., :3]
    rest = x[..., 3:] if x.shape[-1] == 4 else np.full((*x.shape[:2], 1), opacity)
    return np.concatenate([colours, rest], -1)


DRAWN_IMAGES: list[tuple[Any, tuple[str, ...]]] = [
    (lambda shape: numbers(0, 1, shape=shape), ("float32", "float64")),
    (lambda shape: integers(0, 255, *shape), ("int32",)),
]
"""Functions of a shape that return an input of images, each with the dtypes of the elements."""

TEST_ROWS = [
    *(
        Row(
            pixels.from_pixels,
            lambda x, n=n: as_rgba(x, OPAQUE_ALPHA)[..., :n],
            [integers(0, 255, *shape, dtype=dtype)],
            {"num_channels": n},
            dtypes=[dtype],
        )
        for shape, n in [((3, 4, 1), 3), ((3, 4, 3), 4), ((3, 4, 4), 1), ((2, 2, 4), 4)]
        for dtype in ("uint8", "int32")
    ),
    *(
        Row(
            pixels.draw,
            lambda x: as_rgba(
                np.floor(x * 255 + 0.5) if x.dtype.kind == "f" else x, np.floor(0.3 * 255 + 0.5)
            ),
            [drawn(shape)],
            {"alpha": 0.3},
            dtypes=dtypes,
        )
        for shape in [(3, 4), (3, 4, 1), (3, 4, 3), (3, 4, 4)]
        for drawn, dtypes in DRAWN_IMAGES
    ),
]
