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
    from plugrad_webgpu.layout import Loop, Shape, Strides
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
    widths = _widths(4 // words, loop, source.start, target.start)
    width = widths[1]
    sizes = (loop.sizes[0] // width, *loop.sizes[1:])
    count = 0 if 0 in shape else loop.steps // width
    parameters = [count, source.start // widths[0], target.start // width, *sizes]
    for strides, own in zip(loop.strides, widths, strict=True):
        parameters += [strides[0], *[n // own for n in strides[1:]]]
    program = _copy_program(len(sizes), widths[0] * words, width * words)
    return plan(program, parameters, count, shape, dtype)


def _widths(lanes: int, loop: Loop, *starts: int) -> tuple[int, int]:
    """Return how many elements of the source and of the target move at once: `lanes` of them, or one.

    One element of the source fills a vector of the target where the source repeats it.
    """

    def fits(strides: Strides, start: int) -> bool:
        return strides[0] == 1 and all(n % lanes == 0 for n in (start, *strides[1:]))

    fit = [fits(*pair) for pair in zip(loop.strides, starts, strict=True)]
    if loop.sizes[0] % lanes or not fit[1]:
        return 1, 1
    if fit[0]:
        return lanes, lanes
    return (1, lanes) if loop.strides[0][0] == 0 else (1, 1)


@cache
def _copy_program(axes: int, source_words: int, target_words: int) -> Program:
    target = vector("u32", target_words)
    repeated = ", ".join(["source[source_at]"] * (target_words // source_words))
    source = partial(
        shader,
        "movement",
        axes=str(axes),
        element=vector("u32", source_words),
        target=target,
        value=f"{target}({repeated})",
    )
    return Program(f"copy {axes} axes", source)


_FILL = Program("fill", partial(shader, "creation"))


@lru_cache(maxsize=4096)
def _fill_plan(shape: Shape, words: tuple[int, ...], dtype: DType) -> Plan:
    vectors = -(-nbytes_of(shape, len(words)) // 16)
    pair = words * (2 // len(words))
    return plan(_FILL, (vectors, 0, *pair), vectors, shape, dtype)
