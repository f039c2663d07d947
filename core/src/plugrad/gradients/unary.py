"""Gradients of the unary kernels."""

from math import log, pi, sqrt

from plugrad.kernels import unary
from plugrad.ops.binary import greater_equal, less_equal, logical_and, where
from plugrad.ops.unary import cos, cosh, exp, rsqrt, sign, sin, sinh
from plugrad.tape.rules import gradient, not_differentiable
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType
from plugrad.types.specs import Spec

# arithmetic
gradient(unary.identity, x=lambda dy: dy)
gradient(unary.abs, x=lambda dy, x: dy * sign(x))
gradient(unary.negative, x=lambda dy: -dy)
gradient(unary.square, x=lambda dy, x: dy * 2 * x)
gradient(unary.reciprocal, x=lambda dy, out: -dy * out * out)
gradient(unary.sqrt, x=lambda dy, out: dy * 0.5 / out)
gradient(unary.rsqrt, x=lambda dy, out: dy * -0.5 * out * out * out)

# exponential and logarithmic
gradient(unary.exp, x=lambda dy, out: dy * out)
gradient(unary.expm1, x=lambda dy, out: dy * (out + 1))
gradient(unary.log, x=lambda dy, x: dy / x)
gradient(unary.log1p, x=lambda dy, x: dy / (x + 1))
gradient(unary.log2, x=lambda dy, x: dy / (x * log(2)))
gradient(unary.log10, x=lambda dy, x: dy / (x * log(10)))

# trigonometric and hyperbolic; rsqrt(x) is 1 / sqrt(x)
gradient(unary.sin, x=lambda dy, x: dy * cos(x))
gradient(unary.cos, x=lambda dy, x: -dy * sin(x))
gradient(unary.tan, x=lambda dy, out: dy * (out * out + 1))
gradient(unary.asin, x=lambda dy, x: dy * rsqrt(1 - x * x))
gradient(unary.acos, x=lambda dy, x: -dy * rsqrt(1 - x * x))
gradient(unary.atan, x=lambda dy, x: dy / (x * x + 1))
gradient(unary.sinh, x=lambda dy, x: dy * cosh(x))
gradient(unary.cosh, x=lambda dy, x: dy * sinh(x))
gradient(unary.tanh, x=lambda dy, out: dy * (1 - out * out))
gradient(unary.asinh, x=lambda dy, x: dy * rsqrt(x * x + 1))
# As two factors, because x * x - 1 loses digits near 1, and its root has the wrong sign for some
# complex x.
gradient(unary.acosh, x=lambda dy, x: dy * rsqrt(x - 1) * rsqrt(x + 1))
gradient(unary.atanh, x=lambda dy, x: dy / (1 - x * x))
gradient(unary.erf, x=lambda dy, x: dy * (2 / sqrt(pi)) * exp(-x * x))


def _mask_clipped(dy: Tensor, x: Tensor, clip_value_min: float, clip_value_max: float) -> Tensor:
    """Return dy where x is within the bounds (inclusive), and 0 where it was clipped."""
    return where(
        logical_and(greater_equal(x, clip_value_min), less_equal(x, clip_value_max)), dy, 0
    )


gradient(unary.clip_by_value, x=_mask_clipped)


def _cast_back(dy: Tensor, x_spec: Spec, dtype: DType) -> Tensor | None:
    """Return dy in the dtype of the input; there is no gradient through integers and bools."""
    return (
        unary.cast(dy, dtype=x_spec.dtype) if dtype.is_inexact and x_spec.dtype.is_inexact else None
    )


gradient(unary.cast, x=_cast_back)

not_differentiable(
    unary.sign,
    unary.ceil,
    unary.floor,
    unary.round,
    unary.trunc,
    unary.step,
    because="they are constant between jumps",
)
not_differentiable(
    unary.is_finite,
    unary.is_inf,
    unary.is_nan,
    unary.sign_bit,
    unary.logical_not,
    because="bools do not change smoothly",
)
