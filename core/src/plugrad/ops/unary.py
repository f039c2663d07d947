"""Functions of one tensor, applied to each element: results have the shape of x.

Integers and bools become float32 where a function has only floating results.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from plugrad.engine.results import alias
from plugrad.engine.transfer import lift_alias
from plugrad.errors import DTypeError
from plugrad.kernels import binary, complex as parts, unary
from plugrad.ops.arguments import (
    as_bools,
    as_supported_dtype,
    as_tensor,
    cached_constant,
    cast,
    host_array,
    unary_op,
)
from plugrad.ops.attributes import check_flag, check_number
from plugrad.ops.transfer import to_device
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import COMPLEX, as_dtype, equivalents

if TYPE_CHECKING:
    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DTypeLike


def abs(x: TensorLike) -> Tensor:
    """The absolute value of each element, in the dtype of x; for a complex number its distance from 0, which is real.

    >>> plugrad.abs([-1.5, 2.0])
    tensor([1.5, 2. ], dtype=float32)

    NaN stays NaN.

    Raises:
        DTypeError: x holds bools or strings.
    """
    x = as_tensor(x, "abs")
    if x.array.dtype in _COMPLEX_DTYPES:
        return parts.complex_abs(x)
    return unary_op(unary.abs, x, "abs")


def negative(x: TensorLike) -> Tensor:
    """The negative of each element, in the dtype of x.

    >>> plugrad.negative([1.0, -2.0])
    tensor([-1.,  2.], dtype=float32)

    Unsigned integers wrap around.

    Raises:
        DTypeError: x holds bools or strings.
    """
    return unary_op(unary.negative, x, "negative")


def positive(x: TensorLike) -> Tensor:
    """The elements of x unchanged.

    >>> plugrad.positive([1.0, -2.0])
    tensor([ 1., -2.], dtype=float32)

    Raises:
        DTypeError: x holds bools or strings.
    """
    return lift_alias(as_supported_dtype(x, unary.negative, "positive"))


def square(x: TensorLike) -> Tensor:
    """Each element multiplied by itself, in the dtype of x.

    >>> plugrad.square([1.0, -3.0])
    tensor([1., 9.], dtype=float32)

    Raises:
        DTypeError: x holds bools or strings.
    """
    return unary_op(unary.square, x, "square")


def sign(x: TensorLike) -> Tensor:
    """The sign of each element, -1, 0 or 1, in the dtype of x; for a complex number ``x / abs(x)``.

    >>> plugrad.sign([-2.0, 0.0, 3.0])
    tensor([-1.,  0.,  1.], dtype=float32)

    NaN stays NaN.

    Raises:
        DTypeError: x holds bools or strings.
    """
    x = as_tensor(x, "sign")
    if x.array.dtype in _COMPLEX_DTYPES:
        return _complex_sign(x)
    return unary_op(unary.sign, x, "sign")


def _complex_sign(x: Tensor) -> Tensor:
    """Return complex numbers divided by their absolute values; one infinite part outweighs the other, as in NumPy."""
    real, imag = parts.real(x), parts.imag(x)
    number = partial(cached_constant, dtype=real.dtype, backend=x.backend)
    # The absolute value of the largest numbers would be infinite, and that of the smallest has few digits.
    limits, size = real.dtype.info, binary.maximum(unary.abs(real), unary.abs(imag))
    is_small = binary.less(size, number(float(limits.tiny / limits.eps)))
    is_large, none = binary.greater(size, number(float(limits.max / 4))), number(0)
    factor = binary.select(is_large, number(0.25), number(1))
    factor = binary.select(is_small, number(float(limits.eps**-3)), factor)
    x, y = binary.multiply(real, factor), binary.multiply(imag, factor)
    radius = parts.complex_abs(parts.complex(x, y))
    is_zero = binary.equal(radius, none)
    divisor = binary.add(radius, cast(is_zero, radius.dtype))
    nearby = parts.complex(binary.divide(x, divisor), binary.divide(y, divisor))
    is_far_right, is_far_up = unary.is_inf(real), unary.is_inf(imag)
    far_real = binary.select(is_far_right, unary.sign(real), none)
    far = parts.complex(far_real, binary.select(is_far_up, unary.sign(imag), none))
    is_far = binary.logical_or(
        binary.logical_and(is_far_right, unary.is_finite(imag)),
        binary.logical_and(is_far_up, unary.is_finite(real)),
    )
    return binary.select(binary.logical_or(is_zero, is_far), far, nearby)


def reciprocal(x: TensorLike) -> Tensor:
    """The reciprocal of each element, ``1 / x``; integers and bools become float32.

    >>> plugrad.reciprocal([2.0, 4.0])
    tensor([0.5 , 0.25], dtype=float32)

    The reciprocal of 0 is infinite.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.reciprocal, x, "reciprocal")


def sqrt(x: TensorLike) -> Tensor:
    """The non-negative square root of each element; integers and bools become float32.

    >>> plugrad.sqrt([4.0, 9.0])
    tensor([2., 3.], dtype=float32)

    Negative elements give NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.sqrt, x, "sqrt")


def rsqrt(x: TensorLike) -> Tensor:
    """The reciprocal of the square root of each element, ``1 / sqrt(x)``; integers and bools become float32.

    >>> plugrad.rsqrt([4.0, 16.0])
    tensor([0.5 , 0.25], dtype=float32)

    0 gives infinity, negative elements NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.rsqrt, x, "rsqrt")


def ceil(x: TensorLike) -> Tensor:
    """The smallest integer that is not less than each element, in the dtype of x.

    >>> plugrad.ceil([1.2, -1.2])
    tensor([ 2., -1.], dtype=float32)

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
    """
    return unary_op(unary.ceil, x, "ceil")


def floor(x: TensorLike) -> Tensor:
    """The largest integer that is not greater than each element, in the dtype of x.

    >>> plugrad.floor([1.2, -1.2])
    tensor([ 1., -2.], dtype=float32)

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
    """
    return unary_op(unary.floor, x, "floor")


def round(x: TensorLike) -> Tensor:
    """The integer nearest to each element, in the dtype of x; halves are rounded to even.

    >>> plugrad.round([0.5, 1.5, 2.6])
    tensor([0., 2., 3.], dtype=float32)

    Both parts of a complex number are rounded.

    Raises:
        DTypeError: x holds bools or strings.
    """
    x = as_tensor(x, "round")
    if x.dtype.kind == "complex":
        return parts.complex(unary.round(parts.real(x)), unary.round(parts.imag(x)))
    return unary_op(unary.round, x, "round")


def trunc(x: TensorLike) -> Tensor:
    """The integer part of each element, which is nearest towards 0, in the dtype of x.

    >>> plugrad.trunc([1.7, -1.7])
    tensor([ 1., -1.], dtype=float32)

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
    """
    return unary_op(unary.trunc, x, "trunc")


def exp(x: TensorLike) -> Tensor:
    """The exponential of each element, e to the power of x; integers and bools become float32.

    >>> plugrad.exp([0.0, 1.0])
    tensor([1.       , 2.7182817], dtype=float32)

    Elements above 88.7 give infinity in float32.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.exp, x, "exp")


def expm1(x: TensorLike) -> Tensor:
    """The exponential of each element minus 1, ``exp(x) - 1``, accurate near 0; integers and bools become float32.

    >>> plugrad.expm1([0.0, 1.0])
    tensor([0.       , 1.7182817], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.expm1, x, "expm1")


def log(x: TensorLike) -> Tensor:
    """The natural logarithm of each element; integers and bools become float32.

    >>> plugrad.log([1.0, 10.0])
    tensor([0.       , 2.3025851], dtype=float32)

    0 gives -inf, negative elements NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.log, x, "log")


def log1p(x: TensorLike) -> Tensor:
    """The natural logarithm of 1 plus each element, ``log(1 + x)``, accurate near 0; integers and bools become float32.

    >>> plugrad.log1p([0.0, 1.0])
    tensor([0.       , 0.6931472], dtype=float32)

    -1 gives -inf, smaller elements NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.log1p, x, "log1p")


def log2(x: TensorLike) -> Tensor:
    """The logarithm of each element to base 2; integers and bools become float32.

    >>> plugrad.log2([1.0, 8.0])
    tensor([0., 3.], dtype=float32)

    0 gives -inf, negative elements NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.log2, x, "log2")


def log10(x: TensorLike) -> Tensor:
    """The logarithm of each element to base 10; integers and bools become float32.

    >>> plugrad.log10([1.0, 10.0])
    tensor([0., 1.], dtype=float32)

    0 gives -inf, negative elements NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.log10, x, "log10")


def sin(x: TensorLike) -> Tensor:
    """The sine of each element, an angle in radians; integers and bools become float32.

    >>> plugrad.sin([0.0, 1.0])
    tensor([0.      , 0.841471], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.sin, x, "sin")


def cos(x: TensorLike) -> Tensor:
    """The cosine of each element, an angle in radians; integers and bools become float32.

    >>> plugrad.cos([0.0, 1.0])
    tensor([1.       , 0.5403023], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.cos, x, "cos")


def tan(x: TensorLike) -> Tensor:
    """The tangent of each element, an angle in radians; integers and bools become float32.

    >>> plugrad.tan([0.0, 1.0])
    tensor([0.       , 1.5574077], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.tan, x, "tan")


def asin(x: TensorLike) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is each element; integers and bools become float32.

    >>> plugrad.asin([0.0, 1.0])
    tensor([0.       , 1.5707964], dtype=float32)

    Real elements outside [-1, 1] give NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.asin, x, "asin")


def acos(x: TensorLike) -> Tensor:
    """The angle in [0, pi] whose cosine is each element; integers and bools become float32.

    >>> plugrad.acos([0.0, 1.0])
    tensor([1.5707964, 0.       ], dtype=float32)

    Real elements outside [-1, 1] give NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.acos, x, "acos")


def atan(x: TensorLike) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is each element; integers and bools become float32.

    >>> plugrad.atan([0.0, 1.0])
    tensor([0.       , 0.7853982], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.atan, x, "atan")


def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine of each element; integers and bools become float32.

    >>> plugrad.sinh([0.0, 1.0])
    tensor([0.       , 1.1752012], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.sinh, x, "sinh")


def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine of each element; integers and bools become float32.

    >>> plugrad.cosh([0.0, 1.0])
    tensor([1.       , 1.5430807], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.cosh, x, "cosh")


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent of each element; integers and bools become float32.

    >>> plugrad.tanh([0.0, 1.0])
    tensor([0.       , 0.7615942], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.tanh, x, "tanh")


def asinh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic sine of each element; integers and bools become float32.

    >>> plugrad.asinh([0.0, 1.0])
    tensor([0.       , 0.8813736], dtype=float32)

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.asinh, x, "asinh")


def acosh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic cosine of each element; integers and bools become float32.

    >>> plugrad.acosh([1.0, 2.0])
    tensor([0.      , 1.316958], dtype=float32)

    Real elements below 1 give NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.acosh, x, "acosh")


def atanh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic tangent of each element; integers and bools become float32.

    >>> plugrad.atanh([0.0, 0.5])
    tensor([0.        , 0.54930615], dtype=float32)

    Real elements outside [-1, 1] give NaN.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.atanh, x, "atanh")


def erf(x: TensorLike) -> Tensor:
    """The error function of each element; integers and bools become float32.

    >>> plugrad.erf([-9.0, 0.0, 9.0])
    tensor([-1.,  0.,  1.], dtype=float32)

    It is ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x.

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(unary.erf, x, "erf")


def isfinite(x: TensorLike) -> Tensor:
    """Whether each element is neither infinite nor NaN, as bools.

    >>> plugrad.isfinite([1.0, float("inf"), float("nan")])
    tensor([ True, False, False], dtype=bool)

    Raises:
        DTypeError: x holds bools or strings.
    """
    return unary_op(unary.is_finite, x, "isfinite")


def isinf(x: TensorLike) -> Tensor:
    """Whether each element is infinite, as bools.

    >>> plugrad.isinf([1.0, float("inf"), float("nan")])
    tensor([False,  True, False], dtype=bool)

    Raises:
        DTypeError: x holds bools or strings.
    """
    return unary_op(unary.is_inf, x, "isinf")


def isnan(x: TensorLike) -> Tensor:
    """Whether each element is NaN, as bools.

    >>> plugrad.isnan([1.0, float("inf"), float("nan")])
    tensor([False, False,  True], dtype=bool)

    Raises:
        DTypeError: x holds bools or strings.
    """
    return unary_op(unary.is_nan, x, "isnan")


def signbit(x: TensorLike) -> Tensor:
    """Whether each element has a minus sign, as bools; -0.0 and NaN may have one, too.

    >>> plugrad.signbit([1.0, -1.0, -0.0])
    tensor([False,  True,  True], dtype=bool)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return unary_op(unary.sign_bit, x, "signbit")


def logical_not(x: TensorLike) -> Tensor:
    """Whether each element is False, as bools.

    >>> plugrad.logical_not([True, False])
    tensor([False,  True], dtype=bool)

    Numbers count as True unless they are 0.

    Raises:
        DTypeError: x holds strings.
    """
    return unary_op(unary.logical_not, as_bools(x, "logical_not"), "logical_not")


def step(x: TensorLike, alpha: float = 0.0) -> Tensor:
    """The step function of each element: 1 where x > 0, else `alpha`, in the dtype of x.

    >>> plugrad.step([-1.0, 0.0, 2.0])
    tensor([0., 0., 1.], dtype=float32)

    NaN stays NaN.

    Raises:
        DTypeError: x holds bools, complex numbers or strings.
        ArgumentError: `alpha` is not a number.
        ArgumentValueError: the integer dtype of x does not hold `alpha`.
    """
    x = as_supported_dtype(x, unary.step, "step")
    below = check_number(alpha, "step", "alpha")
    if x.dtype.is_integer:
        host_array(below, "step", "alpha", x.dtype)  # raises if it does not fit
    return unary.step(x, alpha=below)


_COMPLEX_DTYPES: Final = equivalents(COMPLEX)


def astype(
    x: TensorLike, dtype: DTypeLike, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor:
    """The values of x in another dtype.

    >>> plugrad.astype([1.7, -1.7, 0.0], "int32")
    tensor([ 1, -1,  0], dtype=int32)

    Floats that become integers lose their fraction and saturate at the limits of the dtype; NaN
    becomes 0. Integers wrap around in a smaller integer dtype. As bools, all numbers but 0 are True.

    Args:
        x: the tensor.
        dtype: the dtype of the result.
        copy: whether the result is a tensor other than x, so that an assignment to one of them does not
            change the other, even if x has the dtype already.
        device: where the result lives; by default where x does.

    Raises:
        DTypeError: plugrad does not have the dtype, a complex number would lose its imaginary part,
            or strings would become numbers or numbers strings.
        UnsupportedDtype: the backend does not have the dtype.
        ArgumentError: `copy` is not a bool.
        BackendNotFound, BackendUnavailable: there is no such device, or it cannot be used.
    """
    wanted = as_dtype(dtype)
    if not isinstance(x, Tensor):
        x = as_tensor(x, "astype")
    if x.array.dtype in _COMPLEX_DTYPES and wanted.kind not in ("complex", "bool"):
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
    is_copied = copy is True or check_flag(copy, "astype", "copy")
    return alias(x) if y is x and is_copied else y
