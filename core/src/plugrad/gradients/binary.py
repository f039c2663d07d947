"""Gradients of the binary kernels. The tape sums each to the shape of its input."""

from math import inf

from plugrad.kernels import binary
from plugrad.ops.activation import sigmoid
from plugrad.ops.binary import (
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
from plugrad.tensor.tracer import is_recorded

# arithmetic
gradient(binary.add, a=lambda dy: dy, b=lambda dy: dy)
gradient(binary.subtract, a=lambda dy: dy, b=lambda dy: -dy)
gradient(binary.multiply, a=lambda dy, b: dy * b, b=lambda dy, a: dy * a)
gradient(binary.divide, a=lambda dy, b: dy / b, b=lambda dy, b, out: -dy * out / b)
# a - floor(a / b) * b, whose quotient is constant between jumps
gradient(binary.remainder, a=lambda dy: dy, b=lambda dy, a, b: -dy * floor_divide(a, b))
gradient(
    binary.squared_difference,
    a=lambda dy, a, b: dy * (a - b) * 2,
    b=lambda dy, a, b: dy * (b - a) * 2,
)
gradient(binary.add_n, inputs=lambda dy, inputs_spec: [dy] * len(inputs_spec))


def _power_base_vjp(dy: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the gradient for the base, ``dy * b * a**(b - 1)``; for the exponent 0 it is 0.

    There ``a**-1`` may be infinite, so another exponent takes its place. If the exponent is
    differentiated itself, a later derivative depends on ``a**-1``, which is then replaced only where
    the base is 0, too.
    """
    is_constant = equal(b, 0)
    if is_recorded(b):
        is_constant = logical_and(is_constant, equal(a, 0))
    return dy * b * a ** where(is_constant, 1, b - 1)


def _power_exponent_vjp(dy: Tensor, a: Tensor, out: Tensor) -> Tensor:
    """Return the gradient for the exponent, ``dy * out * log(a)``; it is 0 where log(a) is undefined."""
    has_logarithm = not_equal(a, 0) if a.dtype.kind == "complex" else greater(a, 0)
    return dy * out * log(where(has_logarithm, a, 1))


gradient(binary.power, a=_power_base_vjp, b=_power_exponent_vjp)


def _difference_of_infinities_as_0(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a - b``, and 0 where both are equal infinities."""
    return where(logical_and(equal(a, b), isinf(a)), 0, a - b)


# Where the operands are equal, the first one gets the gradient.
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


def _replace_0_by_infinity(x: Tensor) -> Tensor:
    """Return x, with infinity in place of 0, so that quotients are 0 there."""
    return where(equal(x, 0), inf, x)


# With r² = a² + b², the partial derivatives of the angle of the point (b, a) are b / r² and -a / r².
gradient(
    binary.atan2,
    a=lambda dy, a, b: dy * b / (a * a + b * b),
    b=lambda dy, a, b: -dy * a / (a * a + b * b),
)
# a / out and b / out; at the origin, where there is no derivative, 0
gradient(
    binary.hypot,
    a=lambda dy, a, out: dy * (a / _replace_0_by_infinity(out)),
    b=lambda dy, b, out: dy * (b / _replace_0_by_infinity(out)),
)
# exp(a) / (exp(a) + exp(b)), which is the sigmoid of a - b
gradient(
    binary.log_add_exp,
    a=lambda dy, a, b: dy * sigmoid(_difference_of_infinities_as_0(a, b)),
    b=lambda dy, a, b: dy * sigmoid(_difference_of_infinities_as_0(b, a)),
)
gradient(binary.next_after, a=lambda dy: dy)  # the result differs from a by a rounding error

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
