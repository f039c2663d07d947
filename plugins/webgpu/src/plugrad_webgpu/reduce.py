"""Reductions from the expression that combines two elements."""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

from plugrad.extend import int32
from plugrad_webgpu.buffers import shared
from plugrad_webgpu.elements import STORED, require, typed, vector
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray, Shape
    from plugrad_webgpu.device import Device

MOST_STEPS = 16_384
"""The longest loop of one invocation; all its loops together must stay below 65,535 steps."""

LEAST_STEPS = 8
SOFTWARE_INVOCATIONS = 256
GPU_INVOCATIONS = 65_536
COALESCED_SEGMENTS = 32


def reduction(
    combine: str | Mapping[DType, str],
    identity: Mapping[DType, float],
    *,
    finish: str = "value",
) -> Callable[..., GpuArray]:
    """Return a function that reduces an array over some of its axes.

    Args:
        combine: WGSL that combines the elements `a` and `b`, associative and commutative; or a
            mapping from dtype to it.
        identity: For each dtype the value that combines to the other one; its keys are the dtypes
            supported.
        finish: WGSL applied to the total, called `value`; `parameters.divisor` is the number of
            elements.

    Returns:
        A function ``(x, axes, keep_dims) -> array``, axes sorted and non-negative.
    """
    combines = dict.fromkeys(identity, combine) if isinstance(combine, str) else dict(combine)

    def reduce(x: GpuArray, axes: tuple[int, ...], keep_dims: bool) -> GpuArray:
        require(x.dtype, identity, f"the webgpu reduction {combine!r}")
        out = tuple(
            1 if axis in axes else size
            for axis, size in enumerate(x.shape)
            if keep_dims or axis not in axes
        )
        count = math.prod(x.shape[axis] for axis in axes)
        if count == 1:
            return shared(x, out)
        groups = _groups(x.shape, axes)
        first = x.dtype, typed(identity[x.dtype], x.dtype), combines[x.dtype]
        for number, (outer, length, inner) in enumerate(groups):
            is_last = number == len(groups) - 1
            x = _reduce_middle(
                x, (outer, length, inner), first, finish if is_last else "value", count
            )
        return shared(x, out)

    return reduce


def _groups(shape: Shape, axes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return the runs of reduced axes, last first, each as (outer, length, inner)."""
    runs = [
        (is_reduced, math.prod(size for _, size in run))
        for is_reduced, run in groupby(enumerate(shape), key=lambda pair: pair[0] in axes)
    ]
    groups: list[tuple[int, int, int]] = []
    inner = 1
    for i in reversed(range(len(runs))):
        is_reduced, size = runs[i]
        if is_reduced:
            groups.append((math.prod(n for _, n in runs[:i]), size, inner))
        else:
            inner *= size
    return groups


def _reduce_middle(
    x: GpuArray,
    sizes: tuple[int, int, int],
    rule: tuple[DType, int | float, str],
    finish: str,
    count: int,
) -> GpuArray:
    outer, size, inner = sizes
    dtype, identity, combine = rule
    device = x.buffer.device
    while True:
        across = 4 if inner % 4 == 0 else 1
        along = 4 if inner == 1 and (outer == 1 or size % 4 == 0) else 1
        length = -(-size // along)
        segments = segments_for(device, outer * inner // across, length, is_row=inner == 1)
        stage_finish = finish if segments == 1 else "value"
        outputs = outer * segments * inner // across
        run = -(-length // segments)
        lie = (run, 1, run) if device.is_software else (1, segments, length)
        parameters = (
            outputs,
            length,
            segments,
            inner // across,
            *lie,
            size,
            identity,
            float(count),
        )
        program = _program(dtype, combine, stage_finish, across, along)
        stage = plan(program, parameters, outputs, (outer, segments, inner), dtype)
        x = device.launch(stage, x)
        if segments == 1:
            return x
        size = segments


def segments_for(device: Device, outputs: int, length: int, *, is_row: bool) -> int:
    """Return into how many segments to split a reduction: enough work, loops within bounds."""
    invocations = SOFTWARE_INVOCATIONS if device.is_software else GPU_INVOCATIONS
    segments = min(invocations // max(outputs, 1), length // LEAST_STEPS)
    if is_row and not device.is_software:
        # Neighbouring invocations should read neighbouring elements.
        segments = max(segments, min(COALESCED_SEGMENTS, length // 4))
    return max(segments, -(-length // MOST_STEPS), 1)


@cache
def _program(dtype: DType, combine: str, finish: str, across: int, along: int) -> Program:
    stored = STORED[dtype]
    width = max(across, along)
    source = partial(
        shader,
        "reduction",
        T=stored,
        element=vector(stored, width),
        result=vector(stored, across),
        combine=combine,
        combine_elements="combine" if width == 1 else "combine_vectors",
        prepare="filled_up" if along > 1 else "whole",
        reduced="combine_lanes(total)" if along > 1 else "total",
        finish=finish,
    )
    return Program(f"reduction {combine}", source)


def position(is_better: Mapping[DType, str]) -> Callable[[GpuArray, int], GpuArray]:
    """Return a function that finds the first position of the best element along an axis.

    Args:
        is_better: For each dtype WGSL that tells whether `value` beats `best`.
    """

    def find(x: GpuArray, axis: int) -> GpuArray:
        require(x.dtype, is_better, "the webgpu search for a position")
        outer, size, inner = (
            math.prod(x.shape[:axis]),
            x.shape[axis],
            math.prod(x.shape[axis + 1 :]),
        )
        device = x.buffer.device
        length = size
        found: GpuArray | None = None
        while True:
            segments = segments_for(device, outer * inner, length, is_row=inner == 1)
            segments = -(-length // -(-length // segments))  # none of them empty
            outputs = outer * segments * inner
            program = _position_program(x.dtype, is_better[x.dtype], found is not None)
            parameters = (outputs, length, segments, inner, size)
            stage = plan(program, parameters, outputs, (outer, segments, inner), int32)
            found = device.launch(stage, x) if found is None else device.launch(stage, x, found)
            if segments == 1:
                return shared(found, x.shape[:axis] + x.shape[axis + 1 :])
            length = segments

    return find


@cache
def _position_program(dtype: DType, is_better: str, has_choices: bool) -> Program:
    bindings = ["var<storage, read_write> output: array<i32>;"]
    if has_choices:
        bindings.insert(0, "var<storage, read> found: array<i32>;")
    position = "found[choices + {} * parameters.inner]" if has_choices else "i32({})"
    source = partial(
        shader,
        "reduction_position",
        T=STORED[dtype],
        is_better=is_better,
        bindings="\n".join(f"@group(0) @binding({i}) {b}" for i, b in enumerate(bindings, start=1)),
        position_of_first=position.format("first"),
        position=position.format("k"),
    )
    return Program(f"position {is_better}", source)
