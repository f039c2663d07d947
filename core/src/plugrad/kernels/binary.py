"""Kernels that combine tensors of one dtype element by element; their shapes are broadcast.

NaN in an input gives NaN, and integers wrap around, unless a kernel says otherwise.

Args:
    a: the left operand.
    b: the right operand, of the dtype of a and of a shape that broadcasts with that of a.

Returns:
    a tensor of the dtype of the inputs, and of the shape to which they broadcast.
"""

from typing import Final

from plugrad.contract.kernel import Kernel, check_dtype, check_same_dtype, declare_contract, kernel
from plugrad.errors import ShapeError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import ANY, BOOL, COMPLEX, FLOATING, INEXACT, NUMERIC, REAL, DType, bool_
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec

ORDERED_DTYPES: Final = ANY - COMPLEX
"""The dtypes whose values can be compared: all but the complex ones."""


def binary(
    name: str, contract: str, accepts: frozenset[DType] = NUMERIC
) -> Kernel[[Spec, Spec], Tensor]:
    """Return a new kernel of two inputs of the dtypes `accepts`, whose result has the same; `contract` is its text."""

    def rule(a: Spec, b: Spec) -> Spec:
        return Shaped(broadcast(a.shape, b.shape), check_same_dtype(name, a, b))

    rule.__doc__ = contract
    return declare_contract(Kernel(name, rule, "binary", is_elementwise=True, accepts=accepts))


def comparison(
    name: str, contract: str, accepts: frozenset[DType] = ORDERED_DTYPES
) -> Kernel[[Spec, Spec], Tensor]:
    """Return a new kernel of two inputs of the dtypes `accepts`, whose result is bools; `contract` is its text."""

    def rule(a: Spec, b: Spec) -> Spec:
        check_same_dtype(name, a, b)
        return Shaped(broadcast(a.shape, b.shape), bool_)

    rule.__doc__ = f"{contract}\n\nReturns:\n    bools in the shape to which the inputs broadcast."
    return declare_contract(Kernel(name, rule, "binary", is_elementwise=True, accepts=accepts))


# arithmetic
add: Final = binary("Add", "Return ``a + b``.")
subtract: Final = binary("Sub", "Return ``a - b``.")
multiply: Final = binary("Multiply", "Return ``a * b``.")
divide: Final = binary(
    "RealDiv",
    "Return ``a / b``; a number divided by 0 is infinite, and 0 divided by 0 is NaN.",
    INEXACT,
)
floor_divide: Final = binary(
    "FloorDiv",
    "Return ``a / b`` rounded towards minus infinity; an integer divided by 0 is 0.",
    REAL,
)
remainder: Final = binary(
    "Mod",
    "Return ``a - b * floor(a / b)``, which has the sign of b; 0 for an integer b of 0.",
    REAL,
)
power: Final = binary(
    "Pow", "Return a to the power of b; 1 if b is 0 or a is 1, also for NaN.", NUMERIC
)
squared_difference: Final = binary("SquaredDifference", "Return ``(a - b)**2``.")
maximum: Final = binary("Maximum", "Return the larger element, or NaN if one is NaN.", REAL)
minimum: Final = binary("Minimum", "Return the smaller element, or NaN if one is NaN.", REAL)
atan2: Final = binary(
    "Atan2", "Return the angle of the point (b, a) in radians, from -pi to pi.", FLOATING
)
hypot: Final = binary(
    "Hypot", "Return ``sqrt(a**2 + b**2)``, which does not overflow before its result.", FLOATING
)
log_add_exp: Final = binary(
    "LogAddExp", "Return ``log(exp(a) + exp(b))``, which does not overflow.", FLOATING
)
next_after: Final = binary(
    "NextAfter", "Return the number of the dtype next to a in the direction of b.", FLOATING
)

# comparison
equal: Final = comparison("Equal", "Return whether a equals b; NaN equals nothing.", ANY)
not_equal: Final = comparison(
    "NotEqual", "Return whether a differs from b; NaN differs from everything.", ANY
)
greater: Final = comparison("Greater", "Return whether a > b; False if one is NaN.")
greater_equal: Final = comparison("GreaterEqual", "Return whether a >= b; False if one is NaN.")
less: Final = comparison("Less", "Return whether a < b; False if one is NaN.")
less_equal: Final = comparison("LessEqual", "Return whether a <= b; False if one is NaN.")

# logic
logical_and: Final = binary("LogicalAnd", "Return whether both are True.", BOOL)
logical_or: Final = binary("LogicalOr", "Return whether at least one is True.", BOOL)
logical_xor: Final = binary("LogicalXor", "Return whether exactly one is True.", BOOL)


@kernel("Select", is_elementwise=True)
def select(condition: Spec, t: Spec, e: Spec) -> Spec:
    """Return the elements of `t` where `condition` holds, and the elements of `e` elsewhere.

    Args:
        condition: bools.
        t: the elements where the condition holds, of any dtype.
        e: the elements elsewhere, of the dtype of t.

    Returns:
        a tensor of the dtype of t and e, and of the shape to which all three inputs broadcast.
    """
    check_dtype("Select (condition)", condition, BOOL)
    return Shaped(broadcast(condition.shape, t.shape, e.shape), check_same_dtype("Select", t, e))


@kernel("AddN", accepts=NUMERIC)
def add_n(*inputs: Spec) -> Spec:
    """Return the sum of tensors of one shape.

    Args:
        inputs: at least one tensor; all have one shape and one dtype.

    Returns:
        a tensor of their shape and dtype.
    """
    if len({x.shape for x in inputs}) != 1:
        raise ShapeError(f"the inputs must have one shape, not {[x.shape for x in inputs]}")
    return Shaped(inputs[0].shape, check_same_dtype("AddN", *inputs))
