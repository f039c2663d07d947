"""Kernels that combine the bits of whole numbers, which are in two's complement. A bool is one bit."""

from plugrad.contract.kernel import Kernel, accepted, agreed, declare, kernel
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import BOOL, INTEGER, DType
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec

BITS = INTEGER | BOOL


def bitwise(name: str, accepts: frozenset[DType] = BITS) -> Kernel[[Spec, Spec], Tensor]:
    """Declare a kernel of inputs `a` and `b`, whose result has their dtype."""

    def rule(a: Spec, b: Spec) -> Spec:
        accepted(name, a, accepts)
        return Shaped(broadcast(a.shape, b.shape), agreed(name, a, b))

    return declare(Kernel(name, rule, "bitwise", is_elementwise=True, accepts=accepts))


bitwise_and = bitwise("BitwiseAnd")
bitwise_or = bitwise("BitwiseOr")
bitwise_xor = bitwise("BitwiseXor")

# By b places. From the number of bits on, nothing of a is left but its sign, on the right. What
# negative b give is undefined.
left_shift = bitwise("LeftShift", INTEGER)  # zeros come in from the right
right_shift = bitwise("RightShift", INTEGER)  # copies of the sign come in from the left


@kernel("Invert", is_elementwise=True, accepts=BITS)
def invert(x: Spec) -> Spec:
    """Return the other value of every bit: ``-x - 1`` for signed numbers, not x for bools."""
    return Shaped(x.shape, accepted("Invert", x, BITS))
