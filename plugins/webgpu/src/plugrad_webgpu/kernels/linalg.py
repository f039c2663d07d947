"""Linear algebra: products of matrices, sums of products, and diagonals."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import broadcast, complex64, plan_contractions
from plugrad.kernels import linalg
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.product import (
    SUM_EXPRESSIONS,
    Matrices,
    multiply_matrices,
    sum_over_axes,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.binary import PRODUCT_EXPRESSIONS
from plugrad_webgpu.kernels.indexing import as_32_bit_indices
from plugrad_webgpu.kernels.reduction import with_complex_parts
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import as_complex, as_float_pairs, as_words, reinterpret
from plugrad_webgpu.memory.copying import (
    BufferView,
    concatenate,
    copy_into,
    copy_view,
    full,
    permute_axes,
)
from plugrad_webgpu.shaders.elements import (
    WORD_DTYPES_BY_NARROW_DTYPE,
    require_dtype,
    vector_type,
    words_per_element,
)
from plugrad_webgpu.shaders.layout import broadcast_strides
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import OperandPreparation
    from plugrad_webgpu.algorithms.product import Epilogue
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape

_multiplication_kernel = elementwise(PRODUCT_EXPRESSIONS, ("a", "b"))
"""The elementwise kernel that multiplies two arrays."""
_sum_over_axes = with_complex_parts(sum_over_axes)
"""The function that sums an array, also of complex numbers, over some of its axes."""


@table.implements(linalg.matmul)
def matmul(a: GpuArray, b: GpuArray, *, transpose_a: bool, transpose_b: bool) -> GpuArray:
    """Return the matrix products over the last two axes, with broadcast batch axes."""
    if a.dtype is complex64:
        return complex_matmul(
            transpose_matrices(a) if transpose_a else a, transpose_matrices(b) if transpose_b else b
        )
    if a.dtype in WORD_DTYPES_BY_NARROW_DTYPE:
        product = matmul(as_words(a), as_words(b), transpose_a=transpose_a, transpose_b=transpose_b)
        return cast(product, dtype=a.dtype)
    require_dtype(a.dtype, SUM_EXPRESSIONS, "the webgpu kernel BatchMatMul")
    return multiply_real_matrices(a, b, transpose_a, transpose_b)


def multiply_real_matrices(
    a: GpuArray, b: GpuArray, transpose_a: bool, transpose_b: bool, epilogue: Epilogue | None = None
) -> GpuArray:
    """Return real matrix products with the epilogue applied."""
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    left = _as_matrices(a, batch, transpose_a)
    right = _as_matrices(b, batch, transpose_b)
    if left.rows == right.columns == 1:
        # A vector times a vector: a schedule for matrices would compute many columns.
        vectors = [reinterpret(m.array, (m.batch_size, left.columns)) for m in (left, right)]
        output = reinterpret(
            sum_over_axes(_multiplication_kernel(*vectors), (1,), False), (*batch, 1, 1)
        )
        return epilogue.apply_to_array(output) if epilogue is not None else output
    if right.batch_size == 1 and not transpose_a and left.batch_size > 1:
        # Many matrices times one matrix: a single product of all rows.
        left = Matrices(a, 1, left.batch_size * left.rows, left.columns)
    output = multiply_matrices(left, right, epilogue)
    rows = a.shape[-1] if transpose_a else a.shape[-2]
    return reinterpret(output, (*batch, rows, right.columns))


multiply_by_i_kernel: Final = elementwise({complex64: "complex_turned(x)"})
"""The elementwise kernel that multiplies complex numbers by the imaginary unit."""


def complex_matmul(a: GpuArray, b: GpuArray) -> GpuArray:
    """Return products of complex matrices, computed by real ones.

    A number x + iy of `a` is a row (x, y) of floats, and one of `b` is the matrix ((x, y), (-y, x)).
    """
    rows = reinterpret(b, (*b.shape[:-1], 1, b.shape[-1]))
    expanded = concatenate([rows, multiply_by_i_kernel(rows)], len(b.shape) - 1)
    depth, columns = b.shape[-2:]
    product = matmul(
        reinterpret(as_float_pairs(a), (*a.shape[:-1], 2 * a.shape[-1])),
        reinterpret(as_float_pairs(expanded), (*b.shape[:-2], 2 * depth, 2 * columns)),
        transpose_a=False,
        transpose_b=False,
    )
    return as_complex(reinterpret(product, (*product.shape[:-1], columns, 2)))


def transpose_matrices(x: GpuArray) -> GpuArray:
    """Return the transposed matrices."""
    axes = len(x.shape)
    return permute_axes(x, (*range(axes - 2), axes - 1, axes - 2))


def _as_matrices(x: GpuArray, batch_shape: Shape, is_transposed: bool) -> Matrices:
    """Return an operand as one matrix or as a batch of them; it is copied only if necessary."""
    count = math.prod(x.shape[:-2])
    if count != 1 and x.shape[:-2] != batch_shape:
        shape = (*batch_shape, *x.shape[-2:])
        x = copy_view(x, shape, BufferView(0, broadcast_strides(x.shape, shape)))
        count = math.prod(batch_shape)
    rows, columns = x.shape[-2:]
    if is_transposed:
        rows, columns = columns, rows
    return Matrices(x, count, rows, columns, is_transposed)


@table.implements(linalg.einsum)
def einsum(*inputs: GpuArray, equation: str) -> GpuArray:
    """Return the Einstein summation, by matrix products of two operands at a time."""
    require_dtype(inputs[0].dtype, PRODUCT_EXPRESSIONS, "the webgpu kernel Einsum")
    steps, last = plan_contractions(equation, tuple(x.shape for x in inputs))
    operands = list(inputs)
    for step in steps:
        right, left = (operands.pop(place) for place in reversed(step.places))
        a, b = _prepare_operand(left, step.left), _prepare_operand(right, step.right)
        if step.is_transposed is None:
            y = _multiplication_kernel(a, b)
        else:
            transpose_a, transpose_b = step.is_transposed
            y = matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        operands.append(reinterpret(y, step.shape))
    return _prepare_operand(operands[0], last)


def _prepare_operand(x: GpuArray, preparation: OperandPreparation) -> GpuArray:
    """Return an operand after the sums over axes, the transposition and the reshape of a preparation."""
    if preparation.summed:
        x = _sum_over_axes(x, preparation.summed, False)
    if preparation.order:
        x = permute_axes(x, preparation.order)
    return reinterpret(x, preparation.shape)


@table.implements(linalg.band_part)
def band_part(input: GpuArray, num_lower: GpuArray, num_upper: GpuArray) -> GpuArray:
    """Return the matrices with zeros outside a band of diagonals."""
    bounds = [
        as_32_bit_indices(n, "webgpu, for the width of a band,") for n in (num_lower, num_upper)
    ]
    rows, columns = input.shape[-2:]
    words = words_per_element(input.dtype)
    width = 4 if columns % 4 == 0 and words == 1 else 1
    count = math.prod(input.shape) // width
    program = _band_program(width, words)
    step = plan(program, (count, rows, columns // width), count, input.shape, input.dtype)
    return input.buffer.device.launch(step, input, *bounds)


@cache
def _band_program(vector_width: int, element_words: int) -> Program:
    """Return the program that writes zeros outside a band of diagonals."""
    source = partial(
        shader,
        "linalg_band",
        element=vector_type("u32", vector_width * element_words),
        number=vector_type("i32", vector_width),
        lanes=", ".join(str(lane) for lane in range(vector_width)),
        width=str(vector_width),
    )
    return Program("band", source)


@table.implements(linalg.diag)
def diag(x: GpuArray) -> GpuArray:
    """Return zeros with `x` on the diagonal."""
    size = math.prod(x.shape)
    output = full(x.buffer.device, (*x.shape, *x.shape), 0, x.dtype)
    copy_into(output, BufferView(0, (size + 1,)), reinterpret(x, (size,)))
    return output


@table.implements(linalg.diag_part)
def diag_part(input: GpuArray) -> GpuArray:
    """Return the diagonals."""
    shape = input.shape[: len(input.shape) // 2]
    size = math.prod(shape)
    return reinterpret(copy_view(input, (size,), BufferView(0, (size + 1,))), shape)
