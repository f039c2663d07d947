"""Kernels that combine tensors of one dtype element by element; their shapes are broadcast."""

from typing import Final

from plugrad.contract.kernel import Kernel, check_dtype, check_same_dtype, declare, kernel
from plugrad.errors import ShapeError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import ANY, BOOL, COMPLEX, FLOATING, INEXACT, NUMERIC, REAL, DType, bool_
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec

ORDERED: Final = ANY - COMPLEX


def binary(
    name: str, accepts: frozenset[DType] = NUMERIC, dtype: DType | None = None
) -> Kernel[[Spec, Spec], Tensor]:
    """Declare a kernel of inputs `a` and `b`, whose result has their dtype unless `dtype` is given."""

    def rule(a: Spec, b: Spec) -> Spec:
        shared = check_same_dtype(name, a, b)
        return Shaped(broadcast(a.shape, b.shape), dtype or shared)

    return declare(Kernel(name, rule, "binary", is_elementwise=True, accepts=accepts))


# arithmetic
add: Final = binary("Add")
subtract: Final = binary("Sub")
multiply: Final = binary("Multiply")
divide: Final = binary("RealDiv", INEXACT)
floor_divide: Final = binary(
    "FloorDiv", REAL
)  # towards minus infinity; an integer divided by 0 is 0
remainder: Final = binary("Mod", REAL)  # has the sign of b
power: Final = binary("Pow", NUMERIC)
squared_difference: Final = binary("SquaredDifference")  # (a - b)^2
maximum: Final = binary("Maximum", REAL)
minimum: Final = binary("Minimum", REAL)
atan2: Final = binary("Atan2", FLOATING)  # the angle of the point (b, a)
hypot: Final = binary("Hypot", FLOATING)  # sqrt(a^2 + b^2)
log_add_exp: Final = binary("LogAddExp", FLOATING)  # log(exp(a) + exp(b))
next_after: Final = binary("NextAfter", FLOATING)  # the number next to a in the direction of b

# comparison
equal: Final = binary("Equal", ANY, bool_)
not_equal: Final = binary("NotEqual", ANY, bool_)
greater: Final = binary("Greater", ORDERED, bool_)
greater_equal: Final = binary("GreaterEqual", ORDERED, bool_)
less: Final = binary("Less", ORDERED, bool_)
less_equal: Final = binary("LessEqual", ORDERED, bool_)

# logic
logical_and: Final = binary("LogicalAnd", BOOL)
logical_or: Final = binary("LogicalOr", BOOL)
logical_xor: Final = binary("LogicalXor", BOOL)


@kernel("Select", is_elementwise=True)
def select(condition: Spec, t: Spec, e: Spec) -> Spec:
    """Return the elements of `t` where `condition` holds, and the elements of `e` elsewhere."""
    check_dtype("Select (condition)", condition, BOOL)
    return Shaped(broadcast(condition.shape, t.shape, e.shape), check_same_dtype("Select", t, e))


@kernel("AddN", accepts=NUMERIC)
def add_n(*inputs: Spec) -> Spec:
    """Return the sum of tensors of one shape."""
    if len({x.shape for x in inputs}) != 1:
        raise ShapeError(f"the inputs must have one shape, not {[x.shape for x in inputs]}")
    return Shaped(inputs[0].shape, check_same_dtype("AddN", *inputs))
