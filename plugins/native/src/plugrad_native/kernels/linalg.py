"""Products of matrices: in C those of integers, and of floats where vectors are wide; BLAS has the others.

Those of float16 are computed in single precision.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import linalg
from plugrad_cpu.kernels.linalg import fits_float64
from plugrad_cpu.memory import empty
from plugrad_cpu.threads import workers
from plugrad_native.declare import (
    FLOAT16,
    INTEGERS,
    LANES,
    LIMIT,
    SHARED,
    dense,
    exports,
    in_numpy,
    in_parts,
    strides_in,
    table,
)
from plugrad_native.kernels.unary import narrowed, widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Shape
    from plugrad_native.declare import Array, Exports

MATMUL = exports("matmul", *INTEGERS)
WIDE: Exports = exports("matmul", "float32") if LANES == 16 else {}
"""Products of floats, which are faster than BLAS with AVX-512.

OpenBLAS has such kernels, too, which are about as fast, but it does not choose them on processors of AMD.
"""
LEAST_SIZE: Final = 2048
"""The elements of a factor from which on C is faster, with the time in Python before it."""
LEAST_ROWS: Final = 4
LEAST_COLUMNS: Final = 16
"""The sizes of a product from which on C is faster: those of a tile of its sums, or of a vector."""
STEP: Final = 64
"""How many multiplications of floats take the time of one step, as `in_parts` counts."""
MOST_WORK: Final = 1 << 26
"""The number of products up to which C is faster than BLAS in double precision, after it is known that it is exact."""

numpy_matmul = in_numpy(linalg.matmul)


class Product(NamedTuple):
    """The shape of matrix products, and what C takes besides the arrays."""

    shape: Shape
    numbers: tuple[int, ...]
    """Rows, columns and depth, and the strides of rows and columns in the factors."""
    batch: Array
    """The descriptor of the axes before the last two: their number, their sizes, and the strides in the factors."""


@lru_cache(maxsize=1024)
def product(a: Shape, b: Shape, transpose_a: bool, transpose_b: bool) -> Product:
    """Return the geometry of the product of dense arrays of two shapes."""
    rows, depth = a[-2:][::-1] if transpose_a else a[-2:]
    columns = b[-2] if transpose_b else b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    steps = [
        [step * size_of(shape[-2:]) for step in strides_in(batch, shape[:-2])] for shape in (a, b)
    ]
    strides = [
        (1, shape[-1]) if turned else (shape[-1], 1)
        for shape, turned in ((a, transpose_a), (b, transpose_b))
    ]
    return Product(
        (*batch, rows, columns),
        (rows, columns, depth, *strides[0], *strides[1]),
        np.array([len(batch), *batch, *steps[0], *steps[1]], np.int32),
    )


@table.implements(linalg.matmul)
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of the matrices in the last two axes."""
    dtype = a.dtype
    if dtype in WIDE:
        return product_of_floats(a, b, transpose_a, transpose_b)
    if dtype == FLOAT16:
        product_in_single = matmul(
            widened(a), widened(b), transpose_a=transpose_a, transpose_b=transpose_b
        )
        return narrowed(product_in_single)
    run = MATMUL.get(dtype)
    if run is None or not (a.size and b.size) or max(a.size, b.size) >= LIMIT:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    plan = product(a.shape, b.shape, transpose_a, transpose_b)
    size = size_of(plan.shape)
    if size >= LIMIT or (
        size * plan.numbers[2] > MOST_WORK and fits_float64(a, b, plan.numbers[2])
    ):
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    out = empty(plan.shape, dtype)
    run(dense(a), dense(b), out, *plan.numbers, plan.batch)
    return out


def product_of_floats(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of matrices of floats, in C if they are large enough."""
    if a.size < LEAST_SIZE and b.size < LEAST_SIZE:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    plan = product(a.shape, b.shape, transpose_a, transpose_b)
    rows, columns, depth, *_ = plan.numbers
    size = size_of(plan.shape)
    is_large = rows >= LEAST_ROWS and columns >= LEAST_COLUMNS and depth and size
    if not is_large or max(a.size, b.size, size) >= LIMIT:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    out = empty(plan.shape, a.dtype)
    a, transpose_a = in_rows(a, transpose_a)
    b, transpose_b = in_rows(b, transpose_b)
    if b.ndim == 2 < a.ndim and not transpose_a:  # one large product is faster than many
        multiply(a.reshape(-1, depth), b, out.reshape(-1, columns), False, transpose_b)
    else:
        multiply(a, b, out, transpose_a, transpose_b)
    return out


def in_rows(x: Array, is_transposed: bool) -> tuple[Array, bool]:
    """Return a dense array with the matrices of x or their transposes, and whether they are to be transposed."""
    if x.flags.c_contiguous:
        return x, is_transposed
    turned = x.swapaxes(-1, -2)
    if turned.flags.c_contiguous:
        return turned, not is_transposed
    return dense(x), is_transposed


def multiply(a: Array, b: Array, out: Array, transpose_a: bool, transpose_b: bool) -> None:
    """Write the products of dense arrays into `out`, in several threads if that is long work."""
    plan = product(a.shape, b.shape, transpose_a, transpose_b)
    rows, columns, depth, *_ = plan.numbers
    run, work = WIDE[a.dtype], out.size * depth // STEP
    if out.ndim == 2:
        places = (a, 1 if transpose_a else depth), (b, 0), (out, columns)
        in_parts(run, places, rows, *plan.numbers[1:], plan.batch, work=work, multiple=LEAST_ROWS)
        return
    parts = min(workers.count, len(out), work // (SHARED // 2))
    if parts < 2:
        run(a, b, out, *plan.numbers, plan.batch)
        return
    bounds = [len(out) * i // parts for i in range(parts + 1)]

    def part(first: int, last: int) -> Callable[[], None]:
        def some(x: Array) -> Array:
            return x[first:last] if x.ndim == out.ndim and len(x) > 1 else x

        return lambda: multiply(some(a), some(b), out[first:last], transpose_a, transpose_b)

    workers.perform([part(first, last) for first, last in pairwise(bounds)])
