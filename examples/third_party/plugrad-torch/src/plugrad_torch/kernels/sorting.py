"""Sorting of real numbers. Complex numbers, which PyTorch does not order, and Unique are left to plugrad's bodies."""

import torch

from plugrad.extend import UnsupportedDtype, host_implementations
from plugrad.kernels import sorting
from plugrad_torch.declare import Array, implements, table, update


def argsort_stably(x: Array, axis: int, descending: bool) -> Array:
    """Return the positions that sort an axis; equal elements stay in their order."""
    if x.is_complex():
        raise UnsupportedDtype("the torch backend does not order complex numbers")
    return torch.sort(x, dim=axis, descending=descending, stable=True).indices


@implements(sorting.sort)
def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Return the elements in order."""
    return torch.gather(x, axis, argsort_stably(x, axis, descending)) if x.ndim else x


@implements(sorting.argsort)
def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """Return the positions that sort an axis; the sort is always stable."""
    return argsort_stably(x, axis, descending).int()


@implements(sorting.top_k)
def top_k(x: Array, *, k: int, sorted: bool) -> list[Array]:
    """Return the largest elements and their positions; of equal elements, the first."""
    places = argsort_stably(x, -1, descending=True)[..., :k]
    if not sorted:
        places = torch.sort(places, -1).values
    return [torch.gather(x, -1, places), places.int()]


def search_sorted_rows(rows: Array, values: Array, right: bool) -> Array:
    """Return the positions at which to insert values into sorted rows."""
    if rows.is_complex():
        raise UnsupportedDtype("the torch backend does not order complex numbers")
    if rows.dtype is torch.bool:
        rows, values = rows.byte(), values.byte()
    return torch.searchsorted(rows.contiguous(), values.contiguous(), right=right).int()


update(
    {
        sorting.search_sorted: lambda rows, values, *, side: search_sorted_rows(
            rows, values, side == "right"
        ),
        sorting.lower_bound: lambda rows, values: search_sorted_rows(rows, values, False),
        sorting.upper_bound: lambda rows, values: search_sorted_rows(rows, values, True),
    }
)
table.update({sorting.unique: host_implementations(sorting)[sorting.unique]}, on_host=True)
