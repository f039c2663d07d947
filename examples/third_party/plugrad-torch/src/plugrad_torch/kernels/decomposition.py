"""Factorizations, from LAPACK through PyTorch."""

from collections.abc import Callable
from typing import Any

import torch

from plugrad.extend import ArgumentValueError
from plugrad.kernels import decomposition
from plugrad_torch.declare import Array, update


def with_failure_message(
    function: Callable[..., Any], kernel_name: str, message: str
) -> Callable[..., Any]:
    """Return a function that names the kernel and the trouble where LAPACK fails."""

    def run(*inputs: Array, **attrs: Any) -> Any:
        try:
            return function(*inputs, **attrs)
        except torch.linalg.LinAlgError:
            shape = tuple(inputs[0].shape[-2:])
            raise ArgumentValueError(
                f"{kernel_name}: a matrix of shape {shape} {message}"
            ) from None

    return run


def propagate_nan(result: Array, input: Array) -> Array:
    """Return a result with NaN for matrices that hold NaN, which LAPACK may overlook."""
    return torch.where(input.isnan().any(-1).any(-1), torch.nan, result)


def solve(matrix: Array, rhs: Array) -> Array:
    """Return the solutions; both batches are broadcast first."""
    batch = torch.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    return torch.linalg.solve(
        matrix.expand(*batch, *matrix.shape[-2:]), rhs.expand(*batch, *rhs.shape[-2:])
    )


SINGULAR_MESSAGE = "is singular or not finite"
NO_FACTORS_MESSAGE = "has no factors that could be found; its elements must be finite"

update(
    {
        decomposition.cholesky: with_failure_message(
            torch.linalg.cholesky, "Cholesky", "is not positive definite"
        ),
        decomposition.inverse: with_failure_message(
            torch.linalg.inv, "MatrixInverse", SINGULAR_MESSAGE
        ),
        decomposition.solve: with_failure_message(solve, "MatrixSolve", SINGULAR_MESSAGE),
        decomposition.determinant: lambda input: propagate_nan(torch.linalg.det(input), input),
        decomposition.log_determinant: lambda input: [
            propagate_nan(part, input) for part in torch.linalg.slogdet(input)
        ],
        decomposition.eigh: with_failure_message(torch.linalg.eigh, "Eigh", NO_FACTORS_MESSAGE),
        decomposition.svd: with_failure_message(torch.linalg.svd, "Svd", NO_FACTORS_MESSAGE),
        decomposition.qr: lambda input, *, full_matrices: list(
            torch.linalg.qr(input, "complete" if full_matrices else "reduced")
        ),
    }
)
