"""Reductions: x is brought to the form (outer, reduced, inner) first."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import int32, reduced, size_of
from plugrad.kernels import reduction
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.movement import transpose

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_wasm.memory import WasmArray

Axes = tuple[int, ...]


class Fold(NamedTuple):
    """How axes are reduced: after the permutation `order`, if any, as a middle axis of size `reduced`."""

    order: Axes | None
    outer: int
    reduced: int
    inner: int


@lru_cache(maxsize=4096)
def fold(shape: Axes, axes: Axes) -> Fold:
    """Return how to reduce sorted `axes`; axes that are not adjacent are moved to the end."""
    if axes and axes[-1] - axes[0] + 1 == len(axes):
        first, last = axes[0], axes[-1] + 1
        return Fold(None, size_of(shape[:first]), size_of(shape[first:last]), size_of(shape[last:]))
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    outer, folded = (size_of(tuple(shape[axis] for axis in group)) for group in (kept, axes))
    return Fold(kept + axes if axes else None, outer, folded, 1)


def folded(kernel: str) -> Callable[[WasmArray, Axes, bool], WasmArray]:
    """Return the function (x, axes, keep_dims) that reduces the axes with an export of the module."""
    names = ExportNames(kernel)

    def function(x: WasmArray, axes: Axes, keep_dims: bool) -> WasmArray:
        order, *sizes = fold(x.shape, axes)
        out = x.memory.empty(reduced(x.shape, axes, keep_dims), x.dtype)
        if order is not None:
            x = transpose(x, perm=order)
        call(x, names[x.dtype], x.size)(x.address, out.address, *sizes)
        return out

    return function


def by_axis(kernel: str) -> Callable[..., WasmArray]:
    """Return an implementation whose attribute is called `axis`."""
    function = folded(kernel)

    def implementation(x: WasmArray, *, axis: Axes, keep_dims: bool) -> WasmArray:
        return function(x, axis, keep_dims)

    return implementation


greatest = folded("max")


@table.implements(reduction.max)
def max(x: WasmArray, *, reduction_indices: Axes, keep_dims: bool) -> WasmArray:
    """Return the largest elements along axes."""
    return greatest(x, reduction_indices, keep_dims)


def position(kernel: str) -> Callable[..., WasmArray]:
    """Return an implementation that finds the position of an extreme value."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray, *, axis: int) -> WasmArray:
        out = x.memory.empty(reduced(x.shape, (axis,), keep_dims=False), int32)
        sizes = fold(x.shape, (axis,))[1:]
        call(x, names[x.dtype], x.size)(x.address, out.address, *sizes)
        return out

    return implementation


table.update(
    {
        reduction.sum: by_axis("sum"),
        reduction.prod: by_axis("prod"),
        reduction.mean: by_axis("mean"),
        reduction.min: by_axis("min"),
        reduction.all: by_axis("all"),
        reduction.any: by_axis("any"),
        reduction.argmax: position("argmax"),
        reduction.argmin: position("argmin"),
    }
)
