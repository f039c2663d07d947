"""Gradients of the binary kernels. The tape sums each to its input's shape."""

from plugrad.kernels import binary
from plugrad.ops.activation import sigmoid
from plugrad.ops.binary import (
    div_no_nan,
    equal,
    floor_divide,
    greater,
    greater_equal,
    logical_and,
    not_equal,
    where,
)
from plugrad.ops.unary import isinf, log
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor

# arithmetic
gradient(binary.add, a=lambda dy: dy, b=lambda dy: dy)
gradient(binary.subtract, a=lambda dy: dy, b=lambda dy: -dy)
gradient(binary.multiply, a=lambda dy, b: dy * b, b=lambda dy, a: dy * a)
gradient(binary.divide, a=lambda dy, b: dy / b, b=lambda dy, b, out: -dy * out / b)
gradient(binary.remainder, a=lambda dy: dy, b=lambda dy, a, b: -dy * floor_divide(a, b))
gradient(
    binary.squared_difference,
    a=lambda dy, a, b: dy * 2 * (a - b),
    b=lambda dy, a, b: dy * 2 * (b - a),
)
gradient(binary.add_n, inputs=lambda dy, inputs_spec: [dy] * len(inputs_spec))


def _power_base(dy: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the gradient for the base; 0 for the exponent 0, also where ``a**-1`` is infinite.

    An exponent that is differentiated itself has a share in ``a**-1``, so there it is left out at 0 only.
    """
    is_nothing = equal(b, 0) if b.node is None else logical_and(equal(a, 0), equal(b, 0))
    return dy * b * a ** where(is_nothing, 1, b - 1)


def _power_exponent(dy: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """Return the gradient for the exponent; 0 for a base that has no logarithm."""
    has_logarithm = not_equal(a, 0) if a.dtype.kind == "complex" else greater(a, 0)
    return dy * out * log(where(has_logarithm, a, 1))


gradient(binary.power, a=_power_base, b=_power_exponent)


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a - b``, and 0 where both are the same infinity."""
    return where(logical_and(equal(a, b), isinf(a)), 0, a - b)


# where the operands are equal, the first one counts
gradient(
    binary.maximum,
    a=lambda dy, a, b: where(greater_equal(a, b), dy, 0),
    b=lambda dy, a, b: where(greater_equal(a, b), 0, dy),
)
gradient(
    binary.minimum,
    a=lambda dy, a, b: where(greater(a, b), 0, dy),
    b=lambda dy, a, b: where(greater(a, b), dy, 0),
)
gradient(
    binary.atan2,
    a=lambda dy, a, b: dy * b / (a * a + b * b),
    b=lambda dy, a, b: -dy * a / (a * a + b * b),
)
gradient(  # 0 at the origin
    binary.hypot,
    a=lambda dy, a, out: div_no_nan(dy * a, out),
    b=lambda dy, b, out: div_no_nan(dy * b, out),
)
gradient(
    binary.log_add_exp,
    a=lambda dy, a, b: dy * sigmoid(_difference(a, b)),
    b=lambda dy, a, b: dy * sigmoid(_difference(b, a)),
)
gradient(binary.next_after, a=lambda dy: dy)  # the step has the size of a rounding error

# selection
gradient(
    binary.select,
    t=lambda dy, condition: where(condition, dy, 0),
    e=lambda dy, condition: where(condition, 0, dy),
)

not_differentiable(binary.floor_divide, because="it is constant between jumps")
not_differentiable(
    binary.equal,
    binary.not_equal,
    binary.greater,
    binary.greater_equal,
    binary.less,
    binary.less_equal,
    binary.logical_and,
    binary.logical_or,
    binary.logical_xor,
    because="bools do not change smoothly",
)
