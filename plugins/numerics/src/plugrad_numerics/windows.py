"""Convolutions and filters along an axis: names and conventions of SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import plugrad
from plugrad.extend import ArgumentValueError, ShapeError, normalize_axis
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from plugrad import Tensor

    Mode = Literal["full", "same", "valid"]


def convolve(x: Any, kernel: Any, *, mode: Mode = "full", axis: int = -1) -> Tensor:
    """The sums of the products of x with a vector that is reversed and moved along an axis.

    >>> filters.convolve([1.0, 2.0, 3.0], [1.0, 1.0])
    tensor([1., 3., 5., 3.], dtype=float32)

    Args:
        x: numbers of any shape but 0-d.
        kernel: a vector.
        mode: "full" for every place where they overlap, "same" for as many as x has, in the middle, "valid" for those
            where the whole vector lies on x.
        axis: the axis along which it moves.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: the kernel is no vector with elements, x has none along the axis, or less than the kernel in
            mode "valid".
        ArgumentValueError: the mode is unknown.
        DTypeError: x or the kernel holds complex numbers or strings.
    """
    x, kernel = as_floats("convolve", x, kernel)
    axis = normalize_axis(axis, x.ndim, name="convolve: axis")
    if mode not in ("full", "same", "valid"):
        raise ArgumentValueError(f"convolve: mode={mode!r} must be 'full', 'same' or 'valid'")
    n, m = x.shape[axis], kernel.size
    if kernel.ndim != 1 or not m or not n or (mode == "valid" and m > n):
        raise ShapeError(
            f"convolve: the kernel of shape {kernel.shape} must be a vector that fits x of shape {x.shape} "
            f"on axis {axis}"
        )
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode]
    return _multiply_sliding_windows(x, plugrad.flip(kernel), before, after, axis)


def _multiply_sliding_windows(
    x: Tensor, weights: Tensor, before: int, after: int, axis: int
) -> Tensor:
    """Multiply windows by weights; zeros are put around x."""
    moved = plugrad.moveaxis(x, axis, -1)
    rows = plugrad.reshape(moved, (-1, moved.shape[-1], 1))
    rows = plugrad.pad(rows, ((0, 0), (before, after), (0, 0)))
    found = plugrad.conv1d(rows, plugrad.reshape(weights, (-1, 1, 1)))
    found = plugrad.reshape(found, (*moved.shape[:-1], found.shape[1]))
    return plugrad.moveaxis(found, -1, axis)


def lfilter(b: Any, a: Any, x: Any, *, axis: int = -1) -> Tensor:
    """Filter along an axis with a rational transfer function, whose numerator is b and whose denominator is a.

    >>> filters.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    tensor([1.  , 0.5 , 0.25], dtype=float32)

    The loop over x is a `plugrad.scan`. The first number of a divides all others.

    Args:
        b: a vector, the numerator.
        a: a vector, the denominator.
        x: numbers of any shape but 0-d.
        axis: the axis along which to filter.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: a or b is no vector with elements.
        DTypeError: an argument holds complex numbers or strings.
    """
    b, a, x = as_floats("lfilter", b, a, x)
    axis = normalize_axis(axis, x.ndim, name="lfilter: axis")
    if a.ndim != 1 or b.ndim != 1 or not a.size or not b.size:
        raise ShapeError(
            f"lfilter: b and a of shapes {b.shape} and {a.shape} must be vectors with elements"
        )
    order = max(a.size, b.size)
    b, a = (plugrad.pad(c / a[0], ((0, order - c.size),)) for c in (b, a))
    columns = plugrad.moveaxis(x, axis, 0)
    if order == 1 or not x.shape[axis]:
        return x * b[0]
    tail_shape = (order - 1,) + (1,) * (columns.ndim - 1)
    b_rest, a_rest = (plugrad.reshape(c[1:], tail_shape) for c in (b, a))

    def advance(state: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        result = b[0] * value + state[0]
        moved = plugrad.concat([state[1:], plugrad.zeros_like(state[:1])], axis=0)
        return moved + b_rest * value - a_rest * result, result

    state = plugrad.zeros((order - 1, *columns.shape[1:]), dtype=x.dtype, device=x.device)
    _, found = plugrad.scan(advance, state, columns)
    return plugrad.moveaxis(found, 0, axis)


def sosfilt(sos: Any, x: Any, *, axis: int = -1) -> Tensor:
    """Filter along an axis with second-order sections, one after the other.

    >>> filters.sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0])
    tensor([1. , 0.5], dtype=float32)

    Args:
        sos: a matrix (sections, 6) of three numbers of the numerator and three of the denominator.
        x: numbers of any shape but 0-d.
        axis: the axis along which to filter.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: the sections are no such matrix.
        DTypeError: an argument holds complex numbers or strings.
    """
    sos, x = as_floats("sosfilt", sos, x)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ShapeError(f"sosfilt: sos of shape {sos.shape} must be (sections, 6)")
    for section in plugrad.unstack(sos):
        x = lfilter(section[:3], section[3:], x, axis=axis)
    return x


def gaussian_filter1d(x: Any, sigma: float, *, axis: int = -1, truncate: float = 4.0) -> Tensor:
    """Smooth along an axis with a bell curve; at the ends, x is continued by its reflection.

    >>> filters.gaussian_filter1d([0.0, 0.0, 1.0, 0.0, 0.0], 0.5)
    tensor([2.63865077e-04, 1.06450774e-01, 7.86570728e-01, 1.06450774e-01,
            2.63865077e-04], dtype=float32)

    Args:
        x: numbers of any shape but 0-d.
        sigma: the standard deviation, above 0.
        axis: the axis along which to smooth.
        truncate: at how many standard deviations the curve ends.

    Raises:
        AxisError: the axis is out of range.
        ArgumentValueError: sigma is not above 0.
        ShapeError: x is shorter than half of the curve.
        DTypeError: x holds complex numbers or strings.
    """
    if not sigma > 0:
        raise ArgumentValueError(f"gaussian_filter1d: sigma={sigma} must be above 0")
    radius = int(truncate * sigma + 0.5)
    curve = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return _smooth_symmetrically("gaussian_filter1d", x, curve / curve.sum(), axis)


def savgol_filter(x: Any, window_length: int, polyorder: int, *, axis: int = -1) -> Tensor:
    """Smooth along an axis by the value of a polynomial in the middle of each window; the ends are reflected.

    >>> filters.savgol_filter([0.0, 1.0, 2.0, 3.0, 4.0], 3, 1)
    tensor([0.33333334, 1.        , 2.        , 3.        , 3.666667  ], dtype=float32)

    The polynomial is that of least squares (Savitzky and Golay, 1964). It is SciPy's mode "mirror" but with the last
    element repeated.

    Args:
        x: numbers of any shape but 0-d.
        window_length: the odd number of elements of a window.
        polyorder: the degree of the polynomial, less than that.
        axis: the axis along which to smooth.

    Raises:
        AxisError: the axis is out of range.
        ArgumentValueError: the window is not odd, or the degree is not less.
        ShapeError: x is shorter than half of the window.
        DTypeError: x holds complex numbers or strings.
    """
    if window_length % 2 != 1 or not 0 <= polyorder < window_length:
        raise ArgumentValueError(
            f"savgol_filter: window_length={window_length} must be odd, and polyorder={polyorder} from 0 up to less"
        )
    half = window_length // 2
    places = np.arange(-half, half + 1.0)
    powers = places[:, None] ** np.arange(polyorder + 1)
    return _smooth_symmetrically("savgol_filter", x, np.linalg.pinv(powers)[0], axis)


def _smooth_symmetrically(op: str, x: Any, weights: np.ndarray[Any, Any], axis: int) -> Tensor:
    """Multiply windows by weights that are symmetric, with x reflected at the ends."""
    (x,) = as_floats(op, x)
    axis = normalize_axis(axis, x.ndim, name=f"{op}: axis")
    radius = len(weights) // 2
    n = x.shape[axis]
    if n < radius:
        raise ShapeError(
            f"{op}: x of shape {x.shape} needs {radius} elements or more on axis {axis}"
        )
    positions = np.concatenate(
        [np.arange(radius)[::-1], np.arange(n), np.arange(n - radius, n)[::-1]]
    )
    wide = plugrad.take(x, positions.astype("int32"), axis=axis)
    curve = plugrad.asarray(weights, dtype=x.dtype, device=x.device)
    return _multiply_sliding_windows(wide, curve, 0, 0, axis)
