"""Kernels on the bits of integers in two's complement. A bool is one bit."""

from typing import Final

from plugrad.contract.kernel import Kernel, check_same_dtype, declare, kernel
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import BOOL, INTEGER, DType
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec

BITS = INTEGER | BOOL


def bitwise(name: str, accepts: frozenset[DType] = BITS) -> Kernel[[Spec, Spec], Tensor]:
    """Declare a kernel of inputs `a` and `b`, whose result has their dtype."""

    def rule(a: Spec, b: Spec) -> Spec:
        return Shaped(broadcast(a.shape, b.shape), check_same_dtype(name, a, b))

    return declare(Kernel(name, rule, "bitwise", is_elementwise=True, accepts=accepts))


bitwise_and: Final = bitwise("BitwiseAnd")
bitwise_or: Final = bitwise("BitwiseOr")
bitwise_xor: Final = bitwise("BitwiseXor")

# Shifts by b places. Where b is the number of bits or more, a left shift gives 0, and a right shift
# 0 or, for a negative a, -1. The result for a negative b is undefined.
left_shift: Final = bitwise("LeftShift", INTEGER)  # zeros come in from the right
right_shift: Final = bitwise("RightShift", INTEGER)  # copies of the sign come in from the left


@kernel("Invert", is_elementwise=True, accepts=BITS)
def invert(x: Spec) -> Spec:
    """Return x with every bit inverted: ``-x - 1`` for signed integers, not x for bools."""
    return Shaped(x.shape, x.dtype)
