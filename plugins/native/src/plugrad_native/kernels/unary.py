"""Elementwise kernels of one tensor for which NumPy has no function, takes several passes, or has no vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import float16, float32
from plugrad.kernels import unary
from plugrad_cpu.extend import empty, mark_results_tracked, numpy_implementation, track_allocation
from plugrad_native.declare import (
    C_MIN_BYTES,
    FLOAT16,
    FLOAT32,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    PART_SIZE_MULTIPLE,
    UNTRACKED_MAX_ELEMENTS,
    SmallResults,
    as_contiguous,
    find_c_functions,
    make_unary_kernel,
    parallel_for,
    register_small_result_functions,
    table,
    with_small_results_in_c,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_native.declare import Array

DTYPE_CHARS: Final = {
    "bfloat16": "E",
    **{name: np.dtype(name).char for name in ("bool", "float16", *FLOAT_DTYPES, *INTEGER_DTYPES)},
}
"""NumPy's letters for dtypes; the letter for bfloat16 is that of ml_dtypes."""
C_STEP_BY_DTYPE_CHAR: Final = {
    DTYPE_CHARS[dtype]: current_variant().kernel(f"step_{dtype}")
    for dtype in ("float16", "bfloat16", *FLOAT_DTYPES)
}
"""The C functions of `step`, by NumPy's letters for the dtypes."""
C_CASTS_BY_DTYPE_CHARS: Final = {
    DTYPE_CHARS[source] + DTYPE_CHARS[target]: current_variant().kernel(f"cast_{source}_{target}")
    for source, targets in (
        ("float16", ("float32",)),
        ("bfloat16", ("float32",)),
        ("float32", ("float16", "bfloat16", "float64", *INTEGER_DTYPES)),
        ("float64", ("bfloat16", *INTEGER_DTYPES)),
        ("int32", ("float32",)),
        ("int64", ("int32",)),
        ("uint8", ("float32",)),
        ("bool", ("float32", "int32", "int64")),
    )
    for target in targets
}
"""The C functions of casts, by the letters of both dtypes.

They are casts that NumPy makes without vectors, or for which it has to check the range first, and the most usual ones,
which threads share.
"""

numpy_step: Final = numpy_implementation(unary.step)
"""NumPy's implementation of the kernel `step`."""
numpy_cast: Final = numpy_implementation(unary.cast)
"""NumPy's implementation of the kernel `cast`."""


@table.implements(unary.step)
def step(x: Array, *, alpha: float) -> Array:
    """Return 1 where x is positive, else `alpha`; NaN stays NaN."""
    run = C_STEP_BY_DTYPE_CHAR.get(x.dtype.char)
    size = x.size
    if run is None or size >= MAX_ELEMENTS:
        return numpy_step(x, alpha=alpha)
    if size < UNTRACKED_MAX_ELEMENTS:
        out = np.empty(x.shape, x.dtype)
        run(as_contiguous(x), out, size, alpha)
        return out
    out = empty(x.shape, x.dtype)
    parallel_for(
        run,
        ((as_contiguous(x), 1), (out, 1)),
        size,
        alpha,
        work=size,
        part_size_multiple=PART_SIZE_MULTIPLE,
    )
    return out


@table.implements(unary.cast)
@mark_results_tracked
def cast(x: Array, *, dtype: DType) -> Array:
    """Return the elements in another dtype."""
    run = C_CASTS_BY_DTYPE_CHARS.get(x.dtype.char + dtype.numpy.char)
    if run is None or x.size >= MAX_ELEMENTS:
        return track_allocation(numpy_cast(x, dtype=dtype))
    size = x.size
    if size < UNTRACKED_MAX_ELEMENTS:
        out = np.empty(x.shape, dtype.numpy)
        run(as_contiguous(x), out, size)
        return out
    out = empty(x.shape, dtype.numpy)
    parallel_for(
        run,
        ((as_contiguous(x), 1), (out, 1)),
        size,
        work=size,
        part_size_multiple=PART_SIZE_MULTIPLE,
    )
    return out


def _cast_to_float32(x: Array) -> Array:
    """Cast float16 to float32 by a call from Python."""
    return cast(x, dtype=float32)


def _cast_to_float16(x: Array) -> Array:
    """Cast float32 to float16 by a call from Python."""
    return cast(x, dtype=float16)


cast_to_float32: Final = with_small_results_in_c(
    SmallResults("each", {(FLOAT16, FLOAT32): C_CASTS_BY_DTYPE_CHARS["ef"]}, ()),
    _cast_to_float32,
)
"""Casts float16 to float32; small arrays are cast in C, as a call of Python takes as long as a small product."""
cast_to_float16: Final = with_small_results_in_c(
    SmallResults("each", {(FLOAT32, FLOAT16): C_CASTS_BY_DTYPE_CHARS["fe"]}, ()),
    _cast_to_float16,
)
"""Casts float32 to float16; small arrays are cast in C."""

for _dtype in map(np.dtype, ("bool", *FLOAT_DTYPES, "int32", "int64", "uint8")):
    register_small_result_functions(unary.cast, "cast", {_dtype: None})
    if _dtype.kind in "iu":
        register_small_result_functions(
            unary.cast,
            "cast",
            {np.dtype(f): C_CASTS_BY_DTYPE_CHARS[f + _dtype.char] for f in "fd"},
            result_dtype=_dtype,
        )


DTYPES_OF_UNARY_KERNELS_BITWISE_AS_NUMPY: Final[dict[str, tuple[str, ...]]] = {
    "ceil": ("float16",),
    "floor": ("float16",),
    "negative": ("float16",),
    "reciprocal": ("float16", *FLOAT_DTYPES),
    "round": ("float16",),
    "sign": ("float16", *FLOAT_DTYPES),
    "sqrt": ("float16", *FLOAT_DTYPES),
    "square": ("float16",),
    "trunc": ("float16",),
}
"""By kernel name: the dtypes for which C is faster than NumPy and gives the same bits."""

DTYPES_OF_UNARY_KERNELS_UNLIKE_NUMPY: Final[dict[str, tuple[str, ...]]] = {
    "erf": ("float16", *FLOAT_DTYPES),
    "exp": ("float32",),
    "expm1": ("float32",),
    "log": ("float32",),
    "log1p": ("float32",),
    "rsqrt": ("float16", *FLOAT_DTYPES),
    "tanh": ("float32",),
}
"""By kernel name: the dtypes for which C is faster than NumPy and gives other bits.

C computes small arrays, too, so that ``f(x)[:5]`` is ``f(x[:5])``.
"""

for _names, _min_bytes in (
    (DTYPES_OF_UNARY_KERNELS_BITWISE_AS_NUMPY, C_MIN_BYTES),
    (DTYPES_OF_UNARY_KERNELS_UNLIKE_NUMPY, 0),
):
    for _name, _dtypes in _names.items():
        table.update(
            {
                vars(unary)[_name]: make_unary_kernel(
                    vars(unary)[_name], find_c_functions(_name, *_dtypes)
                )
            },
            dtypes=_dtypes,
            min_bytes=_min_bytes,
        )
