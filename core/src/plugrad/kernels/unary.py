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
        kept = accepted(name, x, accepts)
        return Shaped(x.shape, dtype or kept)

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
round = unary("Round", REAL)  # halves to the even neighbour
trunc = unary("Trunc", REAL)  # towards 0

# exponential and logarithmic
exp = unary("Exp")
expm1 = unary("Expm1")  # exp(x) - 1
log = unary("Log")
log1p = unary("Log1p")  # log(1 + x)
log2 = unary("Log2")
log10 = unary("Log10")

# trigonometric and hyperbolic, angles in radians
sin, cos, tan = unary("Sin"), unary("Cos"), unary("Tan")
asin, acos, atan = unary("Asin"), unary("Acos"), unary("Atan")
sinh, cosh, tanh = unary("Sinh"), unary("Cosh"), unary("Tanh")
asinh, acosh, atanh = unary("Asinh"), unary("Acosh"), unary("Atanh")
erf = unary("Erf", FLOATING)

# questions
is_finite = unary("IsFinite", NUMERIC, bool_)
is_inf = unary("IsInf", NUMERIC, bool_)
is_nan = unary("IsNan", NUMERIC, bool_)
sign_bit = unary("SignBit", FLOATING, bool_)  # also of -0.0 and NaN
logical_not = unary("LogicalNot", BOOL)

identity = unary("Identity", ANY)


@kernel("Step", is_elementwise=True, accepts=REAL)
def step(x: Spec, *, alpha: float = 0.0) -> Spec:
    """Return 1 where x > 0, else `alpha`; NaN stays NaN."""
    return Shaped(x.shape, accepted("Step", x, REAL))


@kernel("ClipByValue", is_elementwise=True, accepts=REAL)
def clip_by_value(x: Spec, *, clip_value_min: float, clip_value_max: float) -> Spec:
    """Return x, but at least `clip_value_min` and at most `clip_value_max`, which is not less."""
    if clip_value_min > clip_value_max:
        raise ArgumentValueError(
            f"ClipByValue: clip_value_min={clip_value_min} must not exceed clip_value_max={clip_value_max}"
        )
    return Shaped(x.shape, accepted("ClipByValue", x, REAL))


@kernel("Cast", is_elementwise=True, accepts=NUMERIC | BOOL)
def cast(x: Spec, *, dtype: DType) -> Spec:
    """Convert; fractions and imaginary parts are lost where they have no place; all but 0 is True."""
    for end in (x, Shaped(x.shape, dtype)):
        accepted("Cast", end, NUMERIC | BOOL)
    return Shaped(x.shape, dtype)
