"""Kernels that map each element of one tensor. NaN gives NaN unless a kernel says otherwise.

Args:
    x: a tensor of any shape.

Returns:
    a tensor of the shape and the dtype of x.
"""

from typing import Final

from plugrad.contract.kernel import Kernel, check_dtype, declare_contract, kernel
from plugrad.errors import ArgumentValueError
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import ANY, BOOL, FLOATING, INEXACT, NUMERIC, REAL, DType, bool_
from plugrad.types.specs import Shaped, Spec


def unary(name: str, contract: str, accepts: frozenset[DType] = INEXACT) -> Kernel[[Spec], Tensor]:
    """Return a new kernel of one input of the dtypes `accepts`, whose result has its dtype; `contract` is its text."""

    def rule(x: Spec) -> Spec:
        return Shaped(x.shape, x.dtype)

    rule.__doc__ = contract
    return declare_contract(Kernel(name, rule, "unary", is_elementwise=True, accepts=accepts))


def predicate(name: str, contract: str, accepts: frozenset[DType]) -> Kernel[[Spec], Tensor]:
    """Return a new kernel of one input of the dtypes `accepts`, whose result is bools; `contract` is its text."""

    def rule(x: Spec) -> Spec:
        return Shaped(x.shape, bool_)

    rule.__doc__ = f"{contract}\n\nReturns:\n    a bool for each element of x."
    return declare_contract(Kernel(name, rule, "unary", is_elementwise=True, accepts=accepts))


# arithmetic
abs: Final = unary(
    "Abs", "Return the absolute value; that of the smallest signed integer is itself.", REAL
)
negative: Final = unary("Neg", "Return ``-x``; integers wrap around.", NUMERIC)
square: Final = unary("Square", "Return ``x * x``; integers wrap around.", NUMERIC)
sign: Final = unary("Sign", "Return -1, 0 or 1, the sign of x.", REAL)
reciprocal: Final = unary("Reciprocal", "Return ``1 / x``; that of 0 is infinite.")
sqrt: Final = unary("Sqrt", "Return the square root; that of a negative real number is NaN.")
rsqrt: Final = unary("Rsqrt", "Return ``1 / sqrt(x)``.")

# rounding
ceil: Final = unary("Ceil", "Return the smallest whole number that is not less than x.", REAL)
floor: Final = unary("Floor", "Return the largest whole number that is not greater than x.", REAL)
round: Final = unary("Round", "Return the nearest whole number; halves go to the even one.", REAL)
trunc: Final = unary("Trunc", "Return x without its fraction, rounded towards 0.", REAL)

# exponential and logarithmic
exp: Final = unary("Exp", "Return e to the power of x.")
expm1: Final = unary("Expm1", "Return ``exp(x) - 1``, exact also near 0.")
log: Final = unary(
    "Log", "Return the natural logarithm; that of 0 is -inf, that of a negative real number NaN."
)
log1p: Final = unary("Log1p", "Return ``log(1 + x)``, exact also near 0.")
log2: Final = unary("Log2", "Return the logarithm to base 2.")
log10: Final = unary("Log10", "Return the logarithm to base 10.")

# trigonometric and hyperbolic
sin: Final = unary("Sin", "Return the sine of an angle in radians.")
cos: Final = unary("Cos", "Return the cosine of an angle in radians.")
tan: Final = unary("Tan", "Return the tangent of an angle in radians.")
asin: Final = unary(
    "Asin", "Return the angle in radians whose sine is x; NaN for real numbers outside [-1, 1]."
)
acos: Final = unary(
    "Acos", "Return the angle in radians whose cosine is x; NaN for real numbers outside [-1, 1]."
)
atan: Final = unary("Atan", "Return the angle in radians whose tangent is x.")
sinh: Final = unary("Sinh", "Return the hyperbolic sine, ``(exp(x) - exp(-x)) / 2``.")
cosh: Final = unary("Cosh", "Return the hyperbolic cosine, ``(exp(x) + exp(-x)) / 2``.")
tanh: Final = unary("Tanh", "Return the hyperbolic tangent, ``sinh(x) / cosh(x)``.")
asinh: Final = unary("Asinh", "Return the number whose hyperbolic sine is x.")
acosh: Final = unary(
    "Acosh",
    "Return the number of 0 or more whose hyperbolic cosine is x; NaN for real numbers below 1.",
)
atanh: Final = unary(
    "Atanh",
    "Return the number whose hyperbolic tangent is x; NaN for real numbers outside [-1, 1].",
)
erf: Final = unary(
    "Erf",
    "Return the error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x.",
    FLOATING,
)

# predicates
is_finite: Final = predicate("IsFinite", "Return whether x is neither infinite nor NaN.", NUMERIC)
is_inf: Final = predicate("IsInf", "Return whether x is infinite, of either sign.", NUMERIC)
is_nan: Final = predicate("IsNan", "Return whether x is NaN.", NUMERIC)
sign_bit: Final = predicate(
    "SignBit", "Return whether the sign bit is set, also for -0.0 and NaN.", FLOATING
)
logical_not: Final = unary("LogicalNot", "Return True where x is False, and False elsewhere.", BOOL)

identity: Final = unary("Identity", "Return x.", ANY)


@kernel("Step", is_elementwise=True, accepts=REAL)
def step(x: Spec, *, alpha: float = 0.0) -> Spec:
    """Return 1 where x > 0, else `alpha`; NaN stays NaN.

    Args:
        alpha: the result where x is 0 or less.
    """
    return Shaped(x.shape, x.dtype)


@kernel("ClipByValue", is_elementwise=True, accepts=REAL)
def clip_by_value(x: Spec, *, clip_value_min: float, clip_value_max: float) -> Spec:
    """Return ``min(max(x, clip_value_min), clip_value_max)``; NaN stays NaN.

    Args:
        clip_value_min: the smallest result, which must not exceed `clip_value_max`.
        clip_value_max: the largest result.
    """
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

    Args:
        dtype: the dtype of the result: any but string.

    Returns:
        a tensor of the shape of x and of `dtype`.
    """
    result = Shaped(x.shape, dtype)
    check_dtype("Cast", result, NUMERIC | BOOL)
    return result
