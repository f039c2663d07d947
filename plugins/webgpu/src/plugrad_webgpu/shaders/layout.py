"""Memory layouts of arrays: sizes, strides, and loops over several arrays with the fewest axes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

Shape = tuple[int, ...]
"""The sizes of the axes of an array."""
Strides = tuple[int, ...]
"""The distances in elements between neighbours along each axis."""

MIN_BUFFER_BYTES = 256
"""The smallest size class."""
LARGE_SIZE_CLASS_BYTES = 1 << 20
"""The size in bytes from which on size classes are multiples of it instead of powers of two."""


def array_nbytes(shape: Shape, words_per_element: int = 1) -> int:
    """Return the size of an array in bytes, given the words per element.

    >>> array_nbytes((2, 3)), array_nbytes((2, 3), words=2)
    (24, 48)
    """
    count = 4 * words_per_element
    for size in shape:
        count *= size
    return count


def size_class(nbytes: int) -> int:
    """Return the size class of a buffer for this many bytes: powers of two, then whole MiB.

    >>> size_class(0), size_class(1000), size_class(3_000_000)
    (256, 1024, 3145728)
    """
    if nbytes <= MIN_BUFFER_BYTES:
        return MIN_BUFFER_BYTES
    if nbytes <= LARGE_SIZE_CLASS_BYTES:
        return 1 << (nbytes - 1).bit_length()
    return -(-nbytes // LARGE_SIZE_CLASS_BYTES) * LARGE_SIZE_CLASS_BYTES


@lru_cache(maxsize=1024)
def contiguous_strides(shape: Shape) -> Strides:
    """Return the strides of a contiguous row-major array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_strides(shape: Shape, output_shape: Shape) -> Strides:
    """Return the strides that read an array as if it had the shape `output_shape`: 0 where it repeats.

    >>> broadcast_strides((3, 1), (2, 3, 4))
    (0, 1, 0)
    """
    lead = len(output_shape) - len(shape)
    own = zip(shape, contiguous_strides(shape), strict=True)
    return (0,) * lead + tuple(0 if size == 1 else stride for size, stride in own)


class LoopNest(NamedTuple):
    """Nested loops over several arrays: sizes and strides, innermost axis first."""

    sizes: tuple[int, ...]
    """The number of iterations of each loop."""
    strides: tuple[Strides, ...]
    """The strides in elements along the loops, for each array."""

    @property
    def steps(self) -> int:
        """The number of iterations of all loops together."""
        return math.prod(self.sizes)


def merge_axes(shape: Shape, *strides: Strides) -> LoopNest:
    """Return nested loops over `shape` with axes merged where the strides allow, at least one.

    >>> merge_axes((2, 3, 4), (12, 4, 1), (0, 4, 1))
    Loop(sizes=(12, 2), strides=((1, 12), (1, 0)))
    """
    axes: list[tuple[int, Strides]] = []
    for size, *steps in reversed(list(zip(shape, *strides, strict=True))):
        if size == 1:
            continue
        if axes:
            inner_size, inner = axes[-1]
            if all(step == inner_size * below for step, below in zip(steps, inner, strict=True)):
                axes[-1] = inner_size * size, inner
                continue
        axes.append((size, tuple(steps)))
    if not axes:
        axes.append((1, (1,) * len(strides)))
    sizes = tuple(size for size, _ in axes)
    return LoopNest(sizes, tuple(tuple(steps[k] for _, steps in axes) for k in range(len(strides))))
