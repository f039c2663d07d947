"""Linear algebra."""

import math

import torch

from plugrad.kernels import linalg
from plugrad_torch.declare import Array, implements


@implements(linalg.matmul)
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of the matrices in the last two axes."""
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


@implements(linalg.einsum)
def einsum(*inputs: Array, equation: str) -> Array:
    """Return the sums of products."""
    return torch.einsum(equation, *inputs).to(inputs[0].dtype)


@implements(linalg.band_part)
def band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
    """Return the matrices with zeros outside a band around the diagonal."""
    lower, upper = int(num_lower.item()), int(num_upper.item())
    rows, columns = input.shape[-2:]
    offset = torch.arange(columns) - torch.arange(rows)[:, None]
    is_kept = ((lower < 0) | (-offset <= lower)) & ((upper < 0) | (offset <= upper))
    return torch.where(is_kept, input, torch.zeros((), dtype=input.dtype))


@implements(linalg.diag)
def diag(x: Array) -> Array:
    """Return zeros with x on the diagonal."""
    return torch.diag(x.reshape(-1)).reshape((*x.shape, *x.shape))


@implements(linalg.diag_part)
def diag_part(input: Array) -> Array:
    """Return the diagonal."""
    shape = input.shape[: input.ndim // 2]
    size = math.prod(shape)
    return torch.diagonal(input.reshape(size, size)).reshape(shape)
