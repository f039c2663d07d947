"""Bessel functions of orders 0 and 1; names that end with ``e`` are scaled by an exponential."""

from __future__ import annotations

from math import inf, log, nan, pi
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_numerics.tables import call_elementwise, evaluate_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor

LOG_2 = log(2)
ASYMPTOTIC_MIN = 24.0
"""The smallest x at which J and Y are computed from an amplitude and a phase (DLMF 10.17)."""


def j0(x: Any) -> Tensor:
    """The Bessel function of the first kind of order 0.

    >>> special.j0([0.0, 1.0])
    tensor([1.       , 0.7651977], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("j0", lambda x: _bessel_first_kind(0, plugrad.abs(x)), x)


def j1(x: Any) -> Tensor:
    """The Bessel function of the first kind of order 1.

    >>> special.j1([0.0, 1.0])
    tensor([0.        , 0.44005057], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise(
        "j1", lambda x: plugrad.where(x < 0, -1.0, 1.0) * _bessel_first_kind(1, plugrad.abs(x)), x
    )


def y0(x: Any) -> Tensor:
    """The Bessel function of the second kind of order 0; -inf at 0, NaN below it.

    >>> special.y0([1.0])
    tensor([0.08825696], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("y0", lambda x: _bessel_second_kind(0, x), x)


def y1(x: Any) -> Tensor:
    """The Bessel function of the second kind of order 1; -inf at 0, NaN below it.

    >>> special.y1([1.0])
    tensor([-0.7812128], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("y1", lambda x: _bessel_second_kind(1, x), x)


def _bessel_first_kind(order: int, x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind of order 0 or 1."""
    small = _bessel_first_kind_below_asymptotic_min(order, plugrad.where(x < ASYMPTOTIC_MIN, x, 0))
    return plugrad.where(
        x < ASYMPTOTIC_MIN, small, _bessel_asymptotic_form(order, x, is_first_kind=True)
    )


def _bessel_first_kind_below_asymptotic_min(order: int, x: Tensor) -> Tensor:
    found = evaluate_table(f"j{order}", x)
    return found * x if order else found


def _bessel_second_kind(order: int, x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind of order 0 or 1."""
    inside = plugrad.where((x > 0) & (x < ASYMPTOTIC_MIN), x, 1)
    # Not the logarithm of a half, which is 0 for the smallest number.
    product = (plugrad.log(inside) - LOG_2) * _bessel_first_kind_below_asymptotic_min(order, inside)
    if order:
        product = product - 1 / inside
    low = evaluate_table(f"y{order}", inside) + 2 / pi * product
    found = plugrad.where(
        x < ASYMPTOTIC_MIN, low, _bessel_asymptotic_form(order, x, is_first_kind=False)
    )
    return plugrad.where(x < 0, nan, plugrad.where(x == 0, -inf, found))


def _bessel_asymptotic_form(order: int, x: Tensor, *, is_first_kind: bool) -> Tensor:
    """Return the Bessel function of the first or the second kind for large x."""
    is_infinite = x == inf
    x = plugrad.where(
        x >= ASYMPTOTIC_MIN, plugrad.where(is_infinite, ASYMPTOTIC_MIN, x), ASYMPTOTIC_MIN
    )
    y = ASYMPTOTIC_MIN / x
    p, q = evaluate_table(f"p{order}", y), evaluate_table(f"q{order}", y)
    sine, cosine = plugrad.sin(x), plugrad.cos(x)
    # Sine and cosine of x minus an odd number of eighths of a turn, without subtracting it from x.
    a, b = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -(sine + cosine))
    found = (p * a - q * b if is_first_kind else p * b + q * a) / plugrad.sqrt(pi * x)
    return plugrad.where(is_infinite, 0, found)


def i0e(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0, times ``exp(-abs(x))``.

    >>> special.i0e([0.0, 100.0])
    tensor([1.        , 0.03994438], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("i0e", _i0e, x)


def _i0e(x: Tensor) -> Tensor:
    x = plugrad.abs(x)
    return plugrad.where(x < 16, evaluate_table("i0e", x), _scaled_asymptotic_tail("i0e_tail", x))


def _scaled_asymptotic_tail(table_name: str, x: Tensor) -> Tensor:
    """Return a scaled modified Bessel function for x from 16 on, from a table of ``16 / x``."""
    large = plugrad.where(x >= 16, x, 16)
    return evaluate_table(table_name, 16 / large) / plugrad.sqrt(large)


def i1e(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1, times ``exp(-abs(x))``.

    >>> special.i1e([0.0, 100.0])
    tensor([0.        , 0.03974415], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("i1e", _i1e, x)


def _i1e(x: Tensor) -> Tensor:
    size = plugrad.abs(x)
    small = plugrad.where(size < 16, x, 0)
    tail = plugrad.where(x < 0, -1.0, 1.0) * _scaled_asymptotic_tail("i1e_tail", size)
    return plugrad.where(size < 16, small * evaluate_table("i1e", plugrad.abs(small)), tail)


def i0(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    >>> special.i0([0.0, 1.0])
    tensor([1.       , 1.2660658], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("i0", _i0, x)


@plugrad.custom_grad  # in the gradients of the product, exp(x) overflows where the product does not
def _i0(x: Tensor, save: Callable[..., None]) -> tuple[Tensor, Callable[..., Tensor]]:
    def gradient(dy: Tensor, saved: list[Tensor]) -> Tensor:
        return dy * _i1(saved[0])

    save(x)
    return _multiply_by_exp_abs(_i0e(x), x), gradient


def i1(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    >>> special.i1([0.0, 1.0])
    tensor([0.       , 0.5651591], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("i1", _i1, x)


@plugrad.custom_grad
def _i1(x: Tensor, save: Callable[..., None]) -> tuple[Tensor, Callable[..., Tensor]]:
    def gradient(dy: Tensor, saved: list[Tensor]) -> Tensor:
        return dy * _i1_derivative(saved[0])

    save(x)
    return _multiply_by_exp_abs(_i1e(x), x), gradient


def _i1_derivative(x: Tensor) -> Tensor:
    """Return the derivative of `i1`, which is ``i0(x) - i1(x) / x``."""
    size = plugrad.abs(x)
    low = evaluate_table("i1e", plugrad.where(size < 16, size, 0))
    high = _scaled_asymptotic_tail("i1e_tail", size) / plugrad.where(size < 16, 16, size)
    quotient = _multiply_by_exp_abs(plugrad.where(size < 16, low, high), x)
    found = _i0(x)
    return plugrad.where(found < inf, found - quotient, found)


def _multiply_by_exp_abs(scaled: Tensor, x: Tensor) -> Tensor:
    """Multiply by exp(abs(x)), which may overflow where the product does not."""
    half = plugrad.exp(plugrad.abs(x) / 2)
    return half * (scaled * half)


def k0e(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 0, times ``exp(x)``; inf at 0, NaN below it.

    >>> special.k0e([1.0])
    tensor([1.1444631], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("k0e", lambda x: _modified_second_kind(0, x, is_scaled=True), x)


def k1e(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 1, times ``exp(x)``; inf at 0, NaN below it.

    >>> special.k1e([1.0])
    tensor([1.6361535], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("k1e", lambda x: _modified_second_kind(1, x, is_scaled=True), x)


def k0(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 0; inf at 0, NaN below it.

    >>> special.k0([1.0])
    tensor([0.42102444], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("k0", lambda x: _modified_second_kind(0, x, is_scaled=False), x)


def k1(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 1; inf at 0, NaN below it.

    >>> special.k1([1.0])
    tensor([0.60190725], dtype=float32)

    Raises:
        DTypeError: x holds complex numbers or strings.
    """
    return call_elementwise("k1", lambda x: _modified_second_kind(1, x, is_scaled=False), x)


def _modified_second_kind(order: int, x: Tensor, *, is_scaled: bool) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0 or 1, times ``exp(x)`` if `is_scaled`."""
    small = plugrad.where((x > 0) & (x < 1), x, 0.5)
    growth = plugrad.exp(small)
    logarithm = plugrad.log(small) - LOG_2
    if order:
        low = (
            evaluate_table("k1", small)
            + 1 / small
            + logarithm * (small * evaluate_table("i1e", small) * growth)
        )
    else:
        low = evaluate_table("k0", small) - logarithm * (evaluate_table("i0e", small) * growth)
    large = plugrad.where(x >= 1, x, 1)
    finite = plugrad.where(large == inf, 1, large)
    high = evaluate_table(f"k{order}e_tail", 1 / finite) / plugrad.sqrt(finite)
    if is_scaled:
        low = low * growth
    else:
        high = high * plugrad.exp(-finite)
    high = plugrad.where(x == inf, 0, high)
    found = plugrad.where(x < 1, low, high)
    return plugrad.where(x < 0, nan, plugrad.where(x == 0, inf, found))
