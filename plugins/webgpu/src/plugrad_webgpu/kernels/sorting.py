"""Sorting and searching: orders come from the device, and the rest from the core's host bodies.

On a software device, whose memory is the host's, NumPy sorts faster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from plugrad.extend import complex64, host_bodies
from plugrad.kernels import sorting
from plugrad_webgpu.algorithms.ordering import order
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.indexing import gather
from plugrad_webgpu.memory.buffers import shared
from plugrad_webgpu.memory.copying import block, transposed
from plugrad_webgpu.memory.transfers import on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel
    from plugrad_webgpu.memory.buffers import GpuArray

BODIES = dict(host_bodies(sorting))


def on_hardware(
    kernel: Kernel[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that declares a function for hardware; a software device takes the host body.

    So do complex numbers, whose order takes two keys.
    """
    body = BODIES.pop(kernel)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @table.implements(kernel)
        def chosen(x: GpuArray, **attributes: Any) -> Any:
            if x.buffer.device.is_software or x.dtype == complex64:
                return on_host(body, x, **attributes)
            return function(x, **attributes)

        return chosen

    return declare


@on_hardware(sorting.sort)
def sort(x: GpuArray, *, axis: int, descending: bool) -> GpuArray:
    """Return the elements in order along an axis."""
    rows = _with_axis_last(x, axis)
    return _with_axis_back(_picked(rows, order(rows, descending=descending)), axis)


@on_hardware(sorting.argsort)
def argsort(x: GpuArray, *, axis: int, descending: bool, stable: bool) -> GpuArray:
    """Return the positions that sort an axis; equal elements always stay in their order."""
    return _with_axis_back(order(_with_axis_last(x, axis), descending=descending), axis)


@on_hardware(sorting.top_k)
def top_k(x: GpuArray, *, k: int, sorted: bool) -> tuple[GpuArray, GpuArray]:
    """Return the largest elements along the last axis and their positions."""
    places = block(order(x, descending=True), (0,) * len(x.shape), (*x.shape[:-1], k))
    if not sorted:
        places = _picked(places, order(places))
    return _picked(x, places), places


def _with_axis_last(x: GpuArray, axis: int) -> GpuArray:
    """Return the array with an axis moved to the end."""
    axes = [i for i in range(len(x.shape)) if i != axis]
    return x if axis == len(axes) else transposed(x, (*axes, axis))


def _with_axis_back(x: GpuArray, axis: int) -> GpuArray:
    """Return the array with its last axis moved to a place."""
    last = len(x.shape) - 1
    axes = list(range(last))
    return x if axis == last else transposed(x, (*axes[:axis], last, *axes[axis:]))


def _picked(x: GpuArray, places: GpuArray) -> GpuArray:
    """Return the elements at places within the rows."""
    rows = math.prod(x.shape[:-1])
    parts = shared(x, (rows, x.shape[-1])), shared(places, (rows, places.shape[-1]))
    return shared(gather(*parts, axis=1, batch_dims=1), places.shape)


table.update(BODIES, on_host=True)
