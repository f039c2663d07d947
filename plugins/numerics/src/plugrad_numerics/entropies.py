"""Logarithms of sums and products that are exact where plain formulas are not, and the terms of entropies."""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import explain_wrong_calls
from plugrad_numerics import double_double
from plugrad_numerics.tables import call_elementwise, evaluate_polynomial

if TYPE_CHECKING:
    from plugrad import Tensor

ARTANH_COEFFICIENTS = tuple(1 / (2 * k + 3) for k in range(17))
"""The series of ``artanh(s) / s**3 - 1 / s**2`` in even powers of s, for s up to 1/3."""


def xlogy(x: Any, y: Any) -> Tensor:
    """``x * log(y)``, which is 0 where x is 0.

    >>> special.xlogy([0.0, 2.0], [0.0, 1.0])
    tensor([0., 0.], dtype=float32)

    Raises:
        DTypeError: x or y holds complex numbers or strings.
    """
    return call_elementwise("xlogy", _xlogy, x, y)


def _xlogy(x: Tensor, y: Tensor) -> Tensor:
    is_zero = (x == 0) & ~plugrad.isnan(y)
    return plugrad.where(is_zero, 0, x * plugrad.log(plugrad.where(is_zero, 1, y)))


def xlog1py(x: Any, y: Any) -> Tensor:
    """``x * log(1 + y)``, which is 0 where x is 0.

    >>> special.xlog1py([0.0, 2.0], [-1.0, 0.0])
    tensor([0., 0.], dtype=float32)

    Raises:
        DTypeError: x or y holds complex numbers or strings.
    """
    return call_elementwise("xlog1py", _xlog1py, x, y)


def _xlog1py(x: Tensor, y: Tensor) -> Tensor:
    is_zero = (x == 0) & ~plugrad.isnan(y)
    return plugrad.where(is_zero, 0, x * plugrad.log1p(plugrad.where(is_zero, 0, y)))


def entr(x: Any) -> Tensor:
    """``-x * log(x)``, the term of an entropy: 0 at 0, and -inf below it.

    >>> special.entr([0.0, 0.5])
    tensor([0.       , 0.3465736], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise(
        "entr", lambda x: plugrad.where(x < 0, -inf, 0 - _xlogy(x, plugrad.abs(x))), x
    )


def rel_entr(x: Any, y: Any) -> Tensor:
    """``x * log(x / y)``, the term of a relative entropy: 0 where x is 0 and y not negative, else inf outside.

    >>> special.rel_entr([0.0, 0.5], [0.5, 0.25])
    tensor([0.       , 0.3465736], dtype=float32)

    Raises:
        DTypeError: x or y holds complex numbers or strings.
    """
    return call_elementwise("rel_entr", _rel_entr, x, y)


def _rel_entr(x: Tensor, y: Tensor) -> Tensor:
    is_inside = (x > 0) & (y > 0)
    has_nan = plugrad.isnan(x) | plugrad.isnan(y)
    safe_x, safe_y = (plugrad.where(is_inside, z, 1) for z in (x, y))
    is_near = _has_exact_difference(safe_x, safe_y)
    near = plugrad.log1p(plugrad.where(is_near, safe_x - safe_y, 0) / safe_y)
    found = safe_x * plugrad.where(is_near, near, plugrad.log(safe_x / safe_y))
    outside = plugrad.where(has_nan, x + y, plugrad.where((x == 0) & (y >= 0), 0.0, inf))
    return plugrad.where(is_inside, found, outside)


def kl_div(x: Any, y: Any) -> Tensor:
    """``x * log(x / y) - x + y``, a term of a divergence that is never negative, exact also for neighbouring numbers.

    >>> special.kl_div([0.0, 0.5], [0.5, 0.5])
    tensor([0.5, 0. ], dtype=float32)

    Raises:
        DTypeError: x or y holds complex numbers or strings.
    """
    return call_elementwise("kl_div", _kl_div, x, y, refine=_refine_kl_div)


def _kl_div(x: Tensor, y: Tensor) -> Tensor:
    terms = _rel_entr(x, y)
    is_finite = plugrad.isfinite(terms)
    far = plugrad.where(is_finite, terms - plugrad.where(is_finite, x - y, 0), terms)
    # The quotient is (1 + s) / (1 - s), whose logarithm is 2 * artanh(s); the terms that cancel are left out.
    is_near = _has_exact_difference(x, y)
    safe_x, safe_y = (plugrad.where(is_near, z, 1) for z in (x, y))
    difference = safe_x - safe_y
    s = difference / (safe_x + safe_y)
    near = difference * s
    near = near + near * ((1 + s) * s * evaluate_polynomial(ARTANH_COEFFICIENTS, s * s))
    return plugrad.where(is_near, near, far)


def _refine_kl_div(x: Tensor, y: Tensor) -> Tensor:
    is_far = (x > 0) & (y > 0) & ~_has_exact_difference(x, y)
    safe_x, safe_y = (plugrad.where(is_far, z, plugrad.nan) for z in (x, y))
    pair = double_double.from_number(safe_x)
    quotient = double_double.divide(pair, double_double.from_number(safe_y))
    product = double_double.multiply_number(double_double.log(quotient), safe_x)
    return double_double.add(product, double_double.two_sum(safe_y, -safe_x)).value


def _has_exact_difference(x: Tensor, y: Tensor) -> Tensor:
    """Return where x and y are so close that ``x - y`` has no rounding error."""
    return (x > 0) & (x < 2 * y) & (y < 2 * x) & (x < 1e300)


def expit(x: Any) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``.

    >>> special.expit([0.0])
    tensor([0.5], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("expit", plugrad.sigmoid, x)


def log_expit(x: Any) -> Tensor:
    """The logarithm of `expit`.

    >>> special.log_expit([-1000.0])
    tensor([-1000.], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("log_expit", plugrad.log_sigmoid, x)


def logit(x: Any) -> Tensor:
    """``log(x / (1 - x))``, the inverse of `expit`; NaN outside of 0 to 1.

    >>> special.logit([0.5])
    tensor([0.], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """

    def compute(x: Tensor) -> Tensor:
        is_middle = (x > 0.25) & (x < 0.75)  # the quotient is near 1 there
        middle = plugrad.where(is_middle, x, 0.5)
        near = plugrad.log1p((2 * middle - 1) / (1 - middle))
        outside = plugrad.where(is_middle, 0.25, x)
        return plugrad.where(is_middle, near, plugrad.log(outside / (1 - outside)))

    return call_elementwise("logit", compute, x)


@explain_wrong_calls
def logcumsumexp(x: Any, *, axis: int = -1) -> Tensor:
    """The logarithms of the sums of the exponentials up to each element, along an axis, without overflow.

    >>> special.logcumsumexp([-1000.0, -1000.0, 0.0])
    tensor([-1000.    ,  -999.3068,     0.    ], dtype=float32)

    Each is the logarithm of a sum of sums of two, four, eight and so on, so the rounding errors grow with the
    logarithm of the number of elements. The shape is that of x.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds complex numbers or strings.
    """

    def compute(x: Tensor) -> Tensor:
        x = plugrad.moveaxis(x, axis, -1)
        step = 1
        while step < x.shape[-1]:
            sums = plugrad.logaddexp(x[..., step:], x[..., :-step])
            x = plugrad.concat([x[..., :step], sums], axis=-1)
            step *= 2
        return plugrad.moveaxis(x, -1, axis)

    return call_elementwise("logcumsumexp", compute, x)


def log1mexp(x: Any) -> Tensor:
    """``log(1 - exp(x))`` of x below 0, exact also where that is near 0 or 1; -inf at 0, NaN above it.

    >>> special.log1mexp([-1e-3])
    tensor([-6.908255], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """

    def compute(x: Tensor) -> Tensor:
        is_near = x > -log(2)
        near = plugrad.log(-plugrad.expm1(plugrad.where(is_near, x, -1)))
        return plugrad.where(
            is_near, near, plugrad.log1p(-plugrad.exp(plugrad.where(is_near, -1, x)))
        )

    return call_elementwise("log1mexp", compute, x)


def log1p_square(x: Tensor) -> Tensor:
    """Return ``log(1 + x**2)``, also where the square overflows."""
    is_large = plugrad.abs(x) > 1
    large = plugrad.where(is_large, plugrad.abs(x), 1)
    small = plugrad.where(is_large, 1 / large, x)
    return plugrad.log1p(small * small) + 2 * plugrad.log(large)
