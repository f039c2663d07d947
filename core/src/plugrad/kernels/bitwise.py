"""Kernels on the bits of integers in two's complement. A bool is one bit.

A shift moves the bits of a by b places. If b is the number of bits or more, a left shift gives 0, and a right shift 0
or, for a negative a, -1. The result for a negative b is unspecified.

Args:
    a: the left operand.
    b: the right operand, of the dtype of a and of a shape that broadcasts with that of a.
    x: a tensor of any shape.

Returns:
    a tensor of the dtype of the inputs, and of the shape to which they broadcast.
"""

from typing import Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare_contract, kernel
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import BOOL, INTEGER, DType
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec

BITWISE_DTYPES = INTEGER | BOOL
"""The dtypes that have bits to combine: integers and bools."""


def bitwise(
    name: str, contract: str, accepts: frozenset[DType] = BITWISE_DTYPES
) -> Kernel[[Spec, Spec], Tensor]:
    """Return a new kernel of two inputs of the dtypes `accepts`, whose result has the same; `contract` is its text."""

    def rule(a: Spec, b: Spec) -> Spec:
        return Shaped(broadcast(a.shape, b.shape), check_same_dtype(name, a, b))

    rule.__doc__ = contract
    return declare_contract(Kernel(name, rule, "bitwise", is_elementwise=True, accepts=accepts))


bitwise_and: Final = bitwise("BitwiseAnd", "Return the bits that are set in both a and b.")
bitwise_or: Final = bitwise("BitwiseOr", "Return the bits that are set in a, in b or in both.")
bitwise_xor: Final = bitwise(
    "BitwiseXor", "Return the bits that are set in exactly one of a and b."
)

left_shift: Final = bitwise(
    "LeftShift", "Return ``a * 2**b``, without the bits that do not fit.", INTEGER
)
right_shift: Final = bitwise(
    "RightShift", "Return ``a / 2**b``, rounded towards minus infinity.", INTEGER
)


@kernel("Invert", is_elementwise=True, accepts=BITWISE_DTYPES)
def invert(x: Spec) -> Spec:
    """Return x with every bit inverted: ``-x - 1`` for signed integers, not x for bools."""
    return Shaped(x.shape, x.dtype)
