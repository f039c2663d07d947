"""Functions of one tensor, applied to each element.

Whole numbers become float32 where a function has only floating results.
"""

from plugrad.dtype import DTypeLike, Scalar, as_dtype
from plugrad.errors import ArgumentValueError
from plugrad.kernels import unary
from plugrad.ops.arguments import as_tensor, cast, coerced
from plugrad.tensor import Tensor, TensorLike


def abs(x: TensorLike) -> Tensor:
    """Absolute value. NaN stays NaN.

    >>> plugrad.abs([-1.5, 2.0])
    tensor([1.5, 2. ], dtype=float32)
    """
    return unary.abs(coerced(x, unary.abs, "abs"))


def negative(x: TensorLike) -> Tensor:
    """Each element with the opposite sign.

    >>> plugrad.negative([1.0, -2.0])
    tensor([-1.,  2.], dtype=float32)
    """
    return unary.negative(coerced(x, unary.negative, "negative"))


def square(x: TensorLike) -> Tensor:
    """Each element multiplied by itself.

    >>> plugrad.square([1.0, -3.0])
    tensor([1., 9.], dtype=float32)
    """
    return unary.square(coerced(x, unary.square, "square"))


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1, the sign of each element. NaN stays NaN.

    >>> plugrad.sign([-2.0, 0.0, 3.0])
    tensor([-1.,  0.,  1.], dtype=float32)
    """
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
    """The nearest whole number; halves go to the even neighbour.

    >>> plugrad.round([0.5, 1.5, 2.6])
    tensor([0., 2., 3.], dtype=float32)
    """
    return unary.round(coerced(x, unary.round, "round"))


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


def relu(x: TensorLike) -> Tensor:
    """``max(x, 0)``, the rectified linear unit.

    >>> plugrad.relu([-1.0, 2.0])
    tensor([0., 2.], dtype=float32)
    """
    return unary.relu(coerced(x, unary.relu, "relu"))


def relu6(x: TensorLike) -> Tensor:
    """Clamp to the range 0 to 6.

    >>> plugrad.relu6([-1.0, 2.0, 8.0])
    tensor([0., 2., 6.], dtype=float32)
    """
    return unary.relu6(coerced(x, unary.relu6, "relu6"))


def elu(x: TensorLike) -> Tensor:
    """The exponential linear unit: x where x > 0, else ``exp(x) - 1`` (Clevert et al., 2015).

    >>> plugrad.elu([-1.0, 2.0])
    tensor([-0.63212055,  2.        ], dtype=float32)
    """
    return unary.elu(coerced(x, unary.elu, "elu"))


def selu(x: TensorLike) -> Tensor:
    """The scaled `elu`, which keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> plugrad.selu([-1.0, 2.0])
    tensor([-1.1113307,  2.101402 ], dtype=float32)
    """
    return unary.selu(coerced(x, unary.selu, "selu"))


def sigmoid(x: TensorLike) -> Tensor:
    """``1 / (1 + exp(-x))``, the logistic function.

    >>> plugrad.sigmoid([0.0, 2.0])
    tensor([0.5      , 0.8807971], dtype=float32)
    """
    return unary.sigmoid(coerced(x, unary.sigmoid, "sigmoid"))


def softplus(x: TensorLike) -> Tensor:
    """``log(1 + exp(x))``, a smooth relu.

    >>> plugrad.softplus([0.0, 2.0])
    tensor([0.6931472, 2.126928 ], dtype=float32)
    """
    return unary.softplus(coerced(x, unary.softplus, "softplus"))


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


def logical_not(x: TensorLike) -> Tensor:
    """Whether each element is False.

    >>> plugrad.logical_not([True, False])
    tensor([False,  True], dtype=bool)
    """
    return unary.logical_not(coerced(x, unary.logical_not, "logical_not"))


def leaky_relu(x: TensorLike, alpha: float = 0.2) -> Tensor:
    """X where x > 0, else ``alpha * x``.

    >>> plugrad.leaky_relu([-1.0, 2.0], alpha=0.5)
    tensor([-0.5,  2. ], dtype=float32)
    """
    return unary.leaky_relu(coerced(x, unary.leaky_relu, "leaky_relu"), alpha=alpha)


def step(x: TensorLike, alpha: float = 0.0) -> Tensor:
    """1 where x > 0, else `alpha`; NaN stays NaN.

    >>> plugrad.step([-1.0, 0.0, 2.0])
    tensor([0., 0., 1.], dtype=float32)
    """
    return unary.step(coerced(x, unary.step, "step"), alpha=alpha)


def clip(x: TensorLike, min: Scalar, max: Scalar) -> Tensor:
    """x, but at least `min` and at most `max`; NaN stays NaN.

    >>> plugrad.clip([-1.0, 0.5, 2.0], 0, 1)
    tensor([0. , 0.5, 1. ], dtype=float32)

    Raises:
        ArgumentValueError: `min` is greater than `max`.
    """
    if min > max:  # type: ignore[operator]
        raise ArgumentValueError(f"clip: min={min} is greater than max={max}; exchange them")
    return unary.clip_by_value(
        coerced(x, unary.clip_by_value, "clip"), clip_value_min=min, clip_value_max=max
    )


def astype(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The same values in another dtype.

    >>> plugrad.astype([1.7, -1.7, 0.0], "int32")
    tensor([ 1, -1,  0], dtype=int32)

    Floats lose their fraction on the way to integers, and anything but 0 is True.

    Raises:
        DTypeError: plugrad has no such dtype.
        UnsupportedDtype: the tensor's backend has no such dtype.
    """
    return cast(as_tensor(x, "astype"), as_dtype(dtype))
