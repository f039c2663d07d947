"""Kernels that map each element of one tensor. NaN gives NaN unless a comment says otherwise."""

from typing import Final

from plugrad.contract.kernel import Kernel, check_dtype, declare, kernel
from plugrad.errors import ArgumentValueError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import ANY, BOOL, FLOATING, INEXACT, NUMERIC, REAL, DType, bool_
from plugrad.types.specs import Shaped, Spec


def unary(
    name: str, accepts: frozenset[DType] = INEXACT, dtype: DType | None = None
) -> Kernel[[Spec], Tensor]:
    """Declare a kernel whose result has the shape of its one input `x`, and its dtype unless `dtype` is given."""

    def rule(x: Spec) -> Spec:
        return Shaped(x.shape, dtype or x.dtype)

    return declare(Kernel(name, rule, "unary", is_elementwise=True, accepts=accepts))


# arithmetic
abs: Final = unary("Abs", REAL)
negative: Final = unary("Neg", NUMERIC)
square: Final = unary("Square", NUMERIC)
sign: Final = unary("Sign", REAL)  # -1, 0 or 1
reciprocal: Final = unary("Reciprocal")  # 1 / x
sqrt: Final = unary("Sqrt")
rsqrt: Final = unary("Rsqrt")  # 1 / sqrt(x)

# rounding
ceil: Final = unary("Ceil", REAL)
floor: Final = unary("Floor", REAL)
round: Final = unary("Round", REAL)  # halves to the even integer
trunc: Final = unary("Trunc", REAL)  # towards 0

# exponential and logarithmic
exp: Final = unary("Exp")
expm1: Final = unary("Expm1")  # exp(x) - 1
log: Final = unary("Log")
log1p: Final = unary("Log1p")  # log(1 + x)
log2: Final = unary("Log2")
log10: Final = unary("Log10")

# trigonometric and hyperbolic, angles in radians
sin: Final = unary("Sin")
cos: Final = unary("Cos")
tan: Final = unary("Tan")
asin: Final = unary("Asin")
acos: Final = unary("Acos")
atan: Final = unary("Atan")
sinh: Final = unary("Sinh")
cosh: Final = unary("Cosh")
tanh: Final = unary("Tanh")
asinh: Final = unary("Asinh")
acosh: Final = unary("Acosh")
atanh: Final = unary("Atanh")
erf: Final = unary("Erf", FLOATING)

# predicates
is_finite: Final = unary("IsFinite", NUMERIC, bool_)
is_inf: Final = unary("IsInf", NUMERIC, bool_)
is_nan: Final = unary("IsNan", NUMERIC, bool_)
sign_bit: Final = unary("SignBit", FLOATING, bool_)  # also of -0.0 and NaN
logical_not: Final = unary("LogicalNot", BOOL)

identity: Final = unary("Identity", ANY)


@kernel("Step", is_elementwise=True, accepts=REAL)
def step(x: Spec, *, alpha: float = 0.0) -> Spec:
    """Return 1 where x > 0, else `alpha`; NaN stays NaN."""
    return Shaped(x.shape, x.dtype)


@kernel("ClipByValue", is_elementwise=True, accepts=REAL)
def clip_by_value(x: Spec, *, clip_value_min: float, clip_value_max: float) -> Spec:
    """Return ``min(max(x, clip_value_min), clip_value_max)``; the minimum does not exceed the maximum."""
    if clip_value_min > clip_value_max:
        raise ArgumentValueError(
            f"clip_value_min={clip_value_min} must not exceed clip_value_max={clip_value_max}"
        )
    return Shaped(x.shape, x.dtype)


@kernel("Cast", is_elementwise=True, accepts=NUMERIC | BOOL)
def cast(x: Spec, *, dtype: DType) -> Spec:
    """Return x converted to a dtype.

    Real numbers drop imaginary parts. Floats that become integers drop their fractions and saturate
    at the limits of the dtype; NaN becomes 0. Integers wrap around in a smaller integer dtype. As a
    bool, all numbers but 0 are True, NaN included.
    """
    result = Shaped(x.shape, dtype)
    check_dtype("Cast", result, NUMERIC | BOOL)
    return result
