"""Convolutions as products of patches and filters; shaders read the patches from the images.

The functions take any number of spatial axes up to three.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from plugrad.kernels import convolution
from plugrad_webgpu.algorithms.product import LeftOperandSource, Matrices, multiply_from_source
from plugrad_webgpu.algorithms.windows import clip_strides
from plugrad_webgpu.declare import table
from plugrad_webgpu.memory.buffers import reinterpret

if TYPE_CHECKING:
    from plugrad.extend import Window
    from plugrad_webgpu.algorithms.product import Epilogue
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape

WindowDirection = Literal["forward", "backward"]
"""Whether a patch has the pixels of a window, or the windows that cover a pixel."""

WINDOW_PARAMETER_NAMES: Final = ("stops", "cells", "size", "strides", "dilations", "before")
"""The fields of the shader's parameters that describe a window, with a number for each axis."""
UNSIGNED_WINDOW_PARAMETER_NAMES: Final = ("stops", "cells")
"""The fields of `WINDOW_PARAMETER_NAMES` that are u32; the others are i32."""


def convolve(
    x: GpuArray, filter: GpuArray, *, window: Window, epilogue: Epilogue | None = None
) -> GpuArray:
    """Return the cross-correlation of images with filters, with the epilogue applied."""
    size = x.shape[1:-1]
    window = clip_strides(window, size)
    *_, channels, out_channels = filter.shape
    source, depth = _patch_source("forward", window, size, window.out, channels)
    rows = x.shape[0] * math.prod(window.out)
    left = Matrices(x, 1, rows, depth)
    output = multiply_from_source(left, Matrices(filter, 1, depth, out_channels), source, epilogue)
    return reinterpret(output, (x.shape[0], *window.out, out_channels))


def input_gradient(
    dy: GpuArray, filter: GpuArray, *, input_shape: Shape, window: Window
) -> GpuArray:
    """Return the gradient for the images."""
    size = input_shape[1:-1]
    window = clip_strides(window, size)
    *_, channels, out_channels = filter.shape
    source, depth = _patch_source("backward", window, window.out, size, out_channels)
    rows = dy.shape[0] * math.prod(size)
    left = Matrices(dy, 1, rows, depth)
    right = Matrices(filter, 1, depth, channels, is_transposed=True)
    output = multiply_from_source(left, right, source)
    return reinterpret(output, (dy.shape[0], *size, channels))


def filter_gradient(x: GpuArray, dy: GpuArray, *, filter_shape: Shape, window: Window) -> GpuArray:
    """Return the gradient for the filters: transposed patches times dy."""
    size = x.shape[1:-1]
    window = clip_strides(window, size)
    *cells, channels, out_channels = filter_shape
    runs = x.shape[0] * math.prod(window.out[:-1])
    source = _filter_gradient_source(window, size, channels)._replace(runs_per_row=runs)
    left = Matrices(x, 1, math.prod(cells) * channels, window.out[-1], is_transposed=True)
    output = multiply_from_source(left, Matrices(dy, 1, window.out[-1], out_channels), source)
    return reinterpret(output, filter_shape)


@lru_cache(maxsize=1024)
def _patch_source(
    direction: WindowDirection,
    window: Window,
    image_size: Shape,
    window_counts: Shape,
    channels: int,
) -> tuple[LeftOperandSource, int]:
    """Return the source that reads patches of images, and the number of elements in each run of neighbours.

    A walk that goes backward stops at each pixel of the input.
    """
    is_whole = channels % 4 == 0
    is_joined = not is_whole and direction == "forward" and window.dilations[-1] == 1
    cells = window.size
    depth = channels * cells[-1] if is_joined else channels
    source = LeftOperandSource(
        "convolution",
        *_source_parameters(window, image_size, window_counts, channels),
        template_substitutions=(
            *_axis_substitutions(len(image_size), is_whole),
            ("joined", str(is_joined).lower()),
            *_WINDOW_POSITION_EXPRESSIONS[direction].items(),
        ),
        runs_per_row=math.prod(cells) // (cells[-1] if is_joined else 1),
        has_whole_vectors=is_whole,
    )
    return source, depth


@lru_cache(maxsize=1024)
def _filter_gradient_source(window: Window, image_size: Shape, channels: int) -> LeftOperandSource:
    """Return the source that reads patches of images along window positions."""
    is_whole = channels % 4 == 0
    last = len(image_size) - 1
    return LeftOperandSource(
        "convolution_weights",
        *_source_parameters(window, image_size, window.out, channels),
        transposed_stride_wgsl=f"parameters.strides[{last}] * (parameters.channels / {4 if is_whole else 1})",
        template_substitutions=_axis_substitutions(len(image_size), is_whole),
        has_whole_vectors=is_whole,
    )


def _axis_substitutions(axis_count: int, has_whole_vectors: bool) -> tuple[tuple[str, str], ...]:
    """Return the template substitutions for a number of spatial axes, and for channels in vectors or one by one."""
    unit = "4" if has_whole_vectors else "1"
    return (
        ("axes", str(axis_count)),
        ("others", str(axis_count - 1)),
        ("last", str(axis_count - 1)),
        ("unit", unit),
    )


def _source_parameters(
    window: Window, image_size: Shape, window_counts: Shape, channels: int
) -> tuple[str, tuple[int, ...]]:
    """Return the parameters of a source of patches: their WGSL declarations, and their values."""
    kinds = {
        name: "u32" if name in UNSIGNED_WINDOW_PARAMETER_NAMES else "i32"
        for name in WINDOW_PARAMETER_NAMES
    }
    fields = [f"  {name}: array<{kind}, {len(image_size)}>," for name, kind in kinds.items()]
    before = tuple(start for start, _ in window.padding)
    lists = (window_counts, window.size, image_size, window.strides, window.dilations, before)
    return "\n".join(["  channels: i32,", *fields]), (
        channels,
        *(n for each in lists for n in each),
    )


_WINDOW_POSITION_EXPRESSIONS: Final[dict[WindowDirection, dict[str, str]]] = {
    "forward": {
        "at": "stop * stride - before",
        "place": "at + cell * dilation",
        "condition": "",
    },
    "backward": {
        "at": "stop + before",
        "place": "(at - cell * dilation) / stride",
        "condition": " & (place * stride == at - cell * dilation)",
    },
}
"""The WGSL expressions for positions in images and windows, by name, for each direction."""


table.update(
    {
        convolution.conv2d: convolve,
        convolution.conv2d_input_gradient: input_gradient,
        convolution.conv2d_filter_gradient: filter_gradient,
    }
)
