"""Elementwise kernels of two tensors: all of float16, and others where NumPy takes several passes or is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.kernels import binary
from plugrad_cpu.extend import (
    empty,
    empty_like,
    fill_in_threads,
    mark_results_tracked,
    numpy_implementation,
    track_allocation,
)
from plugrad_native.declare import (
    BOOL,
    C_MIN_BYTES,
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    PART_SIZE_MULTIPLE,
    as_contiguous,
    find_c_functions,
    make_binary_kernel,
    parallel_for,
    register_small_result_functions,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Implementation
    from plugrad_native.declare import Array

COMPARISON_NAMES: Final = ("equal", "not_equal", "less", "less_equal")
"""The names of the comparisons that have C functions; `greater` is `less` with swapped operands."""

BROADCAST_INTEGER_DTYPES: Final = ("int32", "int64", "uint8")
"""The names of the integer dtypes for which C broadcasts operands faster than NumPy."""
BROADCAST_DTYPES_BY_KERNEL: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("add", "subtract", "multiply"), (*FLOAT_DTYPES, *BROADCAST_INTEGER_DTYPES)),
    "divide": FLOAT_DTYPES,
}
"""By kernel name: the dtypes for which C is faster than NumPy if an operand is broadcast or its rows have gaps."""


def make_c_binary_kernel(
    name: str, *dtypes: str, result_dtype: np.dtype[Any] | None = None
) -> Implementation:
    """Return the implementation of the binary kernel called `name` by its C functions, for dtypes that have one."""
    functions, broadcast = (
        find_c_functions(name, *dtypes),
        find_c_functions(name, *dtypes, suffix="_broadcast"),
    )
    return make_binary_kernel(vars(binary)[name], functions, broadcast, result_dtype)


def swap_operands(implementation: Implementation) -> Implementation:
    """Return a binary implementation that calls another one with `a` and `b` exchanged."""

    def with_swapped_operands(a: Array, b: Array) -> Array:
        """Return the result for the operands in the other order."""
        return implementation(b, a)

    return with_swapped_operands


float16_comparisons: Final = {
    vars(binary)[name]: make_c_binary_kernel(name, "float16", result_dtype=BOOL)
    for name in COMPARISON_NAMES
}
"""By kernel: the implementation in C of a comparison of float16."""
float16_comparisons[binary.greater] = swap_operands(float16_comparisons[binary.less])
float16_comparisons[binary.greater_equal] = swap_operands(float16_comparisons[binary.less_equal])
table.update(float16_comparisons, dtypes=["float16"], min_bytes=C_MIN_BYTES)
for name, dtypes in BROADCAST_DTYPES_BY_KERNEL.items():
    table.update(
        {vars(binary)[name]: make_c_binary_kernel(name, "float16", *dtypes)},
        dtypes=["float16"],
        broadcast_dtypes=dtypes,
        min_bytes=C_MIN_BYTES,
    )


# --- more dtypes --------------------------------------------------------------------------------

DTYPES_OF_BINARY_KERNELS_BITWISE_AS_NUMPY: Final[dict[str, tuple[str, ...]]] = {
    "floor_divide": ("float16", "float32"),
    "maximum": ("float16", *FLOAT_DTYPES),
    "minimum": ("float16", *FLOAT_DTYPES),
    "remainder": ("float16", "float32"),
}
"""By kernel name: the dtypes for which C is faster than NumPy and gives the same bits."""

DTYPES_OF_BINARY_KERNELS_UNLIKE_NUMPY: Final[dict[str, tuple[str, ...]]] = {
    "hypot": ("float16", *FLOAT_DTYPES),
    "log_add_exp": ("float16", *FLOAT_DTYPES),
    "squared_difference": ("float16", *FLOAT_DTYPES),
}
"""By kernel name: the dtypes for which C is faster than NumPy and gives other bits.

C computes small arrays, too, so that ``f(x)[:5]`` is ``f(x[:5])``.
"""

for names, min_bytes in (
    (DTYPES_OF_BINARY_KERNELS_BITWISE_AS_NUMPY, C_MIN_BYTES),
    (DTYPES_OF_BINARY_KERNELS_UNLIKE_NUMPY, 0),
):
    for name, dtypes in names.items():
        table.update(
            {vars(binary)[name]: make_c_binary_kernel(name, *dtypes)},
            dtypes=dtypes,
            min_bytes=min_bytes,
        )

NUMPY_POWER_MAX_BYTES: Final = 4096
"""The bytes of an array below which NumPy's `power` takes less time than the choice of a faster function."""
C_POWER: Final = find_c_functions("power", *FLOAT_DTYPES)
"""The C functions ``power_…``, by dtype."""
SINGLE_PASS_EXPONENTS: Final = (3, 4, -1)
"""The exponents for which C computes powers in one pass; NumPy is as fast for 2, and faster for other numbers."""
numpy_power: Final = numpy_implementation(binary.power)
"""NumPy's implementation of the kernel `power`."""


def power_in_threads(numpy_function: Callable[..., Array], a: Array, b: Array) -> Array:
    """Return a to the power of b, computed by a NumPy function such as `np.power` in several threads."""
    if a.shape != b.shape and (b.size != 1 or b.ndim > a.ndim):
        return numpy_power(a, b)
    out = empty_like(a)
    fill_in_threads(numpy_function, (a, b), out)
    return out


@table.implements(binary.power)
def power(a: Array, b: Array) -> Array:
    """Return a to the power of b."""
    if a.nbytes < NUMPY_POWER_MAX_BYTES:
        return numpy_power(a, b)
    if b.size != 1:
        return power_in_threads(np.power if a.dtype.kind == "f" else numpy_power, a, b)
    run = C_POWER.get(a.dtype)
    if (
        run is None
        or b.ndim > a.ndim
        or a.size >= MAX_ELEMENTS
        or b.item() not in SINGLE_PASS_EXPONENTS
        or not a.flags.c_contiguous
    ):
        return power_in_threads(numpy_power, a, b)
    out = empty(a.shape, a.dtype)
    places = (a, 1), (b, 0), (out, 1)
    parallel_for(run, places, a.size, 1, 0, work=a.size, part_size_multiple=PART_SIZE_MULTIPLE)
    return out


C_SELECT_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"select_{size}") for size in (1, 2, 4, 8)
}
"""The C functions of `select`, by the bytes of an element."""
numpy_select: Final = numpy_implementation(binary.select)
"""NumPy's implementation of the kernel `select`."""
for _dtype in map(np.dtype, ("bool", *FLOAT_DTYPES, "int32", "int64", "uint8")):
    register_small_result_functions(
        binary.select, "each", {_dtype: C_SELECT_BY_ITEM_SIZE[_dtype.itemsize]}
    )


@table.implements(binary.select)
@mark_results_tracked
def select(condition: Array, t: Array, e: Array) -> Array:
    """Return t where the condition holds, else e; either may be a single number."""
    shape = condition.shape
    size = condition.size
    run = C_SELECT_BY_ITEM_SIZE.get(t.itemsize)
    steps = 1, t.shape == shape, e.shape == shape
    if (
        run is None
        or size >= MAX_ELEMENTS
        or t.dtype.hasobject
        or not (steps[1] or (t.size == 1 and t.ndim <= len(shape)))
        or not (steps[2] or (e.size == 1 and e.ndim <= len(shape)))
    ):
        return track_allocation(numpy_select(condition, t, e))
    if size < NUMPY_POWER_MAX_BYTES:
        out = np.empty(shape, t.dtype)
        run(as_contiguous(condition), as_contiguous(t), as_contiguous(e), out, size, *steps)
        return out
    out = empty(shape, t.dtype)
    places = [(as_contiguous(x), step) for x, step in zip((condition, t, e), steps, strict=True)]
    parallel_for(
        run, (*places, (out, 1)), size, *steps, work=size, part_size_multiple=PART_SIZE_MULTIPLE
    )
    return out
