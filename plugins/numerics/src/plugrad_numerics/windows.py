"""Convolutions and filters along an axis: names and conventions of SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

import plugrad
from plugrad.extend import ArgumentValueError, ShapeError, explain_wrong_calls, normalize_axis
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from plugrad import Tensor

    Mode = Literal["full", "same", "valid"]
    """Which part of a convolution is returned, as in SciPy."""


@explain_wrong_calls
def convolve(x: Any, kernel: Any, *, mode: Mode = "full", axis: int = -1) -> Tensor:
    """The convolution of x with a one-dimensional kernel along an axis.

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
    x: Tensor, weights: Tensor, padding_before: int, padding_after: int, axis: int
) -> Tensor:
    """Return the dot products of weights and all windows along an axis of x, which is padded with zeros."""
    moved = plugrad.moveaxis(x, axis, -1)
    rows = plugrad.reshape(moved, (-1, moved.shape[-1], 1))
    rows = plugrad.pad(rows, ((0, 0), (padding_before, padding_after), (0, 0)))
    found = plugrad.conv1d(rows, plugrad.reshape(weights, (-1, 1, 1)))
    found = plugrad.reshape(found, (*moved.shape[:-1], found.shape[1]))
    return plugrad.moveaxis(found, -1, axis)


@explain_wrong_calls
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

    def filter_sample(state: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        result = b[0] * value + state[0]
        moved = plugrad.concat([state[1:], plugrad.zeros_like(state[:1])], axis=0)
        return moved + b_rest * value - a_rest * result, result

    state = plugrad.zeros((order - 1, *columns.shape[1:]), dtype=x.dtype, device=x.device)
    _, found = plugrad.scan(filter_sample, state, columns)
    return plugrad.moveaxis(found, 0, axis)


@explain_wrong_calls
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


@explain_wrong_calls
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
        ShapeError: x has no elements along the axis.
        DTypeError: x holds complex numbers or strings.
    """
    if not sigma > 0:
        raise ArgumentValueError(f"gaussian_filter1d: sigma={sigma} must be above 0")
    radius = int(truncate * sigma + 0.5)
    curve = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return _smooth_symmetrically("gaussian_filter1d", x, curve / curve.sum(), axis)


SAVGOL_MODES: Final = {
    "interp": "",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "constant": "constant",
}
"""SciPy's modes of `savgol_filter`, and what NumPy's ``pad`` calls them."""


@explain_wrong_calls
def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    *,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Smooth along an axis by the value of a polynomial in the middle of each window.

    >>> filters.savgol_filter([0.0, 3.0, 6.0, 3.0], 3, 0)
    tensor([3., 3., 4., 4.], dtype=float32)

    The polynomial is that of least squares (Savitzky and Golay, 1964). At the ends, where half of the window is
    missing, mode "interp" takes the polynomial of the first or last whole window. The others continue x: "mirror" by
    its reflection at the last element, "nearest" by the last element, "wrap" by x itself, and "constant" by `cval`.

    Args:
        x: numbers of any shape but 0-d.
        window_length: the odd number of elements of a window.
        polyorder: the degree of the polynomial, less than that.
        axis: the axis along which to smooth.
        mode: "interp", "mirror", "nearest", "wrap" or "constant".
        cval: the number of mode "constant".

    Raises:
        AxisError: the axis is out of range.
        ArgumentValueError: the window is not odd, the degree is not less, or the mode is none of these.
        ShapeError: x has no elements along the axis, or in mode "interp" fewer than the window.
        DTypeError: x holds complex numbers or strings.
    """
    op = "savgol_filter"
    if window_length % 2 != 1 or not 0 <= polyorder < window_length:
        raise ArgumentValueError(
            f"{op}: window_length={window_length} must be odd, and polyorder={polyorder} from 0 up to less"
        )
    if mode not in SAVGOL_MODES:
        raise ArgumentValueError(f"{op}: mode={mode!r} must be one of {', '.join(SAVGOL_MODES)}")
    half = window_length // 2
    places = np.arange(-half, half + 1.0)
    powers = places[:, None] ** np.arange(polyorder + 1)
    fits = powers @ np.linalg.pinv(powers)  # the values of the polynomial from those of the window
    if mode != "interp":
        return _smooth_symmetrically(op, x, fits[half], axis, SAVGOL_MODES[mode], cval)
    (x,) = as_floats(op, x)
    axis = normalize_axis(axis, x.ndim, name=f"{op}: axis")
    n = x.shape[axis]
    if n < window_length:
        raise ShapeError(
            f"{op}: x of shape {x.shape} has less than window_length={window_length} elements on axis {axis}; "
            "give another mode"
        )
    curve, first, last = (
        plugrad.asarray(each, dtype=x.dtype, device=x.device)
        for each in (fits[half], fits[:half].T, fits[half + 1 :].T)
    )
    columns = plugrad.moveaxis(x, axis, -1)
    parts = [
        columns[..., :window_length] @ first,
        _multiply_sliding_windows(columns, curve, 0, 0, -1),
        columns[..., n - window_length :] @ last,
    ]
    return plugrad.moveaxis(plugrad.concat(parts, axis=-1), -1, axis)


def _smooth_symmetrically(
    op: str,
    x: Any,
    weights: np.ndarray[Any, Any],
    axis: int,
    pad_mode: str = "symmetric",
    cval: float = 0.0,
) -> Tensor:
    """Return the dot products of weights and all windows along an axis of x, padded in a mode of NumPy's ``pad``."""
    (x,) = as_floats(op, x)
    axis = normalize_axis(axis, x.ndim, name=f"{op}: axis")
    n, radius = x.shape[axis], len(weights) // 2
    if not n:
        raise ShapeError(f"{op}: x of shape {x.shape} has no elements on axis {axis}")
    curve = plugrad.asarray(weights, dtype=x.dtype, device=x.device)
    if pad_mode == "constant":
        ends = [(radius, radius) if i == axis else (0, 0) for i in range(x.ndim)]
        return _multiply_sliding_windows(
            plugrad.pad(x, ends, constant_value=float(cval)), curve, 0, 0, axis
        )
    positions = np.pad(np.arange(n, dtype=np.int32), radius, mode=pad_mode)  # type: ignore[call-overload]
    return _multiply_sliding_windows(plugrad.take(x, positions, axis=axis), curve, 0, 0, axis)
