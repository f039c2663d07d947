"""Functions of one tensor, applied to each element.

Whole numbers become float32 where a function has only floating results.
"""

from plugrad.discovery.selection import DeviceLike
from plugrad.errors import DTypeError
from plugrad.kernels import binary, complex as parts, unary
from plugrad.ops.arguments import as_tensor, cast, coerced, constant, host_array
from plugrad.ops.attributes import any_number, flag
from plugrad.ops.transfer import to_device
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import DTypeLike, as_dtype


def abs(x: TensorLike) -> Tensor:
    """Absolute value; of a complex number its distance from 0, which is real. NaN stays NaN.

    >>> plugrad.abs([-1.5, 2.0])
    tensor([1.5, 2. ], dtype=float32)
    """
    x = as_tensor(x, "abs")
    if x.dtype.kind == "complex":
        return parts.complex_abs(x)
    return unary.abs(coerced(x, unary.abs, "abs"))


def negative(x: TensorLike) -> Tensor:
    """Each element with the opposite sign.

    >>> plugrad.negative([1.0, -2.0])
    tensor([-1.,  2.], dtype=float32)
    """
    return unary.negative(coerced(x, unary.negative, "negative"))


def positive(x: TensorLike) -> Tensor:
    """Each element as it is.

    >>> plugrad.positive([1.0, -2.0])
    tensor([ 1., -2.], dtype=float32)
    """
    return coerced(x, unary.negative, "positive")


def square(x: TensorLike) -> Tensor:
    """Each element multiplied by itself.

    >>> plugrad.square([1.0, -3.0])
    tensor([1., 9.], dtype=float32)
    """
    return unary.square(coerced(x, unary.square, "square"))


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1, the sign of each element; of a complex number ``x / abs(x)``. NaN stays NaN.

    >>> plugrad.sign([-2.0, 0.0, 3.0])
    tensor([-1.,  0.,  1.], dtype=float32)
    """
    x = as_tensor(x, "sign")
    if x.dtype.kind == "complex":
        radius = parts.complex_abs(x)
        is_zero = binary.equal(radius, constant(0, radius.dtype, x.backend))
        return binary.divide(x, cast(binary.add(radius, cast(is_zero, radius.dtype)), x.dtype))
    return unary.sign(coerced(x, unary.sign, "sign"))


def reciprocal(x: TensorLike) -> Tensor:
    """``1 / x``. 1 / 0 is infinite.

    >>> plugrad.reciprocal([2.0, 4.0])
    tensor([0.5 , 0.25], dtype=float32)
    """
    return unary.reciprocal(coerced(x, unary.reciprocal, "reciprocal"))


def sqrt(x: TensorLike) -> Tensor:
    """The non-negative square root. Negative elements give NaN.

    >>> plugrad.sqrt([4.0, 9.0])
    tensor([2., 3.], dtype=float32)
    """
    return unary.sqrt(coerced(x, unary.sqrt, "sqrt"))


def rsqrt(x: TensorLike) -> Tensor:
    """``1 / sqrt(x)``.

    >>> plugrad.rsqrt([4.0, 16.0])
    tensor([0.5 , 0.25], dtype=float32)
    """
    return unary.rsqrt(coerced(x, unary.rsqrt, "rsqrt"))


def ceil(x: TensorLike) -> Tensor:
    """The smallest whole number that is not smaller.

    >>> plugrad.ceil([1.2, -1.2])
    tensor([ 2., -1.], dtype=float32)
    """
    return unary.ceil(coerced(x, unary.ceil, "ceil"))


def floor(x: TensorLike) -> Tensor:
    """The largest whole number that is not larger.

    >>> plugrad.floor([1.2, -1.2])
    tensor([ 1., -2.], dtype=float32)
    """
    return unary.floor(coerced(x, unary.floor, "floor"))


def round(x: TensorLike) -> Tensor:
    """The nearest whole number, for both parts of a complex number; halves go to the even neighbour.

    >>> plugrad.round([0.5, 1.5, 2.6])
    tensor([0., 2., 3.], dtype=float32)
    """
    x = as_tensor(x, "round")
    if x.dtype.kind == "complex":
        return parts.complex(unary.round(parts.real(x)), unary.round(parts.imag(x)))
    return unary.round(coerced(x, unary.round, "round"))


def trunc(x: TensorLike) -> Tensor:
    """The nearest whole number that is not farther from 0.

    >>> plugrad.trunc([1.7, -1.7])
    tensor([ 1., -1.], dtype=float32)
    """
    return unary.trunc(coerced(x, unary.trunc, "trunc"))


def exp(x: TensorLike) -> Tensor:
    """E to the power of each element. Above 88.7 float32 gives infinity.

    >>> plugrad.exp([0.0, 1.0])
    tensor([1.      , 2.718282], dtype=float32)
    """
    return unary.exp(coerced(x, unary.exp, "exp"))


def expm1(x: TensorLike) -> Tensor:
    """``exp(x) - 1``, accurate near 0.

    >>> plugrad.expm1([0.0, 1.0])
    tensor([0.       , 1.7182819], dtype=float32)
    """
    return unary.expm1(coerced(x, unary.expm1, "expm1"))


def log(x: TensorLike) -> Tensor:
    """The natural logarithm. 0 gives -inf, negative elements NaN.

    >>> plugrad.log([1.0, 10.0])
    tensor([0.       , 2.3025851], dtype=float32)
    """
    return unary.log(coerced(x, unary.log, "log"))


def log1p(x: TensorLike) -> Tensor:
    """``log(1 + x)``, accurate near 0. -1 gives -inf, smaller elements NaN.

    >>> plugrad.log1p([0.0, 1.0])
    tensor([0.       , 0.6931472], dtype=float32)
    """
    return unary.log1p(coerced(x, unary.log1p, "log1p"))


def log2(x: TensorLike) -> Tensor:
    """The logarithm to base 2. 0 gives -inf, negative elements NaN.

    >>> plugrad.log2([1.0, 8.0])
    tensor([0., 3.], dtype=float32)
    """
    return unary.log2(coerced(x, unary.log2, "log2"))


def log10(x: TensorLike) -> Tensor:
    """The logarithm to base 10. 0 gives -inf, negative elements NaN.

    >>> plugrad.log10([1.0, 10.0])
    tensor([0., 1.], dtype=float32)
    """
    return unary.log10(coerced(x, unary.log10, "log10"))


def sin(x: TensorLike) -> Tensor:
    """The sine of an angle in radians.

    >>> plugrad.sin([0.0, 1.0])
    tensor([0.      , 0.841471], dtype=float32)
    """
    return unary.sin(coerced(x, unary.sin, "sin"))


def cos(x: TensorLike) -> Tensor:
    """The cosine of an angle in radians.

    >>> plugrad.cos([0.0, 1.0])
    tensor([1.       , 0.5403023], dtype=float32)
    """
    return unary.cos(coerced(x, unary.cos, "cos"))


def tan(x: TensorLike) -> Tensor:
    """The tangent of an angle in radians.

    >>> plugrad.tan([0.0, 1.0])
    tensor([0.       , 1.5574077], dtype=float32)
    """
    return unary.tan(coerced(x, unary.tan, "tan"))


def asin(x: TensorLike) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x. Outside [-1, 1] NaN.

    >>> plugrad.asin([0.0, 1.0])
    tensor([0.       , 1.5707964], dtype=float32)
    """
    return unary.asin(coerced(x, unary.asin, "asin"))


def acos(x: TensorLike) -> Tensor:
    """The angle in [0, pi] whose cosine is x. Outside [-1, 1] NaN.

    >>> plugrad.acos([0.0, 1.0])
    tensor([1.5707964, 0.       ], dtype=float32)
    """
    return unary.acos(coerced(x, unary.acos, "acos"))


def atan(x: TensorLike) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> plugrad.atan([0.0, 1.0])
    tensor([0.       , 0.7853982], dtype=float32)
    """
    return unary.atan(coerced(x, unary.atan, "atan"))


def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine.

    >>> plugrad.sinh([0.0, 1.0])
    tensor([0.       , 1.1752012], dtype=float32)
    """
    return unary.sinh(coerced(x, unary.sinh, "sinh"))


def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine.

    >>> plugrad.cosh([0.0, 1.0])
    tensor([1.       , 1.5430807], dtype=float32)
    """
    return unary.cosh(coerced(x, unary.cosh, "cosh"))


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    >>> plugrad.tanh([0.0, 1.0])
    tensor([0.       , 0.7615942], dtype=float32)
    """
    return unary.tanh(coerced(x, unary.tanh, "tanh"))


def asinh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic sine.

    >>> plugrad.asinh([0.0, 1.0])
    tensor([0.       , 0.8813736], dtype=float32)
    """
    return unary.asinh(coerced(x, unary.asinh, "asinh"))


def acosh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic cosine. Below 1 NaN.

    >>> plugrad.acosh([1.0, 2.0])
    tensor([0.      , 1.316958], dtype=float32)
    """
    return unary.acosh(coerced(x, unary.acosh, "acosh"))


def atanh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic tangent. Outside [-1, 1] NaN.

    >>> plugrad.atanh([0.0, 0.5])
    tensor([0.        , 0.54930615], dtype=float32)
    """
    return unary.atanh(coerced(x, unary.atanh, "atanh"))


def erf(x: TensorLike) -> Tensor:
    """The error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x.

    >>> plugrad.erf([0.0, 1.0])
    tensor([0.       , 0.8427008], dtype=float32)
    """
    return unary.erf(coerced(x, unary.erf, "erf"))


def isfinite(x: TensorLike) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    >>> plugrad.isfinite([1.0, float("inf"), float("nan")])
    tensor([ True, False, False], dtype=bool)
    """
    return unary.is_finite(coerced(x, unary.is_finite, "isfinite"))


def isinf(x: TensorLike) -> Tensor:
    """Whether each element is infinite.

    >>> plugrad.isinf([1.0, float("inf"), float("nan")])
    tensor([False,  True, False], dtype=bool)
    """
    return unary.is_inf(coerced(x, unary.is_inf, "isinf"))


def isnan(x: TensorLike) -> Tensor:
    """Whether each element is NaN.

    >>> plugrad.isnan([1.0, float("inf"), float("nan")])
    tensor([False, False,  True], dtype=bool)
    """
    return unary.is_nan(coerced(x, unary.is_nan, "isnan"))


def signbit(x: TensorLike) -> Tensor:
    """Whether each element has a minus sign, which -0.0 and NaN may have too.

    >>> plugrad.signbit([1.0, -1.0, -0.0])
    tensor([False,  True,  True], dtype=bool)
    """
    return unary.sign_bit(coerced(x, unary.sign_bit, "signbit"))


def logical_not(x: TensorLike) -> Tensor:
    """Whether each element is False.

    >>> plugrad.logical_not([True, False])
    tensor([False,  True], dtype=bool)
    """
    return unary.logical_not(coerced(x, unary.logical_not, "logical_not"))


def step(x: TensorLike, alpha: float = 0.0) -> Tensor:
    """1 where x > 0, else `alpha`; NaN stays NaN.

    >>> plugrad.step([-1.0, 0.0, 2.0])
    tensor([0., 0., 1.], dtype=float32)
    """
    x, below = coerced(x, unary.step, "step"), any_number(alpha, "step", "alpha")
    if x.dtype.is_integer:
        host_array(below, "step", "alpha", x.dtype)  # raises if it does not fit
    return unary.step(x, alpha=below)


def astype(
    x: TensorLike, dtype: DTypeLike, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor:
    """The same values in another dtype.

    >>> plugrad.astype([1.7, -1.7, 0.0], "int32")
    tensor([ 1, -1,  0], dtype=int32)

    Floats lose their fraction on the way to integers, and anything but 0 is True.

    Args:
        x: the tensor.
        dtype: the dtype of the result.
        copy: whether the result is another tensor than x, which is disposed of on its own, also if
            x has the dtype.
        device: where the result lives; by default where x does.

    Raises:
        DTypeError: plugrad has no such dtype, or a complex number would lose its imaginary part.
        UnsupportedDtype: the backend has no such dtype.
    """
    wanted, x = as_dtype(dtype), as_tensor(x, "astype")
    if x.dtype.kind == "complex" and wanted.kind not in ("complex", "bool"):
        raise DTypeError(
            f"astype: {x.dtype} does not become {wanted} without its imaginary part; take "
            "plugrad.real or plugrad.abs of it first"
        )
    if device is None:
        y = cast(x, wanted)
    elif wanted in x.backend.dtypes():
        y = to_device(cast(x, wanted), device)
    else:
        y = cast(to_device(x, device), wanted)
    return unary.identity(x) if flag(copy, "astype", "copy") and y is x else y
