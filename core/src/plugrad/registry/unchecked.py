"""Calls of kernels whose inputs the caller knows to be valid, so that no contract is checked: they take less time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.contract.kernel import ValidatedAttributes
from plugrad.kernels import linalg, movement

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape


def reshape_unchecked(x: Tensor, shape: Shape) -> Tensor:
    """Reshape a tensor without a check; the shape must have as many elements."""
    return movement.reshape.call(x, ValidatedAttributes(shape=shape))


def matmul_unchecked(
    a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Multiply batches of matrices without a check; their shapes and dtypes must agree."""
    attrs = ValidatedAttributes(transpose_a=transpose_a, transpose_b=transpose_b)
    return linalg.matmul.call(a, b, attrs)
