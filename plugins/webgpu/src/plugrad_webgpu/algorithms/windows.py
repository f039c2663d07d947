"""Loops over the windows of images: shaders of poolings, depthwise convolutions and dilations.

One template serves windows over one to three spatial axes. Four channels make a vector if they can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, Literal

from plugrad.extend import ArgumentValueError, Window
from plugrad_webgpu.algorithms.product import sum_over_axes
from plugrad_webgpu.algorithms.reduce import count_segments
from plugrad_webgpu.driver.limits import CPU_REMEDY, MAX_LOOP_STEPS
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import slice_block
from plugrad_webgpu.shaders.chains import plain_store_substitutions
from plugrad_webgpu.shaders.elements import WGSL_STORAGE_TYPES, vector_type, words_per_element
from plugrad_webgpu.shaders.layout import contiguous_strides
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

WindowLoopKind = Literal["cells", "stops", "weights"]
"""What an invocation loops over: cells of a window, windows over a pixel, or all windows for a filter weight."""

MAX_SPATIAL_AXES: Final = 3
"""The largest number of spatial axes of a window."""
MAX_WINDOW_REACH: Final = 2**30
"""The largest distance in pixels that a window may reach: the sum of two of them fits in an i32."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowReduction:
    """The WGSL of a reduction over windows: the initial value, the statement for each element, and the result.

    `Element` is a number or a vector of channels. A mask of comparisons combines with ``|`` and ``&``
    and chooses with ``select``, which serve both.
    """

    initial_statement: str
    """The WGSL that declares the total."""
    cell_statement: str
    """The WGSL that combines the total with the element of one cell."""
    result_expression: str
    """The WGSL that computes the result from the total."""
    input_names: tuple[str, ...]
    """The WGSL names of the input arrays, the images or gradients first."""
    positions_input_name: str = ""
    """The name of the input that holds positions instead of elements."""


SUM_INITIAL_STATEMENT: Final = "var sum = Element();"
"""The WGSL that declares the total of a sum."""


def reduce_each_window(
    reduction: WindowReduction,
    inputs: tuple[GpuArray, ...],
    window: Window,
    dtype: DType,
    positions_per_image: int = 0,
) -> GpuArray:
    """Return one element of `dtype` per window and channel, combined from its cells; `inputs` begin with the images."""
    x = inputs[0]
    step = _window_plan(reduction, "cells", x.shape, window, x.dtype, dtype, 1, positions_per_image)
    return x.buffer.device.launch(step, *inputs)


def reduce_covering_windows(
    reduction: WindowReduction, inputs: tuple[GpuArray, ...], window: Window, image_shape: Shape
) -> GpuArray:
    """Return images of a shape, of which each element combines the values of all windows that cover it."""
    dy = inputs[0]
    step = _window_plan(reduction, "stops", image_shape, window, dy.dtype, dy.dtype)
    return dy.buffer.device.launch(step, *inputs)


def reduce_to_filter_gradient(
    reduction: WindowReduction, inputs: tuple[GpuArray, ...], window: Window, image_shape: Shape
) -> GpuArray:
    """Return a filter (height, width, channels), of which each element is a sum over all windows."""
    dy = inputs[0]
    device = dy.buffer.device
    rows = image_shape[0] * math.prod(window.out)
    width = _vector_width(image_shape, dy.dtype)
    outputs = math.prod(window.size) * image_shape[-1] // width
    segments = count_segments(outputs, rows, False, device.is_software)
    step = _window_plan(reduction, "weights", image_shape, window, dy.dtype, dy.dtype, segments)
    parts = device.launch(step, *inputs)
    return (
        sum_over_axes(parts, (0,), False) if segments > 1 else reinterpret(parts, parts.shape[1:])
    )


@lru_cache(maxsize=1024)
def _window_plan(
    reduction: WindowReduction,
    loop_kind: WindowLoopKind,
    image_shape: Shape,
    window: Window,
    dtype: DType,
    result_dtype: DType,
    segment_count: int = 1,
    positions_per_image: int = 0,
) -> Plan:
    """Return the plan of a reduction over windows of images; a filter gradient has partial sums of segments."""
    shapes: dict[WindowLoopKind, Shape] = {
        "cells": (image_shape[0], *window.out, image_shape[-1]),
        "stops": image_shape,
        "weights": (segment_count, *window.size, image_shape[-1]),
    }
    shape, width = shapes[loop_kind], _vector_width(image_shape, dtype)
    size, stops = (
        (*image_shape[1:-1], image_shape[-1] // width),
        (*window.out, image_shape[-1] // width),
    )
    count = math.prod(shape) // width
    rows = image_shape[0] * math.prod(window.out)
    before = tuple(start for start, _ in window.padding)
    window = clip_strides(window, image_shape[1:-1])
    if loop_kind != "weights":
        _check_window_steps(loop_kind, image_shape[1:-1], window)
    parameters = (
        *(count, positions_per_image, rows, -(-rows // segment_count), *image_shape[1:-1]),
        *(*window.out, *window.size, *window.strides, *window.dilations, *before),
        *(
            *contiguous_strides(size)[:-1],
            *contiguous_strides(stops)[:-1],
            *_window_overlap_periods(window),
        ),
    )
    is_dilated = max(window.dilations) > 1
    program = _window_program(
        reduction, loop_kind, len(window.out), width, is_dilated, dtype, result_dtype
    )
    return plan(program, parameters, count, shape, result_dtype)


def _vector_width(image_shape: Shape, dtype: DType) -> int:
    """Return how many channels a reduction over windows processes as one vector."""
    return 4 if image_shape[-1] % 4 == 0 and words_per_element(dtype) == 1 else 1


def _window_overlap_periods(window: Window) -> Shape:
    """Return for each axis the least number of window positions between dilated windows that share pixels."""
    both = zip(window.dilations, window.strides, strict=True)
    return tuple(dilation // math.gcd(dilation, stride) for dilation, stride in both)


def _check_window_steps(loop_kind: WindowLoopKind, image_size: Shape, window: Window) -> None:
    """Raise unless the loops of one invocation are short enough for a window.

    Raises:
        ArgumentValueError: there is too much of it.
    """
    steps = _max_loop_steps(loop_kind, image_size, window)
    if steps > MAX_LOOP_STEPS:
        raise ArgumentValueError(
            f"webgpu: a window of {window.size} over images of {image_size} takes {steps} steps of a loop, more than "
            f"the {MAX_LOOP_STEPS} of a shader; use smaller windows, or {CPU_REMEDY}"
        )


def _max_loop_steps(loop_kind: WindowLoopKind, image_size: Shape, window: Window) -> int:
    """Return the largest number of loop steps that an invocation takes for one output element."""
    steps = 0
    for n, cells, stride, _, dilation, stops in reversed([*zip(image_size, *window, strict=True)]):
        covering = (
            min(-(-cells * dilation // stride), stops) if loop_kind == "stops" else min(cells, n)
        )
        steps = covering * (1 + steps)
    return steps + sum(_window_overlap_periods(window)) if loop_kind == "stops" else steps


@lru_cache(maxsize=1024)
def split_window(
    window: Window, image_size: Shape, loop_kind: WindowLoopKind
) -> tuple[Window, ...]:
    """Return smaller windows that partition a window's cells in row-major order, each within the limit of loop steps.

    Where a piece has no cell in any image, it is left out unless all have none.
    """
    window = clip_strides(window, image_size)
    if _max_loop_steps(loop_kind, image_size, window) <= MAX_LOOP_STEPS or max(window.size) == 1:
        return (window,)
    axis = next(i for i, cells in enumerate(window.size) if cells > 1)
    cells, dilation, (before, after) = (
        window.size[axis],
        window.dilations[axis],
        window.padding[axis],
    )
    found: list[Window] = []
    for first, end in ((0, cells // 2), (cells // 2, cells)):
        start = first * dilation - before
        last = start + (end - first - 1) * dilation + (window.out[axis] - 1) * window.strides[axis]
        if start < image_size[axis] and last >= 0:
            padding, cells_of_piece = list(window.padding), list(window.size)
            padding[axis], cells_of_piece[axis] = (-start, after), end - first
            piece = window._replace(padding=tuple(padding), size=tuple(cells_of_piece))
            found += split_window(piece, image_size, loop_kind)
    return tuple(found) or (window._replace(size=(1,) * len(image_size)),)


def split_filter(
    filter: GpuArray, window: Window, image_size: Shape, loop_kind: WindowLoopKind
) -> Iterator[tuple[Window, GpuArray]]:
    """Yield the pieces of a window, each with its part of the filter (height, width, …)."""
    for piece in split_window(window, image_size, loop_kind):
        ends = zip(window.padding, piece.padding, window.dilations, strict=True)
        begin = [(before - own) // dilation for (before, _), (own, _), dilation in ends]
        rest = filter.shape[len(begin) :]
        yield piece, slice_block(filter, (*begin, *(0 for _ in rest)), (*piece.size, *rest))


@cache
def _window_program(
    reduction: WindowReduction,
    loop_kind: WindowLoopKind,
    axis_count: int,
    vector_width: int,
    is_dilated: bool,
    dtype: DType,
    result_dtype: DType,
) -> Program:
    """Return the program of a reduction over windows."""
    element, integers = (
        vector_type(WGSL_STORAGE_TYPES[dtype], vector_width),
        vector_type("i32", vector_width),
    )
    kinds = {
        name: integers if name == reduction.positions_input_name else element
        for name in reduction.input_names
    }
    bindings = [
        f"@group(0) @binding({i}) var<storage, read> {name}: array<{kind}>;"
        for i, (name, kind) in enumerate(kinds.items())
    ]
    source = partial(
        shader,
        "windows",
        f"windows_{loop_kind}",
        axes=str(axis_count),
        width=str(vector_width),
        element=element,
        integers=integers,
        bits=vector_type("u32", vector_width * words_per_element(dtype)),
        mask=vector_type("bool", vector_width * words_per_element(dtype)),
        lanes="0" if vector_width == 1 else "vec4i(0, 1, 2, 3)",
        bindings="\n".join(bindings),
        **plain_store_substitutions(
            len(kinds), vector_type(WGSL_STORAGE_TYPES[result_dtype], vector_width)
        ),
        cells_within="(length + dilation - 1) / dilation" if is_dilated else "length",
        cell_at="offset / dilation" if is_dilated else "offset",
        start=reduction.initial_statement,
        step=reduction.cell_statement,
        result=reduction.result_expression,
    )
    return Program(f"windows over {loop_kind}", source, stored_elements=vector_width)


@lru_cache(maxsize=1024)
def clip_strides(window: Window, image_size: Shape) -> Window:
    """Return a window with strides shortened where every step would leave the image.

    Raises:
        ArgumentValueError: a place that the window reaches is not a number of a shader.
    """
    strides: list[int] = []
    for n, cells, stride, (before, _), dilation, _ in zip(image_size, *window, strict=True):
        reach = n + abs(before) + cells * dilation
        if reach > MAX_WINDOW_REACH:
            raise ArgumentValueError(
                f"webgpu: a window of {window.size} with dilations {window.dilations} and padding {window.padding} "
                f"reaches further than {MAX_WINDOW_REACH} cells; use smaller ones, or {CPU_REMEDY}"
            )
        strides.append(min(stride, reach))
    return window._replace(strides=tuple(strides))


def select_window_axes(window: Window, axes: slice) -> Window:
    """Return a window with only the given axes."""
    size, strides, padding, dilations, out = window
    return Window(size[axes], strides[axes], padding[axes], dilations[axes], out[axes])
