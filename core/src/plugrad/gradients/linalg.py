"""Gradients of linear algebra."""

from collections.abc import Sequence
from math import prod

from plugrad.kernels import linalg, movement
from plugrad.registry.unchecked import matmul_unchecked, reshape_unchecked
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def matmul_left_vjp(dy: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """Return the gradient for the left factor: ``dy bᵀ``, or its transpose ``b dyᵀ`` if a is transposed."""
    if transpose_a:
        return matmul_unchecked(b, dy, transpose_a=transpose_b, transpose_b=True)
    return matmul_unchecked(dy, b, transpose_b=not transpose_b)


def matmul_right_vjp(
    dy: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool
) -> Tensor:
    """Return the gradient for the right factor: ``aᵀ dy``, or its transpose ``dyᵀ a`` if b is transposed.

    A matrix that many matrices were multiplied with gets the sum of their products. It is one product of
    the rows of them all, without a product for each of them.
    """
    if b.ndim == 2 and a.ndim == dy.ndim > 2 and not transpose_a:
        a, dy = (reshape_unchecked(x, (prod(x.shape[:-1]), x.shape[-1])) for x in (a, dy))
    if transpose_b:
        return matmul_unchecked(dy, a, transpose_a=True, transpose_b=transpose_a)
    return matmul_unchecked(a, dy, transpose_a=not transpose_a)


gradient(linalg.matmul, a=matmul_left_vjp, b=matmul_right_vjp)


def _einsum_vjp(dy: Tensor, inputs: Sequence[Tensor], equation: str) -> list[Tensor]:
    """Return, for each operand, the einsum of dy with the other operands."""
    operands, _, result = equation.partition("->")
    letters = operands.split(",")
    return [_einsum_operand_vjp(dy, inputs, letters, result, i) for i in range(len(letters))]


def _einsum_operand_vjp(
    dy: Tensor,
    inputs: Sequence[Tensor],
    operand_letters: list[str],
    result_letters: str,
    position: int,
) -> Tensor:
    """Return the gradient for the operand at a position."""
    others = [i for i in range(len(operand_letters)) if i != position]
    given = [result_letters, *(operand_letters[i] for i in others)]
    wanted = operand_letters[position]
    kept = "".join(letter for letter in wanted if any(letter in g for g in given))
    y = linalg.einsum(dy, *[inputs[i] for i in others], equation=f"{','.join(given)}->{kept}")
    if kept == wanted:
        return y
    # A letter that occurs in no other operand and not in the result was summed over: its gradient is
    # constant along that axis.
    sizes = inputs[position].shape
    shape = tuple(n if letter in kept else 1 for letter, n in zip(wanted, sizes, strict=True))
    return movement.broadcast_to(movement.reshape(y, shape=shape), shape=sizes)


gradient(linalg.einsum, inputs=_einsum_vjp)
gradient(
    linalg.band_part,
    input=lambda dy, num_lower, num_upper: linalg.band_part(dy, num_lower, num_upper),
)
gradient(linalg.diag, x=lambda dy: linalg.diag_part(dy))
gradient(linalg.diag_part, input=lambda dy: linalg.diag(dy))
