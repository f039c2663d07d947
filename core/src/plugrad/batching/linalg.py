"""Batching rules of linear algebra."""

from plugrad.kernels import binary, creation, linalg, movement, unary
from plugrad.registry.batching import Batch, insert_axes_to_rank, register_batching
from plugrad.registry.unchecked import matmul_unchecked, reshape_unchecked
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32, string
from plugrad.types.shapes import count_elements

EINSUM_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _matmul(batch: Batch, a: Tensor, b: Tensor, *, transpose_a: bool, transpose_b: bool) -> Tensor:
    of_a, of_b = batch.is_batched
    if of_a and of_b and a.ndim == b.ndim == 3 and a.shape[1 if transpose_a else 2] == 1:
        return _outer_product(a, b, transpose_a, transpose_b)
    if of_a and not of_b and a.ndim == 3 and b.ndim == 2:
        rows, inner = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
        if not transpose_a or rows == 1:  # all rows of all examples in one product
            a = reshape_unchecked(a, (batch.size * rows, inner))
            return batch.unfold(matmul_unchecked(a, b, transpose_b=transpose_b))
    if of_b and not of_a and b.ndim == 3 and a.ndim == 2:
        inner, columns = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
        if columns == 1:
            b = reshape_unchecked(b, (batch.size, inner))
            found = matmul_unchecked(b, a, transpose_b=not transpose_a)
            return reshape_unchecked(found, (*found.shape, 1))
    a, b = batch.align((a, b))
    return matmul_unchecked(a, b, transpose_a, transpose_b)


def _outer_product(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """Return the product of a column vector and a row vector for each example, such as a weight matrix's gradient.

    There is nothing to sum, so they are products of elements, in a third of the time.
    """
    if transpose_a:
        a = reshape_unchecked(a, (a.shape[0], a.shape[2], 1))
    if transpose_b:
        b = reshape_unchecked(b, (b.shape[0], 1, b.shape[1]))
    return binary.multiply.call(a, b)


def _einsum(batch: Batch, *inputs: Tensor, equation: str) -> Tensor | None:
    hidden = next((letter for letter in EINSUM_LETTERS if letter not in equation), None)
    if hidden is None:
        return None
    terms, _, result = equation.partition("->")
    named = [
        hidden * is_batched + term
        for term, is_batched in zip(terms.split(","), batch.is_batched, strict=True)
    ]
    return linalg.einsum(*inputs, equation=f"{','.join(named)}->{hidden}{result}")


def _band_part(batch: Batch, input: Tensor, num_lower: Tensor, num_upper: Tensor) -> Tensor:
    if not any(batch.is_batched[1:]):
        return linalg.band_part(input, num_lower, num_upper)
    matrices = batch.with_batch_axis(input, 0)
    backend = matrices.backend
    row, column = (
        movement.reshape(creation.range.on(backend, start=0, stop=n, step=1, dtype=int32), shape=s)
        for n, s in zip(matrices.shape[-2:], ((-1, 1), (1, -1)), strict=True)
        for s in (tuple([n if k < 0 else k for k in s]),)
    )
    below = binary.subtract(row, column)
    zero = creation.fill.on(backend, shape=(), value=0, dtype=int32)
    kept: list[Tensor] = []
    counts = (num_lower, below, 1), (num_upper, unary.negative(below), 2)
    for count, distance, position in counts:
        number = insert_axes_to_rank(
            movement.reshape(
                unary.cast(batch.with_batch_axis(count, position), dtype=int32),
                shape=(batch.size, 1, 1),
            ),
            matrices.ndim,
        )
        all_of_them = binary.less(number, zero)
        kept.append(binary.logical_or(all_of_them, binary.less_equal(distance, number)))
    nothing = creation.fill.on(
        backend,
        shape=(),
        value="" if matrices.dtype is string else 0,
        dtype=matrices.dtype,
    )
    return binary.select(binary.logical_and(*kept), matrices, nothing)


def _diag(batch: Batch, x: Tensor) -> Tensor:
    n, count = batch.size, count_elements(x.shape[1:])
    column = movement.reshape(x, shape=(n, count, 1))
    # Rows of one element and as many zeros as there are rows, laid end to end, are a diagonal in rows that are shorter.
    nothing = "" if x.dtype is string else 0
    rows = movement.pad(column, paddings=((0, 0), (0, 0), (0, count)), constant_value=nothing)
    flat = movement.reshape(rows, shape=(n, count * (count + 1)))
    square = movement.slice(flat, begin=(0, 0), size=(n, count * count))
    return movement.reshape(square, shape=(n, *x.shape[1:], *x.shape[1:]))


def _diag_part(batch: Batch, input: Tensor) -> Tensor:
    shape = input.shape[1 : 1 + (input.ndim - 1) // 2]
    count = count_elements(shape)
    flat = movement.reshape(input, shape=(batch.size, count * count))
    found = movement.strided_slice(
        flat, begin=(0, 0), end=(batch.size, count * count), strides=(1, count + 1)
    )
    return movement.reshape(found, shape=(batch.size, *shape))


register_batching(linalg.matmul, _matmul)
register_batching(linalg.einsum, _einsum, except_when="the equation has all 52 letters")
register_batching(linalg.band_part, _band_part)
register_batching(linalg.diag, _diag)
register_batching(linalg.diag_part, _diag_part)
