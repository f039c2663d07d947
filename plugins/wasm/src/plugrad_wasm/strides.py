"""Strides: how kernels walk over arrays that are broadcast, permuted or sliced.

Everything here depends on shapes alone and is cached. Strides count elements.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from plugrad.extend import broadcast, count_elements

Sizes = tuple[int, ...]
"""The type of shapes, strides and other integers, one for each axis."""


@lru_cache(maxsize=1024)
def contiguous_strides(shape: Sizes) -> Sizes:
    """Return the strides of a contiguous array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(accumulate(reversed(shape[1:]), mul, initial=1))[::-1] if shape else ()


@lru_cache(maxsize=1024)
def broadcast_strides(shape: Sizes, target_shape: Sizes) -> Sizes:
    """Return the strides that read an array of `shape` as if it had the shape `target_shape`.

    >>> broadcast_strides((3, 1), (2, 3, 4))
    (0, 1, 0)
    """
    lead = (0,) * (len(target_shape) - len(shape))
    return lead + tuple(
        0 if n == 1 else step for n, step in zip(shape, contiguous_strides(shape), strict=True)
    )


def merge_axes(sizes: Sizes, *strides: Sizes) -> tuple[Sizes, ...]:
    """Return sizes and strides with adjacent axes merged into as few as possible, at least one.

    >>> merge_axes((2, 3, 4), (12, 4, 1), (0, 4, 1))
    ((2, 12), (12, 1), (0, 1))
    """
    axes: list[list[int]] = []  # [size, stride, stride, …] per axis, outermost first
    for size, *steps in zip(sizes, *strides, strict=True):
        if size == 1:
            continue
        outer = axes[-1] if axes else None
        if outer and all(far == near * size for far, near in zip(outer[1:], steps, strict=True)):
            axes[-1] = [outer[0] * size, *steps]
        else:
            axes.append([size, *steps])
    columns = zip(*(axes or [[1, *(0 for _ in strides)]]), strict=True)
    return tuple(tuple(column) for column in columns)


class BinaryLayout(NamedTuple):
    """The memory layout of a binary operation: one loop with a step per operand, or a descriptor of nested loops."""

    shape: Sizes
    """The shape of the result."""
    size: int
    """The number of elements of the result."""
    a_step: int
    """The step of operand a, in elements, for each element of the result."""
    b_step: int
    """The step of operand b, in elements, for each element of the result."""
    descriptor: Sizes | None
    """The number of axes, their sizes and the strides of both operands, or None if one loop suffices."""


@lru_cache(maxsize=1024)
def binary_layout(a_shape: Sizes, b_shape: Sizes) -> BinaryLayout:
    """Return the layout of a binary operation on two shapes.

    Raises:
        ShapeError: they do not broadcast.
    """
    shape = broadcast(a_shape, b_shape)
    sizes, a, b = merge_axes(
        shape, broadcast_strides(a_shape, shape), broadcast_strides(b_shape, shape)
    )
    if len(sizes) == 1:
        # A repeated element has step 0; both steps are 0 only where there is one element.
        steps = (a[0], b[0]) if a[0] or b[0] else (1, 1)
        return BinaryLayout(shape, count_elements(shape), *steps, None)
    return BinaryLayout(shape, count_elements(shape), 1, 1, (len(sizes), *sizes, *a, *b))


@lru_cache(maxsize=1024)
def strided_binary_layout(shape: Sizes, a_strides: Sizes, b_strides: Sizes) -> BinaryLayout | None:
    """Return the layout of a binary operation on two strided views, or None if an inner stride is not 0 or 1."""
    sizes, a_strides, b_strides = merge_axes(shape, a_strides, b_strides)
    if (a_strides[-1], b_strides[-1]) not in ((1, 1), (0, 1), (1, 0)):
        return None
    descriptor = (len(sizes), *sizes, *a_strides, *b_strides) if len(sizes) > 1 else None
    return BinaryLayout(shape, count_elements(shape), a_strides[-1], b_strides[-1], descriptor)


@lru_cache(maxsize=1024)
def axes_by_descending_stride(strides: Sizes) -> Sizes:
    """Return the axes, sorted by descending stride."""
    return tuple(sorted(range(len(strides)), key=lambda axis: -abs(strides[axis])))


@lru_cache(maxsize=1024)
def contiguous_axis_order(sizes: Sizes, strides: Sizes) -> Sizes | None:
    """Return the order of axes in which a view of `sizes` and strides is contiguous, or None if there is none.

    >>> contiguous_axis_order((2, 3), (1, 2)), contiguous_axis_order((2, 3), (1, 4))
    ((1, 0), None)
    """
    order = axes_by_descending_stride(strides)
    ordered = (tuple([values[axis] for axis in order]) for values in (sizes, strides))
    return order if merge_axes(*ordered)[1] == (1,) else None


@lru_cache(maxsize=1024)
def memory_order_binary_layout(
    shape: Sizes, a_strides: Sizes, b_strides: Sizes
) -> tuple[BinaryLayout, Sizes] | tuple[None, None]:
    """Return the layout of an operation whose result has its axes in memory order of an operand, and that order."""
    for strides in (a_strides, b_strides):
        order = axes_by_descending_stride(strides)
        layout = strided_binary_layout(
            *(tuple([v[axis] for axis in order]) for v in (shape, a_strides, b_strides))
        )
        if layout is not None:
            return layout, order
    return None, None


@lru_cache(maxsize=1024)
def strides_for_axis_order(sizes: Sizes, order: Sizes) -> Sizes:
    """Return the strides of a contiguous array whose axes have a given order in memory.

    >>> strides_for_axis_order((2, 3), (1, 0))
    (1, 2)
    """
    strides = contiguous_strides(tuple([sizes[axis] for axis in order]))
    return tuple([strides[order.index(axis)] for axis in range(len(sizes))])


@lru_cache(maxsize=1024)
def copy_descriptor(sizes: Sizes, source_strides: Sizes, target_strides: Sizes) -> Sizes:
    """Return the descriptor that the copying exports take, for a block of `sizes` and strides in elements.

    The innermost axis is the one along which the target is contiguous; the second is that of the
    source. So the tiles of the kernel use whole cache lines on both sides.
    """
    order = sorted(range(len(sizes)), key=lambda axis: -abs(target_strides[axis]))
    axes = merge_axes(
        *(
            tuple(values[axis] for axis in order)
            for values in (sizes, source_strides, target_strides)
        )
    )
    count = len(axes[0])
    inner = min(range(count - 1), key=lambda axis: abs(axes[1][axis]) or 1 << 31, default=None)
    order = [*range(count)]
    if inner is not None:
        order.insert(count - 2, order.pop(inner))
    else:
        order = [-1, *order]  # the kernel wants two axes
        axes = tuple((*values, filler) for values, filler in zip(axes, (1, 0, 0), strict=True))
    return (len(order), *(values[axis] for values in axes for axis in order))


@lru_cache(maxsize=1024)
def slice_strides(
    strides: Sizes, begin: Sizes, sizes: Sizes, steps: Sizes | None, drop: Sizes
) -> tuple[Sizes, Sizes, int]:
    """Return sizes, strides and first element of a slice of a strided view, without the axes in `drop`.

    >>> slice_strides((12, 4, 1), (1, 0, 2), (1, 3, 2), None, (0,))
    ((3, 2), (4, 1), 14)
    """
    inner = strides if steps is None else tuple(map(mul, strides, steps))
    kept = [axis for axis in range(len(sizes)) if axis not in drop]
    start = sum(map(mul, strides, begin))
    return tuple([sizes[i] for i in kept]), tuple([inner[i] for i in kept]), start
