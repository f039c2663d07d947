"""Products of matrices: of integers; of float16, in single precision; and of float32, in wide vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import broadcast, count_elements
from plugrad.kernels import linalg
from plugrad_cpu.extend import (
    empty,
    is_exact_in_float64,
    numpy_implementation,
    track_allocation,
    tracked,
)
from plugrad_native.declare import (
    FLOAT16,
    FLOAT32,
    INT32,
    INTEGERS,
    LANES,
    MAX_ELEMENTS,
    PARALLEL_MIN_WORK,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    broadcast_descriptor,
    exports,
    parallel_for,
    table,
)
from plugrad_native.kernels.unary import to_float16, to_float32
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array, Export

MATMUL = exports("matmul", *INTEGERS, "float32")
SERVES_FLOAT32: Final = LANES >= 16
"""Whether C multiplies float32 faster than NumPy's BLAS: with registers for 24 vectors of sums."""
INTEGER_MAX_PRODUCTS: Final = 1 << 26
"""The number of products up to which C is faster than BLAS in double precision, after it is known that it is exact."""
FLOAT32_MIN_PRODUCTS: Final = 1_000_000
FLOAT32_MIN_SIDE: Final = 2
"""The products of numbers, and the rows, vectors of columns, and depth from which on C is faster in float32.

OpenBLAS has kernels of its own for small matrices.
"""
INTEGER_PRODUCTS_PER_STEP: Final = 24
"""How many products of integers take as long as an addition of two arrays takes for an element."""
FLOAT_PRODUCTS_PER_STEP: Final = 128
"""The same of float32: two threads take less time from products of about 330 × 330 matrices on."""
TILE_ROWS: Final = 8
"""Those of the tiles in csrc/linalg.c, or twice as many."""

numpy_matmul: Final = numpy_implementation(linalg.matmul)


class MatmulPlan(NamedTuple):
    """The shape of matrix products, and what C takes besides the arrays."""

    shape: Shape
    numbers: tuple[int, ...]
    """Rows, columns and depth, and the strides of rows and columns in the factors."""
    batch: Array
    """The descriptor of the axes before the last two: their number, their sizes, and the strides in the factors."""


@lru_cache(maxsize=1024)
def plan_matmul(a: Shape, b: Shape, transpose_a: bool, transpose_b: bool) -> MatmulPlan:
    """Return the geometry of the product of dense arrays of two shapes."""
    depth, rows = a[-2:] if transpose_a else a[-2:][::-1]
    columns = b[-2] if transpose_b else b[-1]
    batch = broadcast(a[:-2], b[:-2])
    shape = (*batch, rows, columns)
    if len(b) == 2 and not transpose_a:
        rows, batch = count_elements(a[:-1]), ()  # one product of many rows
    descriptor = broadcast_descriptor(batch, a[:-2] if batch else (), b[:-2]).copy()
    axes = descriptor[0]
    descriptor[1 + axes : 1 + 2 * axes] *= count_elements(a[-2:])
    descriptor[1 + 2 * axes :] *= count_elements(b[-2:])
    strides = [
        (1, shape[-1]) if turned else (shape[-1], 1)
        for shape, turned in ((a, transpose_a), (b, transpose_b))
    ]
    return MatmulPlan(shape, (rows, columns, depth, *strides[0], *strides[1]), descriptor)


@table.implements(linalg.matmul)
@tracked
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of the matrices in the last two axes."""
    if a.dtype is FLOAT32:
        is_served = (
            SERVES_FLOAT32
            and a.nbytes >= UNTRACKED_MAX_ELEMENTS
            and a.size * b.shape[-1 - transpose_b] >= FLOAT32_MIN_PRODUCTS
        )
    else:
        is_served = bool(a.size and b.size)
    run = MATMUL.get(a.dtype) if is_served else None
    if run is None or max(a.size, b.size) >= MAX_ELEMENTS:
        if a.dtype != FLOAT16:
            return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        factors = to_float32(a), to_float32(b)
        return track_allocation(
            to_float16(matmul(*factors, transpose_a=transpose_a, transpose_b=transpose_b))
        )
    dense_a, turned_a = as_matrix_operand(a, transpose_a)
    dense_b, turned_b = as_matrix_operand(b, transpose_b)
    plan = plan_matmul(dense_a.shape, dense_b.shape, turned_a, turned_b)
    size, (rows, columns, depth) = count_elements(plan.shape), plan.numbers[:3]
    if a.dtype == FLOAT32:
        per_step = FLOAT_PRODUCTS_PER_STEP
        is_served = min(rows, columns // LANES, depth) >= FLOAT32_MIN_SIDE
    else:
        per_step = INTEGER_PRODUCTS_PER_STEP
        is_served = size * depth <= INTEGER_MAX_PRODUCTS or not is_exact_in_float64(a, b, depth)
    if size >= MAX_ELEMENTS or not is_served:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    out = empty(plan.shape, a.dtype)
    run_matmul(run, dense_a, dense_b, out, plan, size * depth // per_step)
    return out


def run_matmul(run: Export, a: Array, b: Array, out: Array, plan: MatmulPlan, work: int) -> None:
    """Write the products of matrices to `out`; threads share long work, by products or by the rows of a single one."""
    axes, count, *steps = plan.batch.tolist()
    if axes > 1 or work < PARALLEL_MIN_WORK:
        run(a, b, out, *plan.numbers, plan.batch)
    elif count > 1:

        def some(a: Array, b: Array, out: Array, count: int) -> None:
            run(a, b, out, *plan.numbers, np.array((1, count, *steps), np.int32))

        size = count_elements(plan.shape[-2:])
        parallel_for(some, ((a, steps[0]), (b, steps[1]), (out, size)), count, work=work)
    else:
        rows, columns, *others = plan.numbers
        places = (a, others[1]), (b, 0), (out, columns)
        parallel_for(run, places, rows, columns, *others, plan.batch, work=work, multiple=TILE_ROWS)


def as_matrix_operand(x: Array, is_transposed: bool) -> tuple[Array, bool]:
    """Return dense matrices, and whether they are to be transposed."""
    if not x.flags.c_contiguous:
        turned = x.swapaxes(-1, -2)
        if turned.flags.c_contiguous:
            return turned, not is_transposed
    return as_contiguous(x), is_transposed


BAND_PART: Final = {size: current_variant().kernel(f"band_part_{size}") for size in (1, 2, 4, 8)}
"""Functions by the size of elements."""

numpy_band_part: Final = numpy_implementation(linalg.band_part)


@table.implements(linalg.band_part)
def band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
    """Return the matrices with zeros outside a band around the diagonal."""
    run = BAND_PART.get(input.itemsize) if input.dtype.kind in "biufc" else None
    if run is None or not 0 < input.size < MAX_ELEMENTS:
        return numpy_band_part(input, num_lower, num_upper)
    rows, columns = input.shape[-2:]
    lower = np.array(min(int(num_lower), rows), INT32)  # whatever integers they are: C reads these
    upper = np.array(min(int(num_upper), columns), INT32)
    out = empty(input.shape, input.dtype)
    if input.size < UNTRACKED_MAX_ELEMENTS:
        run(as_contiguous(input), out, input.size // (rows * columns), rows, columns, lower, upper)
        return out
    places = (as_contiguous(input), rows * columns), (out, rows * columns)
    batch = input.size // (rows * columns)
    parallel_for(run, places, batch, rows, columns, lower, upper, work=input.size)
    return out
