"""Products of matrices: those of integers, and those of float16, which are computed in single precision by BLAS."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import linalg
from plugrad_cpu.kernels.linalg import fits_float64
from plugrad_cpu.memory import empty
from plugrad_native.declare import (
    FLOAT16,
    INTEGERS,
    LIMIT,
    dense,
    exports,
    in_numpy,
    strides_in,
    table,
)
from plugrad_native.kernels.unary import narrowed, widened

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

MATMUL = exports("matmul", *INTEGERS)
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
    if a.dtype == FLOAT16:
        product_in_single = numpy_matmul(
            widened(a), widened(b), transpose_a=transpose_a, transpose_b=transpose_b
        )
        return narrowed(product_in_single)
    run = MATMUL.get(a.dtype)
    if run is None or not (a.size and b.size) or max(a.size, b.size) >= LIMIT:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    plan = product(a.shape, b.shape, transpose_a, transpose_b)
    size = size_of(plan.shape)
    if size >= LIMIT or (
        size * plan.numbers[2] > MOST_WORK and fits_float64(a, b, plan.numbers[2])
    ):
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    out = empty(plan.shape, a.dtype)
    run(dense(a), dense(b), out, *plan.numbers, plan.batch)
    return out
