"""Bessel functions of any real order. Each order has tables of its own, which are made at its first use."""

from __future__ import annotations

from functools import partial
from math import cos, inf, nan, pi, sin
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import plugrad
from plugrad.extend import ArgumentError
from plugrad_numerics import double_double as dd, order_tables
from plugrad_numerics.tables import call_elementwise, evaluate_pieces, evaluate_polynomial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad import Tensor
    from plugrad_numerics.order_tables import SecondSolutionBelow1

    Orders: TypeAlias = Sequence[float] | NDArray[Any]
    """One order, or several of them."""
    Function: TypeAlias = Callable[..., Tensor]
    """A Bessel function of an order, a Python number, and x."""

MAX_BESSEL_ORDER: Final = 64
"""The largest absolute order. Its tables take seconds, and tables of orders up to 16 tenths of a second."""


def jv(v: float | Orders, x: Any) -> Tensor:
    """The Bessel function of the first kind of real orders; NaN below 0 unless the order is whole.

    >>> special.jv(2, [0.0, 1.0])
    tensor([0.        , 0.11490349], dtype=float32)
    >>> special.jv([0, 2.5], 1.0)
    tensor([0.7651977 , 0.04949681], dtype=float32)

    Args:
        v: the order, from -64 to 64, or a list or NumPy array of orders, which broadcasts with x. No tensor.
            The first use of an order computes its tables.
        x: real numbers of any shape.

    Raises:
        ArgumentError: v is neither of these.
        ShapeError: v and x do not broadcast.
        DTypeError: x holds complex numbers or strings.
    """
    return _apply_per_order("jv", _jv, v, x)


def yv(v: float | Orders, x: Any) -> Tensor:
    """The Bessel function of the second kind of real orders; infinite at 0, NaN below it. Arguments as for `jv`.

    >>> special.yv(2, [1.0])
    tensor([-1.6506826], dtype=float32)
    """
    return _apply_per_order("yv", _yv, v, x)


def iv(v: float | Orders, x: Any) -> Tensor:
    """The modified Bessel function of the first kind; NaN below 0 unless the order is whole. Arguments as for `jv`.

    >>> special.iv(2, [0.0, 1.0])
    tensor([0.        , 0.13574767], dtype=float32)
    """
    return _apply_per_order(
        "iv",
        lambda v, x: _multiply_by_exp(_ive(v, x), _abs_with_unit_slope(x)),
        v,
        x,
        refine=_refine_iv,
    )


def ive(v: float | Orders, x: Any) -> Tensor:
    """The modified Bessel function of the first kind times ``exp(-abs(x))``. Arguments as for `jv`.

    >>> special.ive(2, [1.0, 1000.0])
    tensor([0.04993878, 0.01259202], dtype=float32)
    """
    return _apply_per_order(
        "ive",
        lambda v, x: plugrad.where(_abs_with_unit_slope(x) == inf, 0, _ive(v, x)),
        v,
        x,
        refine=partial(_refine_iv, is_scaled=True),
    )


def kv(v: float | Orders, x: Any) -> Tensor:
    """The modified Bessel function of the second kind; inf at 0, NaN below it. Arguments as for `jv`.

    >>> special.kv(2, [1.0])
    tensor([1.624839], dtype=float32)
    """
    return _apply_per_order("kv", lambda v, x: _bessel_k(abs(v), x), v, x)


def kve(v: float | Orders, x: Any) -> Tensor:
    """The modified Bessel function of the second kind times ``exp(x)``; inf at 0, NaN below it. Arguments as for `jv`.

    >>> special.kve(2, [1.0, 1000.0])
    tensor([4.41677   , 0.03970762], dtype=float32)
    """
    return _apply_per_order("kve", lambda v, x: _bessel_k(abs(v), x, is_scaled=True), v, x)


def _apply_per_order(
    op: str,
    function: Function,
    v: float | Orders,
    x: Any,
    *,
    refine: Function | None = None,
) -> Tensor:
    """Evaluate a Bessel function of one or several orders; `refine` is for negative orders that are not whole."""
    if isinstance(v, plugrad.Tensor):
        raise ArgumentError(f"{op}: v={v!r:.80} is a tensor; pass numbers or a NumPy array")
    try:
        orders = np.asarray(v)
    except ValueError:  # a ragged list
        orders = np.asarray(None)
    if orders.dtype.kind not in "iuf" or not (np.abs(orders) <= MAX_BESSEL_ORDER).all():
        raise ArgumentError(
            f"{op}: v={v!r:.80} must be a number from -{MAX_BESSEL_ORDER} to {MAX_BESSEL_ORDER}, "
            "or an array of such numbers"
        )
    if not ((orders < 0) & (orders != np.floor(orders))).any():
        refine = None
    return call_elementwise(
        op,
        _with_array_of_orders(function, orders),
        x,
        refine=refine and _with_array_of_orders(refine, orders),
    )


def _with_array_of_orders(function: Function, orders: NDArray[Any]) -> Callable[[Tensor], Tensor]:
    """Return a function of x that evaluates a Bessel function of all orders, which broadcast with x."""
    if not orders.ndim:
        return partial(function, float(orders))

    def evaluate_all_orders(x: Tensor) -> Tensor:
        x = plugrad.broadcast_to(x, plugrad.broadcast_shapes(orders.shape, x.shape))
        found = plugrad.zeros_like(x)
        for order in np.unique(orders):
            is_it = plugrad.asarray(orders == order, device=x.device)
            # Elsewhere x is 1, where no function or derivative is infinite.
            found = plugrad.where(is_it, function(float(order), plugrad.where(is_it, x, 1)), found)
        return found

    return evaluate_all_orders


def _jv(v: float, x: Tensor) -> Tensor:
    if v == int(v):
        found = _bessel_j(abs(v), _abs_with_unit_slope(x))
        return _apply_symmetry_signs(found, v, x, negates_order=True)
    found = _bessel_j(abs(v), _abs_with_unit_slope(x))
    if v < 0:  # DLMF 10.4.7
        found = _combine_by_connection_formula(v, found, _bessel_y(-v, _abs_with_unit_slope(x)))
    return plugrad.where(x < 0, nan, found)


def _yv(v: float, x: Tensor) -> Tensor:
    if v >= 0:
        return _bessel_y(v, x)
    if v == int(v):
        return _bessel_y(-v, x) * (-1) ** int(v)
    found = _combine_by_connection_formula(
        v, _bessel_y(-v, x), -_bessel_j(-v, _abs_with_unit_slope(x))
    )
    return plugrad.where(x < 0, nan, found)


def _combine_by_connection_formula(v: float, cosine_factor: Tensor, sine_factor: Tensor) -> Tensor:
    """Return ``cos(pi v) cosine_factor + sin(pi v) sine_factor``; the first factor may be infinite if cos is 0."""
    cosine, sine = _cos_and_sin_pi(v)
    return cosine_factor * cosine + sine_factor * sine if cosine else sine_factor * sine


def _ive(v: float, x: Tensor) -> Tensor:
    size = _abs_with_unit_slope(x)
    found = _scaled_bessel_i(abs(v), size)
    if v == int(v):
        return _apply_symmetry_signs(found, v, x, negates_order=False)
    if v < 0:  # DLMF 10.27.2
        other = _bessel_k(-v, size) * plugrad.exp(-size)
        found = found - 2 / pi * _cos_and_sin_pi(v)[1] * plugrad.where(size == inf, 0, other)
    return plugrad.where(x < 0, nan, found)


def _refine_iv(v: float, x: Tensor, *, is_scaled: bool = False) -> Tensor:
    """Return I_v(x) of negative v near its root, where the terms of the connection formula cancel; NaN elsewhere."""
    if v >= 0 or v == int(v):
        return x * nan
    limit = 4 - v  # a root is near -0.66 * v
    x = plugrad.where((x > 0) & (x < limit), x, nan)
    square = dd.two_product(x / 2, x / 2)
    *terms, found = order_tables.modified_series_coefficients(v, limit)
    for c in terms[::-1]:
        found = dd.add(dd.multiply(found, square), c)
    exponent = dd.multiply_number(dd.log(dd.from_number(x / 2)), v)
    exponent = dd.add_number(exponent, -x) if is_scaled else exponent
    return dd.exp_times(exponent, found).value


def _abs_with_unit_slope(x: Tensor) -> Tensor:
    """Return the absolute value, whose derivative at 0 is 1."""
    return plugrad.where(x < 0, -x, x)


def _apply_symmetry_signs(value: Tensor, v: float, x: Tensor, *, negates_order: bool) -> Tensor:
    """Return a Bessel function of whole order v at x, given its `value` at abs(v) and abs(x)."""
    if int(v) % 2 == 0:
        return value
    sign = -1.0 if negates_order and v < 0 else 1.0
    return plugrad.where(x < 0, -sign, sign) * value


def _multiply_by_exp(scaled: Tensor, exponent: Tensor) -> Tensor:
    """Return ``scaled * exp(exponent)``, where the exponential may overflow and the product does not."""
    half = plugrad.exp(exponent / 2)
    return half * (scaled * half)


def _cos_and_sin_pi(v: float) -> tuple[float, float]:
    """Return cos(pi v) and sin(pi v), exact at whole and half v."""
    n = round(v)
    part, sign = v - n, (-1) ** n
    return (0.0 if abs(part) == 0.5 else sign * cos(pi * part)), sign * sin(pi * part)


def _bessel_j(v: float, x: Tensor) -> Tensor:
    """Return J_v(x) for v >= 0 and x >= 0."""
    return _with_asymptotic_tail(
        v, x, is_first_kind=True, middle=_first_kind_from_tables(v, x, is_modified=False)
    )


def _first_kind_from_tables(v: float, x: Tensor, *, is_modified: bool) -> Tensor:
    """Return J_v(x), or if `is_modified` the scaled I_v(x), from the tables of its order."""
    large = order_tables.smallest_asymptotic_argument(v)
    small = plugrad.where(x < large, x, 0 if v == int(v) else 1)
    found = evaluate_pieces(*order_tables.first_kind_pieces(v, is_modified=is_modified), small)
    return _multiply_by_power(found, small / large, v)


def _multiply_by_power(factor: Tensor, x: Tensor, v: float) -> Tensor:
    """Return ``factor * x**v`` without overflow or underflow of the power alone."""
    if v == 0:
        return factor
    if abs(v) <= 8:
        return factor * x ** (int(v) if v == int(v) else v)
    root = x ** (v / 2)
    return root * (factor * root)


def _bessel_y(v: float, x: Tensor) -> Tensor:
    """Return Y_v(x) for v >= 0; -inf at 0, NaN below it."""
    low = _second_kind_from_tables(v, x, is_modified=False)
    found = _with_asymptotic_tail(v, plugrad.abs(x), is_first_kind=False, middle=low)
    return plugrad.where(x < 0, nan, plugrad.where(x == 0, -inf, found))


def _with_asymptotic_tail(v: float, x: Tensor, *, is_first_kind: bool, middle: Tensor) -> Tensor:
    """Return J_v(x) or Y_v(x): `middle` below a threshold, and the asymptotic form above it (DLMF 10.17)."""
    large = order_tables.smallest_asymptotic_argument(v)
    far = plugrad.where((x >= large) & (x < inf), x, large)
    p, q = (
        evaluate_pieces(*t, large / far)
        for t in order_tables.asymptotic_factors(v, is_modified=False)
    )
    c, s = _cos_and_sin_pi((v / 2 + 0.25) % 2)
    sine, cosine = plugrad.sin(far), plugrad.cos(far)
    sine, cosine = sine * c - cosine * s, cosine * c + sine * s
    high = (p * cosine - q * sine if is_first_kind else p * sine + q * cosine) / plugrad.sqrt(far)
    return plugrad.where(x < large, middle, plugrad.where(x == inf, 0, high))


def _scaled_bessel_i(v: float, x: Tensor) -> Tensor:
    """Return exp(-x) I_v(x) for v >= 0 and x >= 0."""
    large = order_tables.smallest_asymptotic_argument(v)
    far = plugrad.where((x >= large) & (x < inf), x, large)
    table = order_tables.asymptotic_factors(v, is_modified=True)[0]
    high = evaluate_pieces(*table, large / far) / plugrad.sqrt(far)
    found = plugrad.where(x < large, _first_kind_from_tables(v, x, is_modified=True), high)
    return plugrad.where(x == inf, 1, found)  # not 0, because exp(x) is infinite


def _bessel_k(v: float, x: Tensor, *, is_scaled: bool = False) -> Tensor:
    """Return K_v(x) for v >= 0, times exp(x) if `is_scaled`; inf at 0, NaN below it."""
    large = order_tables.smallest_asymptotic_argument(v)
    far = plugrad.where((x >= large) & (x < inf), x, large)
    table = order_tables.asymptotic_factors(v, is_modified=True)[1]
    high = evaluate_pieces(*table, large / far) / plugrad.sqrt(far)
    if not is_scaled:
        high = high * plugrad.exp(-far)
    low = _second_kind_from_tables(v, x, is_modified=True, is_scaled=is_scaled)
    found = plugrad.where(x < large, low, high)
    found = plugrad.where(x == inf, 0, plugrad.where(x == 0, inf, found))
    return plugrad.where(x < 0, nan, found)


def _second_kind_from_tables(
    v: float, x: Tensor, *, is_modified: bool, is_scaled: bool = False
) -> Tensor:
    """Return Y_v(x), or if `is_modified` K_v(x), below `smallest_asymptotic_argument`; times exp(x) if `is_scaled`."""
    large = order_tables.smallest_asymptotic_argument(v)
    low, table = order_tables.second_kind_tables(v, is_modified=is_modified)
    x = plugrad.where((x > 0) & (x < large), x, 1)
    middle = evaluate_pieces(*table, plugrad.maximum(x, 1))
    middle = _multiply_by_power(middle, plugrad.maximum(x, 1) / large, -v)
    if is_modified and not is_scaled:
        middle = middle * plugrad.exp(-plugrad.maximum(x, 1))
    small = plugrad.where(x < 1, x, 0.5)
    near = _second_kind_below_1(low, v, large, small)
    return plugrad.where(x < 1, near * plugrad.exp(small) if is_scaled else near, middle)


def _second_kind_below_1(
    coefficients: SecondSolutionBelow1, v: float, scale: float, x: Tensor
) -> Tensor:
    """Return Y or K of order v for x below 1; negative powers are those of ``x / scale``."""
    half = x / 2
    square, logarithm = half * half, plugrad.log(half)
    angle = logarithm * coefficients.order_fraction
    odd = (
        logarithm * (coefficients.order_fraction / coefficients.sine_of_fraction)
        if abs(coefficients.order_fraction) < 1e-9
        else plugrad.sinh(angle) / coefficients.sine_of_fraction
    )
    found = (
        evaluate_polynomial(coefficients.cosh_coefficients, square) * plugrad.cosh(angle)
        + evaluate_polynomial(coefficients.sinh_coefficients, square) * odd
    )
    if coefficients.whole_order:
        head = _multiply_by_power(
            evaluate_polynomial(coefficients.principal_coefficients, square), x / scale, -v
        )
        found = head + _multiply_by_power(found, half, coefficients.whole_order)
    return found
