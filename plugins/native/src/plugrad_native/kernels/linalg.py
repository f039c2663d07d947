"""Products of matrices of integers, floats and complex numbers, which are multiplied as real and imaginary parts.

C adds in the same order for any number of threads. BLAS does not; it has the products that it leaves to one thread.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import broadcast, count_elements
from plugrad.kernels import linalg
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    empty,
    is_exact_in_float64,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
    track_allocation,
)
from plugrad_native.declare import (
    FLOAT16,
    FLOAT32,
    FLOAT32_LANES,
    FLOAT64,
    FLOAT_DTYPES,
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    describe_broadcast,
    find_c_functions,
    parallel_for,
    register_small_result_functions,
    table,
)
from plugrad_native.kernels.unary import cast_to_float16, cast_to_float32
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array, CFunction

C_MATMUL = find_c_functions("matmul", *INTEGER_DTYPES, *FLOAT_DTYPES)
"""The C functions that multiply matrices, by dtype."""
HAS_FAST_FLOAT32_MATMUL: Final = FLOAT32_LANES >= 16
"""Whether C multiplies float32 faster than NumPy's BLAS: it does with registers for 24 vectors of sums."""
INTEGER_MATMUL_MAX_PRODUCTS: Final = 1 << 26
"""The maximum products of integers for which C is faster than BLAS in float64 and a check that this is exact."""
BLAS_MATRIX_MAX_PRODUCTS: Final = 1_000_000 if HAS_FAST_FLOAT32_MATMUL else 1 << 18
"""The maximum products of numbers in a product of matrices that BLAS computes in one thread.

OpenBLAS divides larger ones than 2^18. For AVX-512, it has kernels without packing that it never divides.
"""
BLAS_VECTOR_MAX_PRODUCTS: Final = 9_000
"""The maximum products of a matrix and a vector that BLAS computes in one thread: less than 9,216 in OpenBLAS."""
BLAS_COMPLEX_MAX_PRODUCTS: Final = 1 << 15
"""The maximum products of complex numbers that BLAS computes in one thread; its complex kernels always pack."""
FLOAT32_MATMUL_MIN_SIDE: Final = 2
"""The minimum rows, vectors of columns, and depth of large float32 matrices in a batch that C multiplies faster."""
BATCHED_MATMUL_MIN_PRODUCTS: Final = 1 << 17
"""The minimum number of multiplications for a batch of small float32 matrices that C computes faster than BLAS."""
BATCHED_MATMUL_MIN_SIDE: Final = 8
"""The minimum rows, columns and depth of small float32 matrices in a batch that C multiplies faster than BLAS.

NumPy calls BLAS for each of them. C takes half of its time to nine tenths.
"""
INTEGER_PRODUCTS_PER_ADDITION: Final = 24
"""How many products of integers take as long as one elementwise addition."""
FLOAT32_PRODUCTS_PER_ADDITION: Final = 64
"""How many products of float32 take as long as one elementwise addition."""
VECTOR_PRODUCTS_PER_ADDITION: Final = 2
"""How many products of a matrix and a vector take as long as one elementwise addition."""
MATMUL_TILE_ROWS: Final = 8
"""A multiple of the rows of a tile in csrc/matmul.h; a thread's part has whole tiles."""
MATMUL_COLUMN_MULTIPLE: Final = 64
"""The number of elements of which a thread's part has a multiple, for a result of one column: whole vectors."""

numpy_matmul: Final = numpy_implementation(linalg.matmul)
"""NumPy's implementation of the kernel `matmul`."""


class MatmulPlan(NamedTuple):
    """The geometry of matrix products, and C's arguments for it."""

    shape: Shape
    """The shape of the result."""
    sizes_and_strides: tuple[int, ...]
    """Rows, columns and depth, and the strides of rows and columns in the factors."""
    batch_descriptor: Array
    """The descriptor of the axes before the last two: their number, their sizes, and the strides in the factors."""


@lru_cache(maxsize=1024)
def plan_matmul(a: Shape, b: Shape, transpose_a: bool, transpose_b: bool) -> MatmulPlan:
    """Return the geometry of a product of contiguous arrays with the shapes `a` and `b`."""
    depth, rows = a[-2:] if transpose_a else a[-2:][::-1]
    columns = b[-2] if transpose_b else b[-1]
    batch = broadcast(a[:-2], b[:-2])
    shape = (*batch, rows, columns)
    if len(b) == 2 and not transpose_a:
        rows, batch = count_elements(a[:-1]), ()  # one product of many rows
    descriptor = describe_broadcast(batch, a[:-2] if batch else (), b[:-2]).copy()
    axes = descriptor[0]
    descriptor[1 + axes : 1 + 2 * axes] *= count_elements(a[-2:])
    descriptor[1 + 2 * axes :] *= count_elements(b[-2:])
    strides = [
        (1, shape[-1]) if turned else (shape[-1], 1)
        for shape, turned in ((a, transpose_a), (b, transpose_b))
    ]
    return MatmulPlan(shape, (rows, columns, depth, *strides[0], *strides[1]), descriptor)


@lru_cache(maxsize=1024)
def is_multiplied_in_c(
    dtype: np.dtype[Any], a: Shape, b: Shape, transpose_a: bool, transpose_b: bool
) -> bool:
    """Return whether C multiplies float matrices of shapes `a` and `b`: BLAS would use threads, or take longer."""
    plan = plan_matmul(a, b, transpose_a, transpose_b)
    rows, columns, depth = plan.sizes_and_strides[:3]
    if is_divided_by_blas(rows, columns, depth):
        return True
    products = count_elements(plan.shape) * depth
    is_batch = HAS_FAST_FLOAT32_MATMUL and dtype == FLOAT32 and plan.batch_descriptor[0]
    if is_batch and products >= BLAS_MATRIX_MAX_PRODUCTS:
        return min(rows, columns // FLOAT32_LANES, depth) >= FLOAT32_MATMUL_MIN_SIDE
    return bool(
        is_batch
        and not columns % FLOAT32_LANES
        and products >= BATCHED_MATMUL_MIN_PRODUCTS
        and min(rows, columns, depth) >= BATCHED_MATMUL_MIN_SIDE
    )


def is_divided_by_blas(rows: int, columns: int, depth: int) -> bool:
    """Return whether BLAS may divide a product among its threads, and so add in another order."""
    is_vector = rows == 1 or columns == 1
    most = BLAS_VECTOR_MAX_PRODUCTS if is_vector else BLAS_MATRIX_MAX_PRODUCTS
    return rows * columns * depth > most


class FloatMatmulPlan(NamedTuple):
    """How C multiplies float matrices."""

    geometry: MatmulPlan
    """The sizes and strides that C takes."""
    work: int
    """The cost of the product, in elementwise additions."""
    are_factors_swapped: bool
    """Whether the product of a row and a matrix is computed as that of the matrix and a column, which threads share."""


@lru_cache(maxsize=1024)
def plan_float_matmul(
    dtype: np.dtype[Any], a: Shape, b: Shape, transpose_a: bool, transpose_b: bool
) -> FloatMatmulPlan | None:
    """Return how C multiplies float matrices with the shapes `a` and `b`, or None if BLAS does."""
    plan = plan_matmul(a, b, transpose_a, transpose_b)
    rows, columns, depth = plan.sizes_and_strides[:3]
    size = count_elements(plan.shape)
    largest = max(size, count_elements(a), count_elements(b))
    if not 0 < size <= largest < MAX_ELEMENTS or not is_multiplied_in_c(
        dtype, a, b, transpose_a, transpose_b
    ):
        return None
    is_vector = rows == 1 or columns == 1
    per_step = (
        VECTOR_PRODUCTS_PER_ADDITION
        if is_vector
        else FLOAT32_PRODUCTS_PER_ADDITION * 4 // dtype.itemsize
    )
    is_row = rows == 1 < columns and len(a) == len(b) == 2
    if is_row:
        turned = plan_matmul(b, a, not transpose_b, not transpose_a)
        plan = turned._replace(shape=plan.shape)
    return FloatMatmulPlan(plan, size * depth // per_step, is_row)


@table.implements(linalg.matmul)
@mark_results_tracked
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the matrix products over the last two axes."""
    dtype = a.dtype
    is_half = dtype is FLOAT16
    if is_half:
        a, b = cast_to_float32(a), cast_to_float32(b)
    if is_half or dtype is FLOAT32 or dtype is FLOAT64:
        few = UNTRACKED_MAX_ELEMENTS
        if a.ndim == b.ndim == 2 and a.size < few and b.size < few:
            left, right = a.T if transpose_a else a, b.T if transpose_b else b
            if len(left) * right.shape[1] < few:
                product = left.dot(right)  # of BLAS, as below
                return cast_to_float16(product) if is_half else product
        product = multiply_floats(a, b, transpose_a, transpose_b)
        return cast_to_float16(product) if is_half else product
    if dtype.kind == "c":
        return multiply_complex(a, b, transpose_a, transpose_b)
    run = C_MATMUL.get(dtype) if min(a.size, b.size) else None
    if run is None or max(a.size, b.size) >= MAX_ELEMENTS:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    left, turned_a = as_matrix_operand(a, transpose_a)
    right, turned_b = as_matrix_operand(b, transpose_b)
    plan = plan_matmul(left.shape, right.shape, turned_a, turned_b)
    size, depth = count_elements(plan.shape), plan.sizes_and_strides[2]
    is_faster = size * depth <= INTEGER_MATMUL_MAX_PRODUCTS or not is_exact_in_float64(a, b, depth)
    if size >= MAX_ELEMENTS or not is_faster:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    out = empty(plan.shape, dtype)
    work = size * depth // INTEGER_PRODUCTS_PER_ADDITION
    run_matmul(run, as_contiguous(left), as_contiguous(right), out, plan, work)
    return out


def multiply_floats(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """Return products of float matrices, by C or by BLAS."""
    left, turned_a = as_matrix_operand(a, transpose_a)
    right, turned_b = as_matrix_operand(b, transpose_b)
    dtype = a.dtype
    planned = plan_float_matmul(dtype, left.shape, right.shape, turned_a, turned_b)
    if planned is None:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    plan, work, is_row = planned
    if is_row:
        left, right = right, left
    out = empty(plan.shape, dtype)
    run_matmul(C_MATMUL[dtype], as_contiguous(left), as_contiguous(right), out, plan, work)
    return out


def multiply_complex(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """Return products of complex matrices; a large one is computed by four products of real and imaginary parts."""
    left, right = (
        x.swapaxes(-1, -2) if turned else x for x, turned in ((a, transpose_a), (b, transpose_b))
    )
    rows, depth, columns = *left.shape[-2:], right.shape[-1]
    is_one = right.ndim == 2  # product of BLAS
    together = count_elements(left.shape[:-1]) if is_one else rows
    if together == 1 or columns == 1:
        is_native = together == columns and is_divided_by_blas(1, 1, depth)
    else:
        is_native = together * columns * depth > BLAS_COMPLEX_MAX_PRODUCTS
    if not is_native:
        return numpy_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    parts = matmul(
        np.concatenate([np.real(left), np.imag(left)], -2),
        np.concatenate([np.real(right), np.imag(right)], -1),
        transpose_a=False,
        transpose_b=False,
    )
    out = empty((*parts.shape[:-2], rows, columns), a.dtype)
    np.subtract(parts[..., :rows, :columns], parts[..., rows:, columns:], out=np.real(out))
    np.add(parts[..., :rows, columns:], parts[..., rows:, :columns], out=np.imag(out))
    return out


def multiply(a: Array, b: Array) -> Array:
    """Return ``a @ b``, for kernels of plugrad-cpu that need a product of matrices."""
    return matmul(a, b, transpose_a=False, transpose_b=False)


def run_matmul(
    c_function: CFunction, a: Array, b: Array, out: Array, plan: MatmulPlan, work: int
) -> None:
    """Write planned products to `out`; threads share them, or one product's rows, if `work`, in additions, is large."""
    if work < thread_pool.part_min_work or plan.batch_descriptor[0] > 1:
        c_function(a, b, out, *plan.sizes_and_strides, plan.batch_descriptor)
        return
    _, count, *steps = plan.batch_descriptor.tolist()
    if count > 1:
        arguments = a, b, out, *plan.sizes_and_strides, plan.batch_descriptor
        matrix = count_elements(plan.shape[-2:])
        thread_pool.run_in_parts(
            c_function,
            arguments,
            (*steps, matrix, *(0 for _ in arguments[3:])),
            len(arguments) - 1,
            count,
            parts=thread_pool.count_parts(work, count, PARTS_PER_THREAD),
        )
    else:
        rows, columns, *others = plan.sizes_and_strides
        places = (a, others[1]), (b, 0), (out, columns)
        parallel_for(
            c_function,
            places,
            *(rows, columns, *others, plan.batch_descriptor),
            work=work,
            part_size_multiple=MATMUL_TILE_ROWS if columns > 1 else MATMUL_COLUMN_MULTIPLE,
            parts_per_thread=1,  # each part brings the second matrix into the order in which it is read
        )


def as_matrix_operand(x: Array, is_transposed: bool) -> tuple[Array, bool]:
    """Return x as row-major matrices, and whether to transpose them: column-major x is returned as its transpose."""
    if not x.flags.c_contiguous and x.strides[-2] == x.itemsize != x.strides[-1]:
        return x.swapaxes(-1, -2), not is_transposed
    return x, is_transposed


BAND_PART_DTYPES: Final = ("bool", "float16", *FLOAT_DTYPES, *INTEGER_DTYPES[2:])
"""The dtypes of small matrices whose bands C copies without a call of Python."""
C_BAND_PART_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"band_part_{size}") for size in (1, 2, 4, 8)
}
"""The C functions of `band_part`, by the bytes of an element."""

numpy_band_part: Final = numpy_implementation(linalg.band_part)
"""NumPy's implementation of the kernel `band_part`."""


register_small_result_functions(
    linalg.band_part,
    "band",
    {
        np.dtype(name): C_BAND_PART_BY_ITEM_SIZE[np.dtype(name).itemsize]
        for name in BAND_PART_DTYPES
    },
)


@lru_cache(maxsize=64)
def as_int32_array(number: int) -> Array:
    """Return a number as a cached 0-d array of int32, which must not be written to."""
    return np.array(number, INT32)


@table.implements(linalg.band_part)
@mark_results_tracked
def band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
    """Return the matrices with zeros outside a band of diagonals."""
    run = C_BAND_PART_BY_ITEM_SIZE.get(input.itemsize) if input.dtype.kind in "biufc" else None
    size = input.size
    if run is None or not 0 < size < MAX_ELEMENTS:
        return track_allocation(numpy_band_part(input, num_lower, num_upper))
    shape = input.shape
    rows, columns = shape[-2:]
    # whatever integers they are, C reads int32
    lower = num_lower if num_lower.dtype is INT32 else as_int32_array(min(int(num_lower), rows))
    upper = num_upper if num_upper.dtype is INT32 else as_int32_array(min(int(num_upper), columns))
    out = empty(shape, input.dtype)
    places = (as_contiguous(input), rows * columns), (out, rows * columns)
    batch = input.size // (rows * columns)
    parallel_for(run, places, batch, rows, columns, lower, upper, work=input.size)
    return out
