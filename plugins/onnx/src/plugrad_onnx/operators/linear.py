"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plugrad
from plugrad_onnx.operators.common import number_like
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from plugrad import Tensor


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of two matrices or stacks of matrices."""
    return plugrad.matmul(a, b)


@operator("Gemm")
def legacy_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,  # noqa: N803 - attributes have ONNX's names
    transB: int = 0,  # noqa: N803
) -> Tensor:
    """Return alpha · a @ b + beta · c."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - attributes have ONNX's names
    transB: int = 0,  # noqa: N803
) -> Tensor:
    """Return alpha · a @ b + beta · c."""
    product = plugrad.matmul(a, b, bool(transA), bool(transB))
    product = product if alpha == 1 else plugrad.multiply(product, number_like(alpha, product))
    if c is None:
        return product
    return plugrad.add(product, c if beta == 1 else plugrad.multiply(c, number_like(beta, c)))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    """Return the Einstein summation of the inputs."""
    return plugrad.einsum(equation.replace(" ", ""), *inputs)


@operator("Det")
def determinant(x: Tensor) -> Tensor:
    """Return the determinants of square matrices."""
    return plugrad.linalg.det(x)
