"""Copies between arrays of any strides: every kernel that moves elements is made of these."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad_webgpu.memory.buffers import host_values_or_none
from plugrad_webgpu.shaders.elements import as_parameter, vector_type, words_per_element
from plugrad_webgpu.shaders.layout import (
    array_nbytes,
    broadcast_strides,
    contiguous_strides,
    merge_axes,
)
from plugrad_webgpu.shaders.program import Program, pack_parameters, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import CommandRecorder, GpuArray
    from plugrad_webgpu.shaders.layout import LoopNest, Shape, Strides
    from plugrad_webgpu.shaders.program import Plan


ELEMENTS_PER_INVOCATION = 4
"""The number of elements that an invocation moves in chunks."""
MAX_CHUNKED_AXES = 8
"""The largest number of axes of copies in chunks: with more, the parameters would have to be in a buffer."""
BYTE_COPY_MIN_BYTES = 1 << 19
"""The least size of copies that a software device makes without a shader, in a submission of 50 microseconds.

A shader takes ten times as long.
"""


class BufferView(NamedTuple):
    """The position of an array in a buffer: the offset of its first element, and the strides, both in elements."""

    start: int
    """The offset of the first element, in elements."""
    strides: Strides
    """The elements of the buffer from one element of the array to the next, along each axis."""


def copy_view(x: GpuArray, shape: Shape, view: BufferView) -> GpuArray:
    """Return a contiguous array of the elements of `x` in a view."""
    values, hosting = host_values_or_none(x), x.buffer.device.hosting
    if values is not None and hosting.has_room(shape):
        return hosting.wrap_values(_read_view_on_host(values, shape, view), shape, x.dtype)
    device, target = x.buffer.device, BufferView(0, contiguous_strides(shape))
    run = _byte_range(shape, view, target, x.dtype) if device.is_software else None
    if run is None:
        return device.launch(_copy_plan(shape, view, target, x.dtype), x)
    output = device.empty(shape, x.dtype)
    device.copy(x, run.source_byte, output, run.target_byte, run.nbytes)
    return output


def copy_array(x: GpuArray) -> GpuArray:
    """Return a copy that may be overwritten."""
    return copy_view(x, x.shape, BufferView(0, contiguous_strides(x.shape)))


def _read_view_on_host(values: NDArray[Any], shape: Shape, view: BufferView) -> NDArray[Any]:
    """Return the elements of a view of flat values, in one row."""
    if 0 in shape:
        return values[:0]
    size = values.itemsize
    strides = tuple(size * stride for stride in view.strides)
    return np.ndarray(shape, values.dtype, values, size * view.start, strides).flatten()


def copy_into(output: GpuArray, view: BufferView, x: GpuArray, shape: Shape | None = None) -> None:
    """Write `x`, broadcast to `shape`, to a view of `output`."""
    shape = x.shape if shape is None else shape
    device, source = x.buffer.device, BufferView(0, broadcast_strides(x.shape, shape))
    run = _byte_range(shape, source, view, x.dtype) if device.is_software else None
    if run is None:
        device.launch_into(_copy_plan(shape, source, view, x.dtype), output, x)
    else:
        device.copy(x, run.source_byte, output, run.target_byte, run.nbytes)


def slice_block(x: GpuArray, begin: Shape, size: Shape) -> GpuArray:
    """Return the block of a size that begins at the index `begin`; the array itself if the block is all of it."""
    if size == x.shape:
        return x
    return copy_view(x, size, slice_view(x.shape, begin, (1,) * len(size)))


def slice_view(shape: Shape, begin: Shape, steps: Shape) -> BufferView:
    """Return the view of an array that begins at the index `begin`, with the given steps along its axes."""
    strides = contiguous_strides(shape)
    start = sum(b * stride for b, stride in zip(begin, strides, strict=True))
    return BufferView(start, tuple(s * stride for s, stride in zip(steps, strides, strict=True)))


def permute_axes(x: GpuArray, order: Shape) -> GpuArray:
    """Return the array with permuted axes."""
    strides = contiguous_strides(x.shape)
    shape = tuple(x.shape[axis] for axis in order)
    return copy_view(x, shape, BufferView(0, tuple(strides[axis] for axis in order)))


def concatenate(inputs: Sequence[GpuArray], axis: int) -> GpuArray:
    """Return the arrays concatenated along an axis."""
    first = inputs[0]
    size = sum(x.shape[axis] for x in inputs)
    shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
    hosting = first.buffer.device.hosting
    if hosting.has_room(shape):
        found = ((host_values_or_none(x), x.shape) for x in inputs)
        parts = [values.reshape(own) for values, own in found if values is not None]
        if len(parts) == len(inputs):
            return hosting.wrap_values(np.concatenate(parts, axis).reshape(-1), shape, first.dtype)
    output = first.buffer.device.empty(shape, first.dtype)
    strides = contiguous_strides(shape)
    offset = 0
    for x in inputs:
        copy_into(output, BufferView(offset * strides[axis], strides), x)
        offset += x.shape[axis]
    return output


def full(device: CommandRecorder, shape: Shape, value: complex, dtype: DType) -> GpuArray:
    """Return an array filled with `value`."""
    return device.launch(fill_plan(shape, value_words(value, dtype), dtype))


def value_words(value: complex, dtype: DType) -> tuple[int, ...]:
    """Return the bits of a value as 32-bit words, as many as an element has."""
    bits = pack_parameters([as_parameter(value, dtype)])
    return tuple(int.from_bytes(bits[i : i + 4], "little") for i in range(0, len(bits), 4))


class _ByteRange(NamedTuple):
    """Bytes that are contiguous in both source and target."""

    source_byte: int
    """The first byte in the source."""
    target_byte: int
    """The first byte in the target."""
    nbytes: int


@lru_cache(maxsize=1024)
def _byte_range(
    shape: Shape, source_view: BufferView, target_view: BufferView, dtype: DType
) -> _ByteRange | None:
    """Return the byte range of a copy that is one contiguous run, else None."""
    element = 4 * words_per_element(dtype)
    size = element * math.prod(shape)
    if size < BYTE_COPY_MIN_BYTES:
        return None
    loop = merge_axes(shape, source_view.strides, target_view.strides)
    if any(strides != (1,) for strides in loop.strides):
        return None
    return _ByteRange(element * source_view.start, element * target_view.start, size)


@lru_cache(maxsize=1024)
def _copy_plan(
    shape: Shape, source_view: BufferView, target_view: BufferView, dtype: DType
) -> Plan:
    """Return the plan that copies the elements of one view to another one."""
    loop = merge_axes(shape, source_view.strides, target_view.strides)
    starts, words = (source_view.start, target_view.start), words_per_element(dtype)
    widths = _copy_widths(4 // words, loop, *starts)
    axis = _vector_axis(loop, starts) if words == 1 else 0
    if widths == (1, 1) and axis:
        copy = _copy_by_tiles(loop, starts, axis)
    elif (
        widths == (1, 1)
        and loop.sizes[0] >= ELEMENTS_PER_INVOCATION
        and len(loop.sizes) <= MAX_CHUNKED_AXES
    ):
        copy = _copy_by_chunks(loop, starts, words)
    else:
        copy = _copy_by_vectors(loop, starts, widths, words)
    count = 0 if 0 in shape else math.prod(copy.sizes)
    source_strides, target_strides = copy.strides
    parameters = (count, *copy.starts, *copy.steps, *copy.sizes, *source_strides, *target_strides)
    program = _copy_program(len(copy.sizes), copy.substitutions)
    return plan(program, parameters, count, shape, dtype)


class _CopyShader(NamedTuple):
    """A variant of the copy shader: its offsets, steps, loop sizes and strides, and its template substitutions."""

    starts: tuple[int, ...]
    """The indices of the first items of source and target."""
    steps: tuple[int, ...]
    """The distances between the items of one invocation, in source and target, and the length of a row."""
    sizes: tuple[int, ...]
    """The lengths of the loops over invocations."""
    strides: tuple[Strides, ...]
    """The distances between items along the loops, in source and target."""
    substitutions: tuple[tuple[str, str], ...]
    """Pairs of a placeholder's name in the template and the WGSL that replaces it."""


def _copy_widths(max_width: int, loop_nest: LoopNest, *starts: int) -> tuple[int, int]:
    """Return the vector widths of loads from the source and stores to the target: `max_width` or one.

    One element of the source fills a vector of the target where the source repeats it.
    """

    def is_vector_aligned(strides: Strides, start: int) -> bool:
        return strides[0] == 1 and all(n % max_width == 0 for n in (start, *strides[1:]))

    fit = [is_vector_aligned(*pair) for pair in zip(loop_nest.strides, starts, strict=True)]
    if loop_nest.sizes[0] % max_width or not fit[1]:
        return 1, 1
    if fit[0]:
        return max_width, max_width
    return (1, max_width) if loop_nest.strides[0][0] == 0 else (1, 1)


def _copy_by_vectors(
    loop_nest: LoopNest, starts: tuple[int, int], widths: tuple[int, int], element_words: int
) -> _CopyShader:
    """Return the shader variant in which each invocation stores one element or vector."""
    width = widths[1]
    kinds = [vector_type("u32", each * element_words) for each in widths]
    repeated = ", ".join(["source[source_at]"] * (width // widths[0]))
    return _CopyShader(
        tuple(start // own for start, own in zip(starts, widths, strict=True)),
        (),
        (loop_nest.sizes[0] // width, *loop_nest.sizes[1:]),
        tuple(
            (strides[0], *[n // own for n in strides[1:]])
            for strides, own in zip(loop_nest.strides, widths, strict=True)
        ),
        _copy_substitutions(kinds, (), [f"destination[target_at] = {kinds[1]}({repeated});"]),
    )


def _copy_by_chunks(
    loop_nest: LoopNest, starts: tuple[int, int], element_words: int
) -> _CopyShader:
    """Return the shader variant in which each invocation moves several neighbours, to save index arithmetic."""
    move = "destination[target_at + {0}u * parameters.target_step] = source[source_at + {0}u * parameters.source_step];"
    guarded = f"if (CHUNK * at0 + {{0}}u < parameters.length) {{{{ {move} }}}}".replace(
        "CHUNK", f"{ELEMENTS_PER_INVOCATION}u"
    )
    moves = [guarded.format(i) for i in range(ELEMENTS_PER_INVOCATION)]
    steps = tuple(strides[0] for strides in loop_nest.strides)
    return _CopyShader(
        starts,
        (*steps, loop_nest.sizes[0]),
        (-(-loop_nest.sizes[0] // ELEMENTS_PER_INVOCATION), *loop_nest.sizes[1:]),
        tuple(
            (ELEMENTS_PER_INVOCATION * strides[0], *strides[1:]) for strides in loop_nest.strides
        ),
        _copy_substitutions(
            [vector_type("u32", element_words)] * 2, ("source_step", "target_step", "length"), moves
        ),
    )


def _vector_axis(loop_nest: LoopNest, starts: tuple[int, int]) -> int:
    """Return the axis of contiguous source elements for a tiled transposition, or 0 if there is none."""
    source, target = loop_nest.strides
    if 1 not in source[1:] or target[0] != 1:
        return 0
    axis = source.index(1, 1)
    sizes = (loop_nest.sizes[0], loop_nest.sizes[axis])
    others = (*source[:axis], *source[axis + 1 :], *target[1:])
    return axis if all(n % 4 == 0 for n in (*starts, *sizes, *others)) else 0


def _copy_by_tiles(loop_nest: LoopNest, starts: tuple[int, int], axis: int) -> _CopyShader:
    """Return the shader variant in which each invocation transposes a tile of four by four elements."""
    sizes = tuple(n // 4 if i in (0, axis) else n for i, n in enumerate(loop_nest.sizes))
    strides = tuple(
        tuple(n if i in (0, axis) else n // 4 for i, n in enumerate(of_array))
        for of_array in loop_nest.strides
    )
    source, target = loop_nest.strides
    moves = [f"let line{i} = source[source_at + {i}u * parameters.source_step];" for i in range(4)]
    for i in range(4):
        turned = ", ".join(f"line{line}[{i}]" for line in range(4))
        moves.append(f"destination[target_at + {i}u * parameters.target_step] = vec4({turned});")
    return _CopyShader(
        tuple(start // 4 for start in starts),
        (source[0] // 4, target[axis] // 4),
        sizes,
        strides,
        _copy_substitutions(["vec4<u32>"] * 2, ("source_step", "target_step"), moves),
    )


def _copy_substitutions(
    element_types: Sequence[str], parameter_names: Sequence[str], move_statements: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return the substitutions of the copy shader's template."""
    return (
        ("element", element_types[0]),
        ("target", element_types[1]),
        ("fields", "\n".join(f"  {name}: u32," for name in parameter_names)),
        ("moves", "\n  ".join(move_statements)),
    )


@cache
def _copy_program(axes: int, substitutions: tuple[tuple[str, str], ...]) -> Program:
    """Return the program of a copy with loops over a number of axes."""
    numbers = {"axes": str(axes), "places": str(axes - 1), "last": str(axes - 1)}
    return Program(
        f"copy {axes} axes", partial(shader, "movement", **numbers, **dict(substitutions))
    )


_FILL_PROGRAM = Program("fill", partial(shader, "creation"))
"""The program that fills an array with one element."""


@lru_cache(maxsize=1024)
def fill_plan(shape: Shape, words: tuple[int, ...], dtype: DType) -> Plan:
    """Return the plan that fills an array with the words of one element."""
    vectors = -(-array_nbytes(shape, len(words)) // 16)
    pair = words * (2 // len(words))
    return plan(_FILL_PROGRAM, (vectors, 0, *pair), vectors, shape, dtype)
