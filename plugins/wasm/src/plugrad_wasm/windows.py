"""Windows over images: the geometry that the kernels of convolution and pooling need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plugrad.extend import Window

Sizes = tuple[int, ...]


def window_descriptor(image: Sizes, window: Window) -> Sizes:
    """Return the fields of ``window`` in csrc/window.h for images of an NHWC shape."""
    (top, _), (left, _) = window.pad
    sizes = (window.out, window.filter, window.strides, window.dilations)
    return (*image, *(n for size in sizes for n in size), top, left)
