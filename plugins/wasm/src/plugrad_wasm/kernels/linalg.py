"""Linear algebra."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from plugrad.extend import (
    COMPLEX,
    HALVES,
    DType,
    broadcast,
    complex64,
    count_elements,
    float32,
    float64,
    plan_contractions,
)
from plugrad.kernels import linalg
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    RELEASE_GIL_MIN_ELEMENTS,
    ExportNames,
    choose_items_per_part,
    matmul_part_steps,
    run_call_chains,
    select_export,
    table,
)
from plugrad_wasm.kernels.binary import multiply
from plugrad_wasm.kernels.indexing import as_int32_positions
from plugrad_wasm.kernels.movement import copy_strided, read_strided, transpose
from plugrad_wasm.kernels.reduction import sum_over_axes
from plugrad_wasm.kernels.unary import cast
from plugrad_wasm.memory import WasmArray, WasmView, measure_block
from plugrad_wasm.strides import contiguous_strides, merge_axes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.extend import OperandPreparation
    from plugrad_wasm.runtime import CallChain, HasMemoryAddress

Sizes = tuple[int, ...]
"""The type of shapes, strides and other integers, one for each axis."""
MATMUL_EXPORTS = ExportNames("matmul")
"""The exports of matrix products, by dtype."""
CLAMPED_MATMUL_EXPORT = "matmul_within_float32"
"""The name of the export that adds a bias to a float32 product, and clamps it."""
MATMUL_STEPS_PER_ELEMENT_TIME: Final = 4
"""How many multiplications of a product take as long as one element of elementwise work."""
SMALL_HALF_MATRIX_MAX_ELEMENTS: Final = 1024
"""The maximum elements of a matrix of halves that the module converts in a product."""

Epilogue: TypeAlias = tuple[WasmArray | None, float, float]
"""The type of what follows a sum of products: a bias for each column or channel, a lower and an upper limit."""
NO_EPILOGUE: Final[Epilogue] = (None, -math.inf, math.inf)
"""The epilogue that changes nothing: no bias, and infinite limits."""


class MatmulPlan(NamedTuple):
    """The geometry of a batch of matrix products: (rows, depth) times (depth, columns)."""

    shape: Sizes
    """The shape of the result."""
    rows: int
    """The number of rows of a result matrix."""
    columns: int
    """The number of columns of a result matrix."""
    depth: int
    """The number of columns of a, which is that of the rows of b."""
    a_strides: Sizes
    """The strides of rows and columns in a, in elements."""
    b_strides: Sizes
    """The strides of rows and columns in b, in elements."""
    descriptor: Sizes
    """The descriptor of the batch: the number of axes, their sizes, and the strides in a and b."""


@lru_cache(maxsize=1024)
def plan_matmul(a_shape: Sizes, b_shape: Sizes, transpose_a: bool, transpose_b: bool) -> MatmulPlan:
    """Return the geometry of a batch of matrix products, for the shapes of a and b."""
    rows, depth = a_shape[-2:][::-1] if transpose_a else a_shape[-2:]
    columns = b_shape[-2] if transpose_b else b_shape[-1]
    batch = broadcast(a_shape[:-2], b_shape[:-2])
    axes = merge_axes(batch, matrix_strides(a_shape, batch), matrix_strides(b_shape, batch))
    return MatmulPlan(
        (*batch, rows, columns),
        rows,
        columns,
        depth,
        (1, a_shape[-1]) if transpose_a else (a_shape[-1], 1),
        (1, b_shape[-1]) if transpose_b else (b_shape[-1], 1),
        (len(axes[0]), *axes[0], *axes[1], *axes[2]),
    )


class ShortMatmulCall(NamedTuple):
    """The one call of an export for a product with few multiplications, and the block of its result."""

    shape: Sizes
    """The shape of the result."""
    size: int
    """The number of elements of the result."""
    capacity: int
    """The bytes of the result's block."""
    export: str
    """The name of the export."""
    rows: int
    """The number of rows of a result matrix."""
    columns: int
    """The number of columns of a result matrix."""
    depth: int
    """The number of columns of a, which is that of the rows of b."""
    a_row_stride: int
    """The elements from one row of a to the next."""
    a_column_stride: int
    """The elements from one column of a to the next."""
    b_row_stride: int
    """The elements from one row of b to the next."""
    b_column_stride: int
    """The elements from one column of b to the next."""
    descriptor: Sizes | None
    """The descriptor of the batch, or None for a single product."""


@lru_cache(maxsize=1024)
def plan_short_matmul_call(
    a_shape: Sizes, b_shape: Sizes, dtype: DType, transpose_a: bool, transpose_b: bool
) -> ShortMatmulCall | None:
    """Return the one call that computes a product of real matrices, or None if it takes more."""
    if dtype in COMPLEX:
        return None
    plan = plan_matmul(a_shape, b_shape, transpose_a, transpose_b)
    size, capacity = measure_block(plan.shape, dtype.itemsize)
    if not 0 < size * plan.depth < RELEASE_GIL_MIN_ELEMENTS:
        return None
    if dtype in HALVES:
        largest = max(count_elements(a_shape), count_elements(b_shape), size)
        if len(plan.shape) > 2 or largest > SMALL_HALF_MATRIX_MAX_ELEMENTS:
            return None
    sizes = plan.rows, plan.columns, plan.depth, *plan.a_strides, *plan.b_strides
    descriptor = plan.descriptor if len(plan.shape) > 2 else None
    export = MATMUL_EXPORTS[dtype]
    return ShortMatmulCall._make((plan.shape, size, capacity, export, *sizes, descriptor))


def matrix_strides(shape: Sizes, batch_shape: Sizes) -> Sizes:
    """Return the strides between matrices of an array that is broadcast to the batch axes."""
    lead = (0,) * (len(batch_shape) + 2 - len(shape))
    steps = zip(shape[:-2], contiguous_strides(shape)[:-2], strict=True)
    return lead + tuple(0 if n == 1 else step for n, step in steps)


def transpose_matrices(x: WasmArray) -> WasmArray:
    """Return the transposed matrices."""
    axes = len(x.shape)
    return transpose(x, perm=(*range(axes - 2), axes - 1, axes - 2))


def complex_matmul(a: WasmArray, b: WasmArray) -> WasmArray:
    """Return products of complex matrices, computed by real ones.

    A number x + iy of `a` is a row (x, y) of floats, and one of `b` is the matrix ((x, y), (-y, x)).
    """
    memory = a.memory
    *batch, depth, columns = b.shape
    expanded = memory.empty((*batch, 2 * depth, columns), b.dtype)
    run = select_export(b, f"expand_{b.dtype}", expanded.size)
    run(b.address, expanded.address, count_elements((*batch, depth)), columns)
    whole = matmul(
        as_float_pairs(a), as_float_pairs(expanded), transpose_a=False, transpose_b=False
    )
    return WasmView(whole, (*whole.shape[:-1], columns), a.dtype)


def as_float_pairs(x: WasmArray) -> WasmArray:
    """View complex numbers as pairs of floats along the last axis."""
    real = float32 if x.dtype is complex64 else float64
    return WasmView(x, (*x.shape[:-1], 2 * x.shape[-1]), real)


@table.implements(linalg.matmul)
def matmul(a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool) -> WasmArray:
    """Return the matrix products over the last two axes."""
    short = plan_short_matmul_call(a.shape, b.shape, a.dtype, transpose_a, transpose_b)
    if short is not None:
        # named one by one: a call with a tuple of them takes longer
        shape, size, capacity, export, m, n, k, a_row, a_column, b_row, b_column, descriptor = short
        memory = a.memory
        store = memory.store
        out = WasmArray(memory, shape, a.dtype, size, capacity)
        x, y, z = a.address, b.address, out.address
        batch = None if descriptor is None else store.descriptor(descriptor)
        address = 0 if batch is None else batch.address
        run = store.exports_holding_gil[export]
        run(x, y, z, m, n, k, a_row, a_column, b_row, b_column, address)
        return out
    if a.dtype in COMPLEX:
        return complex_matmul(
            transpose_matrices(a) if transpose_a else a, transpose_matrices(b) if transpose_b else b
        )
    plan = plan_matmul(a.shape, b.shape, transpose_a, transpose_b)
    if plan.depth == 0:
        return fill(a.memory, plan.shape, a.dtype, 0)
    if a.dtype in HALVES:
        wide = run_matmul(cast(a, dtype=float32), cast(b, dtype=float32), plan)
        return cast(wide, dtype=a.dtype)
    return run_matmul(a, b, plan)


def run_matmul(
    a: WasmArray, b: WasmArray, plan: MatmulPlan, epilogue: Epilogue | None = None
) -> WasmArray:
    """Return the planned matrix products; with an `epilogue`, a single float32 product with a bias and limits."""
    memory = a.memory
    store = memory.store
    out = memory.empty(plan.shape, a.dtype)
    work = out.size * plan.depth
    if not work:
        return out
    export, rest = MATMUL_EXPORTS[a.dtype], ()
    if work < RELEASE_GIL_MIN_ELEMENTS and epilogue is None:
        _, rows, columns, depth, a_strides, b_strides, descriptor = plan
        batch, sizes = store.descriptor(descriptor), (rows, columns, depth, *a_strides, *b_strides)
        store.exports_holding_gil[export](a.address, b.address, out.address, *sizes, batch.address)
        return out
    if epilogue is not None:
        bias, *limits = epilogue
        export, rest = CLAMPED_MATMUL_EXPORT, (0 if bias is None else bias.address, *limits)
    most = choose_items_per_part(store, work, work, matmul_part_steps(a))
    if most == work:
        batch = store.descriptor(plan.descriptor)
        sizes = plan.rows, plan.columns, plan.depth, *plan.a_strides, *plan.b_strides
        run = select_export(a, export, work // MATMUL_STEPS_PER_ELEMENT_TIME)
        run(a.address, b.address, out.address, *sizes, *(rest or (batch.address,)))
        return out
    arrays = a, b, out
    chains: list[CallChain] = []
    descriptors: list[HasMemoryAddress] = []
    for part, offsets in iter_matmul_parts(plan, most):
        descriptors.append(store.descriptor(part.descriptor))
        arguments = (
            *(x.address + n * x.dtype.itemsize for x, n in zip(arrays, offsets, strict=True)),
            *(part.rows, part.columns, part.depth, *part.a_strides, *part.b_strides),
            *(rest or (descriptors[-1].address,)),
        )
        chains.append([arguments])
    run_call_chains(a, export, chains, (*arrays, *descriptors, epilogue), work)
    return out


def iter_matmul_parts(plan: MatmulPlan, max_steps: int) -> Iterator[tuple[MatmulPlan, Sizes]]:
    """Yield parts of about `max_steps` multiplications, and their offsets, in elements, in a, b and the result.

    A part has about `max_steps` multiplications. Batches are split along their first axis, single matrices
    into blocks of rows, which are computed as they are without parts: a part has a single row only if
    that is all.
    """
    axes, *fields = plan.descriptor
    sizes, a_steps, b_steps = fields[:axes], fields[axes : 2 * axes], fields[2 * axes :]
    inner = count_elements(tuple(sizes[1:]))
    work = plan.rows * plan.columns * plan.depth * inner
    if work * sizes[0] <= max_steps:
        yield plan, (0, 0, 0)
    elif sizes[0] > 1 or axes > 1:
        count = max(1, max_steps // work)
        rest = (axes - 1, *sizes[1:], *a_steps[1:], *b_steps[1:]) if axes > 1 else (1, 1, 0, 0)
        for i in range(0, sizes[0], count):
            length = min(count, sizes[0] - i)
            some = (axes, length, *sizes[1:], *a_steps, *b_steps)
            matrices = plan._replace(descriptor=some if length > 1 else rest)
            for part, (a, b, out) in iter_matmul_parts(matrices, max_steps):
                start = plan.rows * plan.columns * inner * i
                yield part, (a + i * a_steps[0], b + i * b_steps[0], out + start)
    else:
        height = max(2, -(-max_steps // (plan.columns * plan.depth)))
        for first in range(0, max(1, plan.rows - 1), height):
            rows = height if first + height < plan.rows - 1 else plan.rows - first
            yield plan._replace(rows=rows), (first * plan.a_strides[0], 0, first * plan.columns)


@table.implements(linalg.einsum)
def einsum(*inputs: WasmArray, equation: str) -> WasmArray:
    """Return the Einstein summation, by matrix products of two operands at a time."""
    steps, last = plan_contractions(equation, tuple(x.shape for x in inputs))
    operands = list(inputs)
    for step in steps:
        right, left = (operands.pop(place) for place in reversed(step.places))
        a, b = prepare_operand(left, step.left), prepare_operand(right, step.right)
        if step.is_transposed is None:
            y = multiply(a, b)
        else:
            transpose_a, transpose_b = step.is_transposed
            y = matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        operands.append(WasmView(y, step.shape))
    return prepare_operand(operands[0], last)


def prepare_operand(x: WasmArray, steps: OperandPreparation) -> WasmArray:
    """Return an operand of `einsum`, summed over axes, transposed and reshaped as `steps` says."""
    if steps.summed:
        x = sum_over_axes(x, axis=steps.summed, keep_dims=False)
    if steps.order:
        x = transpose(x, perm=steps.order)
    return x if x.shape == steps.shape else WasmView(x, steps.shape)


# ---- diagonals ----


@table.implements(linalg.band_part)
def band_part(input: WasmArray, num_lower: WasmArray, num_upper: WasmArray) -> WasmArray:
    """Return the matrices with zeros outside a band of diagonals."""
    out = input.memory.empty_like(input)
    bounds = [as_int32_positions(x) for x in (num_lower, num_upper)]
    run = select_export(input, f"band_part_{input.dtype.itemsize}", input.size)
    addresses = [x.address for x in bounds]
    run(input.address, out.address, count_elements(input.shape[:-2]), *input.shape[-2:], *addresses)
    return out


@table.implements(linalg.diag)
def diag(x: WasmArray) -> WasmArray:
    """Return zeros with `x` on the diagonal."""
    out = fill(x.memory, (*x.shape, *x.shape), x.dtype, 0)
    copy_strided(x, out, (x.size,), (1,), (x.size + 1,))
    return out


@table.implements(linalg.diag_part)
def diag_part(input: WasmArray) -> WasmArray:
    """Return the diagonals."""
    shape = input.shape[: len(input.shape) // 2]
    size = count_elements(shape)
    return WasmView(read_strided(input, (size,), (size + 1,)), shape)
