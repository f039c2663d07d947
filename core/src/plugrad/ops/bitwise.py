"""Functions that combine the bits of whole numbers, or bools, element by element."""

from plugrad.kernels import bitwise
from plugrad.ops.arguments import coerced, paired
from plugrad.tensor.tensor import Tensor, TensorLike


def bitwise_and(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that are set in a and in b.

    >>> plugrad.bitwise_and([12, 10], 6)
    tensor([4, 2], dtype=int32)

    Raises:
        DTypeError: an operand is floating.
    """
    return paired(bitwise.bitwise_and, a, b, "bitwise_and")


def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that are set in a or in b.

    >>> plugrad.bitwise_or([12, 10], 6)
    tensor([14, 14], dtype=int32)

    Raises:
        DTypeError: an operand is floating.
    """
    return paired(bitwise.bitwise_or, a, b, "bitwise_or")


def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that differ between a and b.

    >>> plugrad.bitwise_xor([12, 10], 6)
    tensor([10, 12], dtype=int32)

    Raises:
        DTypeError: an operand is floating.
    """
    return paired(bitwise.bitwise_xor, a, b, "bitwise_xor")


def bitwise_invert(x: TensorLike) -> Tensor:
    """The other value of every bit: ``-x - 1`` for signed numbers, not x for bools.

    >>> plugrad.bitwise_invert([0, 5])
    tensor([-1, -6], dtype=int32)

    Raises:
        DTypeError: x is floating.
    """
    return bitwise.invert(coerced(x, bitwise.invert, "bitwise_invert"))


def bitwise_left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """A with its bits moved b places to the left; zeros come in from the right.

    >>> plugrad.bitwise_left_shift([1, -3], 4)
    tensor([ 16, -48], dtype=int32)

    Shifting by as many bits as the dtype has, or more, gives 0. What a negative b gives is
    undefined.

    Raises:
        DTypeError: an operand is floating or bool.
    """
    return paired(bitwise.left_shift, a, b, "bitwise_left_shift")


def bitwise_right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """A with its bits moved b places to the right; the sign stays.

    >>> plugrad.bitwise_right_shift([16, -48], 4)
    tensor([ 1, -3], dtype=int32)

    Shifting by as many bits as the dtype has, or more, gives 0, or -1 for negative numbers. What a
    negative b gives is undefined.

    Raises:
        DTypeError: an operand is floating or bool.
    """
    return paired(bitwise.right_shift, a, b, "bitwise_right_shift")
