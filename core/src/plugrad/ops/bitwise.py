"""Functions that combine the bits of integers, or bools, element by element.

Shapes are broadcast, dtypes promoted; a Python integer takes the other operand's dtype. An argument
that does not convert to a tensor raises ArgumentError, and tensors on different backends raise
BackendMismatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import bitwise
from plugrad.ops.arguments import binary_op, unary_op

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike


def bitwise_and(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that are set in both a and b, in their common shape and dtype.

    >>> plugrad.bitwise_and([12, 10], 6)
    tensor([4, 2], dtype=int32)

    Raises:
        DTypeError: an operand is neither integer nor bool, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(bitwise.bitwise_and, a, b, "bitwise_and")


def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that are set in a, in b or in both, in their common shape and dtype.

    >>> plugrad.bitwise_or([12, 10], 6)
    tensor([14, 14], dtype=int32)

    Raises:
        DTypeError: an operand is neither integer nor bool, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(bitwise.bitwise_or, a, b, "bitwise_or")


def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that differ between a and b, in their common shape and dtype.

    >>> plugrad.bitwise_xor([12, 10], 6)
    tensor([10, 12], dtype=int32)

    Raises:
        DTypeError: an operand is neither integer nor bool, or no dtype holds both.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(bitwise.bitwise_xor, a, b, "bitwise_xor")


def bitwise_invert(x: TensorLike) -> Tensor:
    """The complement of each element, in the shape and dtype of x: ``-x - 1`` if signed, not x if bool.

    >>> plugrad.bitwise_invert([0, 5])
    tensor([-1, -6], dtype=int32)

    Raises:
        DTypeError: x is neither integer nor bool.
    """
    return unary_op(bitwise.invert, x, "bitwise_invert")


def bitwise_left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits of a moved b places to the left, in their common shape and dtype; zeros enter from the right.

    >>> plugrad.bitwise_left_shift([1, -3], 4)
    tensor([ 16, -48], dtype=int32)

    Shifting by as many bits as the dtype has, or more, gives 0. The result for a negative b is
    undefined.

    Raises:
        DTypeError: the operands do not promote to an integer dtype.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(bitwise.left_shift, a, b, "bitwise_left_shift")


def bitwise_right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits of a moved b places to the right, in their common shape and dtype; the sign stays.

    >>> plugrad.bitwise_right_shift([16, -48], 4)
    tensor([ 1, -3], dtype=int32)

    Shifting by as many bits as the dtype has, or more, gives 0, or -1 for negative numbers. The
    result for a negative b is undefined.

    Raises:
        DTypeError: the operands do not promote to an integer dtype.
        ShapeError: the shapes do not broadcast.
    """
    return binary_op(bitwise.right_shift, a, b, "bitwise_right_shift")
