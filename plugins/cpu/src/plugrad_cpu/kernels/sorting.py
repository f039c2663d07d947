"""Sorting and searching: implementations of the core, which are written in NumPy, by rows that threads share."""

from typing import Any, Final

from plugrad.extend import Implementation, host_implementations, position_dtype
from plugrad.kernels import sorting
from plugrad_cpu.declare import Array, mark_results_tracked, table
from plugrad_cpu.memory import empty, track_allocation
from plugrad_cpu.sharing import run_in_ranges
from plugrad_cpu.threads import thread_pool

SORT_COST_IN_ADDITIONS: Final = 8
"""The cost of sorting one element, in additions."""
SEARCH_COST_IN_ADDITIONS: Final = 256
"""The cost of the search for one value, in additions."""


def with_shared_rows(sort: Implementation) -> Implementation:
    """Return an implementation of a sort whose first axis threads share."""

    @mark_results_tracked
    def implementation(x: Array, *, axis: int, descending: bool) -> Array:
        """Return the elements in order along an axis."""
        work = SORT_COST_IN_ADDITIONS * x.size
        if axis == 0 or work < 2 * thread_pool.part_min_work:
            return track_allocation(sort(x, axis=axis, descending=descending))
        out = empty(x.shape, x.dtype)

        def compute(first_row: int, end_row: int) -> None:
            """Sort the rows from `first_row` to before `end_row`."""
            out[first_row:end_row] = sort(x[first_row:end_row], axis=axis, descending=descending)

        run_in_ranges(compute, len(out), work)
        return out

    return implementation


def with_shared_values(search: Implementation) -> Implementation:
    """Return an implementation of a search in which threads share the values to be found."""

    @mark_results_tracked
    def implementation(sorted_sequence: Array, values: Array, **side: Any) -> Array:
        """Return the index of each value in a sorted sequence."""
        work = SEARCH_COST_IN_ADDITIONS * values.size
        if work < 2 * thread_pool.part_min_work:
            return track_allocation(search(sorted_sequence, values, **side))
        out = empty(values.shape, position_dtype(sorted_sequence.shape[-1] + 1).numpy)

        def compute(first_row: int, end_row: int) -> None:
            """Find the values from `first_row` to before `end_row`."""
            out[..., first_row:end_row] = search(
                sorted_sequence, values[..., first_row:end_row], **side
            )

        run_in_ranges(compute, values.shape[-1], work)
        return out

    return implementation


WRAPPER_BY_KERNEL: Final = {
    sorting.sort: with_shared_rows,
    **dict.fromkeys(
        (sorting.search_sorted, sorting.lower_bound, sorting.upper_bound), with_shared_values
    ),
}
"""By kernel: the wrapper that divides its work among threads."""

table.update(
    {
        kernel: WRAPPER_BY_KERNEL[kernel](function) if kernel in WRAPPER_BY_KERNEL else function
        for kernel, function in host_implementations(sorting).items()
    }
)
