"""Gradients of linear algebra."""

from plugrad.gradient import gradient
from plugrad.kernels.linalg import matmul
from plugrad.tensor import Tensor


def _left(dy: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if transpose_a:
        return matmul(b, dy, transpose_a=transpose_b, transpose_b=True)
    return matmul(dy, b, transpose_b=not transpose_b)


def _right(dy: Tensor, a: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if transpose_b:
        return matmul(dy, a, transpose_a=True, transpose_b=transpose_a)
    return matmul(a, dy, transpose_a=not transpose_a)


gradient(matmul, a=_left, b=_right)
