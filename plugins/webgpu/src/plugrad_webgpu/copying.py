"""Copies between arrays of any strides: every kernel that moves elements is made of these."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from plugrad_webgpu.elements import typed, vector, words_in
from plugrad_webgpu.layout import merged, nbytes_of, strides_of
from plugrad_webgpu.limits import check_axes
from plugrad_webgpu.program import Program, packed, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray, Recorder
    from plugrad_webgpu.layout import Shape, Strides
    from plugrad_webgpu.program import Plan


COPY = "the webgpu copy"
"""What an error calls a copy; kernels for any number of axes give their own name."""

_OTHER_PARAMETERS = 3  # besides sizes and strides: count, source_start and target_start


class View(NamedTuple):
    """Where elements are in a buffer: the first one, and the distance between neighbours on each axis."""

    start: int
    strides: Strides


def copied(x: GpuArray, shape: Shape, source: View, kernel: str = COPY) -> GpuArray:
    """Return a dense array of the elements of `x` at a view of this shape.

    Raises:
        ShapeError: the loop has too many axes; the error names `kernel`.
    """
    step = _copy_plan(kernel, shape, source, View(0, strides_of(shape)), x.dtype)
    return x.buffer.device.launch(step, x)


def copy_into(output: GpuArray, target: View, x: GpuArray, kernel: str = COPY) -> None:
    """Write all elements of `x` to the places of `output` at a view of the shape of `x`.

    Raises:
        ShapeError: the loop has too many axes; the error names `kernel`.
    """
    step = _copy_plan(kernel, x.shape, View(0, strides_of(x.shape)), target, x.dtype)
    x.buffer.device.launch_into(step, output, x)


def block(x: GpuArray, begin: Shape, size: Shape, kernel: str = COPY) -> GpuArray:
    """Return the block of a size that starts at `begin`; the array itself if that is the whole of it."""
    if size == x.shape:
        return x
    return copied(x, size, range_view(x.shape, begin, (1,) * len(size)), kernel)


def range_view(shape: Shape, begin: Shape, steps: Shape) -> View:
    """Return the view of an array that starts at `begin` and advances by `steps` along the axes."""
    strides = strides_of(shape)
    start = sum(b * stride for b, stride in zip(begin, strides, strict=True))
    return View(start, tuple(s * stride for s, stride in zip(steps, strides, strict=True)))


def transposed(x: GpuArray, order: Shape, kernel: str = COPY) -> GpuArray:
    """Return the array with its axes in another order."""
    strides = strides_of(x.shape)
    shape = tuple(x.shape[axis] for axis in order)
    return copied(x, shape, View(0, tuple(strides[axis] for axis in order)), kernel)


def joined(inputs: Sequence[GpuArray], axis: int) -> GpuArray:
    """Return the arrays joined along an axis."""
    first = inputs[0]
    size = sum(x.shape[axis] for x in inputs)
    shape = (*first.shape[:axis], size, *first.shape[axis + 1 :])
    output = first.buffer.device.empty(shape, first.dtype)
    strides = strides_of(shape)
    offset = 0
    for x in inputs:
        copy_into(output, View(offset * strides[axis], strides), x)
        offset += x.shape[axis]
    return output


def filled(device: Recorder, shape: Shape, value: complex, dtype: DType) -> GpuArray:
    """Return an array in which every element is `value`."""
    return device.launch(_fill_plan(shape, words_of(value, dtype), dtype))


def words_of(value: complex, dtype: DType) -> tuple[int, ...]:
    """Return the bits of a value of a dtype as 32-bit words, one for each that an element takes."""
    bits = packed([typed(value, dtype)])
    return tuple(int.from_bytes(bits[i : i + 4], "little") for i in range(0, len(bits), 4))


@lru_cache(maxsize=4096)
def _copy_plan(kernel: str, shape: Shape, source: View, target: View, dtype: DType) -> Plan:
    loop = merged(shape, source.strides, target.strides)
    check_axes(kernel, loop.sizes[::-1], 2, _OTHER_PARAMETERS)
    words = words_in(dtype)
    width = _width(4 // words, loop.sizes, loop.strides, (source.start, target.start))
    sizes = (loop.sizes[0] // width, *loop.sizes[1:])
    strides = [(s[0], *[n // width for n in s[1:]]) for s in loop.strides]
    count = 0 if 0 in shape else loop.steps // width
    parameters = (
        count,
        source.start // width,
        target.start // width,
        *sizes,
        *strides[0],
        *strides[1],
    )
    return plan(_copy_program(len(sizes), width * words), parameters, count, shape, dtype)


def _width(
    vector_size: int, sizes: Shape, strides: tuple[Strides, ...], starts: tuple[int, int]
) -> int:
    """Return the size of a vector if all elements can move as vectors, otherwise 1."""
    is_dense = all(s[0] == 1 for s in strides)
    offsets = (sizes[0], *starts, *(n for s in strides for n in s[1:]))
    return vector_size if is_dense and all(n % vector_size == 0 for n in offsets) else 1


@cache
def _copy_program(axes: int, words: int) -> Program:
    source = partial(shader, "movement", axes=str(axes), element=vector("u32", words))
    return Program(f"copy {axes} axes", source)


_FILL = Program("fill", partial(shader, "creation"))


@lru_cache(maxsize=4096)
def _fill_plan(shape: Shape, words: tuple[int, ...], dtype: DType) -> Plan:
    vectors = -(-nbytes_of(shape, len(words)) // 16)
    pair = words * (2 // len(words))
    return plan(_FILL, (vectors, 0, *pair), vectors, shape, dtype)
