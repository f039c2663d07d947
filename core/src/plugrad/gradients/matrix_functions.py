"""Gradients of functions of square matrices: each solves Sylvester's equation of the transposed matrices."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from plugrad.gradients.decomposition import transpose_matrices
from plugrad.kernels import matrix_functions
from plugrad.kernels.linalg import matmul
from plugrad.tape.rules import GradientConfig, gradient, register_gradient
from plugrad.tensor.tensor import Tensor


def _sylvester_solve_vjp(
    dy: Tensor, saved: list[Tensor], attrs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the gradients, which share one solution of the transposed equation."""
    a, b, out = saved

    @cache
    def rhs_gradient() -> Tensor:
        return matrix_functions.sylvester_solve(transpose_matrices(a), transpose_matrices(b), dy)

    return {
        "a": lambda: -matmul(rhs_gradient(), out, transpose_b=True),
        "b": lambda: -matmul(out, rhs_gradient(), transpose_a=True),
        "rhs": rhs_gradient,
    }


def _square_root_vjp(dy: Tensor, out: Tensor) -> Tensor:
    turned = transpose_matrices(out)
    return matrix_functions.sylvester_solve(turned, turned, dy)


register_gradient(
    GradientConfig(matrix_functions.sylvester_solve.name, _sylvester_solve_vjp, ("a", "b"), (True,))
)
gradient(matrix_functions.square_root, input=_square_root_vjp)
