"""Sorting and searching: GPUs compute the order of elements, and core's implementations on the host the rest.

On a software device, whose memory is the host's, NumPy sorts faster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from plugrad.extend import complex64, host_implementations
from plugrad.kernels import sorting
from plugrad_webgpu.algorithms.ordering import argsort_rows, can_select_largest, largest_indices
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.indexing import gather
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import permute_axes, slice_block
from plugrad_webgpu.memory.transfers import run_on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel
    from plugrad_webgpu.memory.buffers import GpuArray

HOST_IMPLEMENTATIONS = dict(host_implementations(sorting))
"""Core's implementations on the host, by kernel."""


def implements_on_gpus(
    kernel: Kernel[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that declares a function for GPUs; software devices compute with NumPy on the host.

    So do complex numbers, whose order takes two keys.
    """
    body = HOST_IMPLEMENTATIONS.pop(kernel)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @table.implements(kernel)
        def implementation(x: GpuArray, **attributes: Any) -> Any:
            if x.buffer.device.is_software or x.dtype == complex64:
                return run_on_host(body, x, **attributes)
            return function(x, **attributes)

        return implementation

    return declare


@implements_on_gpus(sorting.sort)
def sort(x: GpuArray, *, axis: int, descending: bool) -> GpuArray:
    """Return the elements sorted along an axis."""
    rows = _move_axis_to_end(x, axis)
    return _move_axis_back(_take_along_rows(rows, argsort_rows(rows, descending=descending)), axis)


@implements_on_gpus(sorting.argsort)
def argsort(x: GpuArray, *, axis: int, descending: bool, stable: bool) -> GpuArray:
    """Return the indices that sort an axis; the sort is always stable."""
    return _move_axis_back(argsort_rows(_move_axis_to_end(x, axis), descending=descending), axis)


@implements_on_gpus(sorting.top_k)
def top_k(x: GpuArray, *, k: int, sorted: bool) -> tuple[GpuArray, GpuArray]:
    """Return the k largest elements along the last axis and their indices."""
    if can_select_largest(x, k):
        places = largest_indices(x, k, sort_by_index=not sorted)
        return _take_along_rows(x, places), places
    places = slice_block(argsort_rows(x, descending=True), (0,) * len(x.shape), (*x.shape[:-1], k))
    if not sorted:
        places = _take_along_rows(places, argsort_rows(places))
    return _take_along_rows(x, places), places


def _move_axis_to_end(x: GpuArray, axis: int) -> GpuArray:
    """Return the array with an axis moved to the end."""
    axes = [i for i in range(len(x.shape)) if i != axis]
    return x if axis == len(axes) else permute_axes(x, (*axes, axis))


def _move_axis_back(x: GpuArray, axis: int) -> GpuArray:
    """Return the array with its last axis moved to the position `axis`."""
    last = len(x.shape) - 1
    axes = list(range(last))
    return x if axis == last else permute_axes(x, (*axes[:axis], last, *axes[axis:]))


def _take_along_rows(x: GpuArray, indices: GpuArray) -> GpuArray:
    """Return the elements at indices within each row."""
    rows = math.prod(x.shape[:-1])
    parts = reinterpret(x, (rows, x.shape[-1])), reinterpret(indices, (rows, indices.shape[-1]))
    return reinterpret(gather(*parts, axis=1, batch_dims=1), indices.shape)


table.update(HOST_IMPLEMENTATIONS, on_host=True)
