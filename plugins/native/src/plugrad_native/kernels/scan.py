"""Running sums and products along an axis; floats are added and multiplied in double precision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugrad.extend import count_elements
from plugrad.kernels import scan
from plugrad_cpu.extend import empty, mark_results_tracked, numpy_implementation, track_allocation
from plugrad_native.declare import (
    FLOAT16,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    register_small_result_functions,
    table,
)
from plugrad_native.kernels.unary import cast_to_float16, cast_to_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape
    from plugrad_native.declare import Array

ROWS_SCANNED_TOGETHER = 8
"""The rows that C scans at a time, as in csrc/scan.c."""
COLUMNS_SCANNED_TOGETHER = 16
"""The columns that C scans at a time, as in csrc/scan.c."""
NUMBER_DTYPES = (*FLOAT_DTYPES, *INTEGER_DTYPES)
"""The names of the dtypes of integers and floats, except halves."""


@lru_cache(maxsize=1024)
def find_sizes_around_axis(shape: Shape, axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after an axis."""
    return count_elements(shape[:axis]), shape[axis], count_elements(shape[axis + 1 :])


def make_scan(kernel: Kernel[..., Any], c_name: str) -> Callable[..., Array]:
    """Return the implementation of a cumulative sum or product by its C functions."""
    functions, numpy_function = (
        find_c_functions(c_name, *NUMBER_DTYPES),
        numpy_implementation(kernel),
    )
    columns = find_c_functions(f"{c_name}_pitched", *FLOAT_DTYPES)

    @mark_results_tracked
    def implementation(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        """Return the running sums or products along an axis."""
        run = functions.get(x.dtype)
        if run is None or not 0 < x.size < MAX_ELEMENTS:
            if x.dtype == FLOAT16:
                wide = cast_to_float32(x)
                return cast_to_float16(
                    implementation(wide, axis=axis, exclusive=exclusive, reverse=reverse)
                )
            y = numpy_function(x, axis=axis, exclusive=exclusive, reverse=reverse)
            return track_allocation(y)
        shape = x.shape
        outer, length, inner = find_sizes_around_axis(shape, axis)
        out = empty(shape, x.dtype)
        count, step, multiple = outer, length * inner, ROWS_SCANNED_TOGETHER
        if outer == 1 and inner > COLUMNS_SCANNED_TOGETHER and x.dtype in columns:
            run, count, step, multiple = columns[x.dtype], inner, 1, COLUMNS_SCANNED_TOGETHER
        places = (as_contiguous(x), step), (out, step)
        attributes = length, inner, exclusive, reverse
        parallel_for(run, places, count, *attributes, work=x.size, part_size_multiple=multiple)
        return out

    register_small_result_functions(kernel, "scan", functions, "axis", "exclusive", "reverse")
    return implementation


table.update(
    {
        scan.cumsum: make_scan(scan.cumsum, "cumsum"),
        scan.cumprod: make_scan(scan.cumprod, "cumprod"),
    }
)
