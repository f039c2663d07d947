"""Calls of kernels with inputs that are known to fit, so that their contracts need not be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.contract.kernel import ValidatedAttributes
from plugrad.kernels import linalg, movement

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape


def reshaped(x: Tensor, shape: Shape) -> Tensor:
    """Return a tensor in a shape of as many elements."""
    return movement.reshape.call(x, ValidatedAttributes(shape=shape))


def product(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Return the product of matrices that fit each other."""
    attrs = ValidatedAttributes(transpose_a=transpose_a, transpose_b=transpose_b)
    return linalg.matmul.call(a, b, attrs)
