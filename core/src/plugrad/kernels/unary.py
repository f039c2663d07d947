"""Kernels that map each element of one tensor. NaN gives NaN unless a comment says otherwise."""

from plugrad.contract.kernel import Kernel, accepted, declare, kernel
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
abs = unary("Abs", REAL)
negative = unary("Neg", NUMERIC)
square = unary("Square", NUMERIC)
sign = unary("Sign", REAL)  # -1, 0 or 1
reciprocal = unary("Reciprocal")  # 1 / x
sqrt = unary("Sqrt")
rsqrt = unary("Rsqrt")  # 1 / sqrt(x)

# rounding
ceil = unary("Ceil", REAL)
floor = unary("Floor", REAL)
round = unary("Round", REAL)  # halves to the even integer
trunc = unary("Trunc", REAL)  # towards 0

# exponential and logarithmic
exp = unary("Exp")
expm1 = unary("Expm1")  # exp(x) - 1
log = unary("Log")
log1p = unary("Log1p")  # log(1 + x)
log2 = unary("Log2")
log10 = unary("Log10")

# trigonometric and hyperbolic, angles in radians
sin = unary("Sin")
cos = unary("Cos")
tan = unary("Tan")
asin = unary("Asin")
acos = unary("Acos")
atan = unary("Atan")
sinh = unary("Sinh")
cosh = unary("Cosh")
tanh = unary("Tanh")
asinh = unary("Asinh")
acosh = unary("Acosh")
atanh = unary("Atanh")
erf = unary("Erf", FLOATING)

# predicates
is_finite = unary("IsFinite", NUMERIC, bool_)
is_inf = unary("IsInf", NUMERIC, bool_)
is_nan = unary("IsNan", NUMERIC, bool_)
sign_bit = unary("SignBit", FLOATING, bool_)  # also of -0.0 and NaN
logical_not = unary("LogicalNot", BOOL)

identity = unary("Identity", ANY)


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
    accepted("Cast", result, NUMERIC | BOOL)
    return result
