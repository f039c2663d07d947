"""Fourier transforms: the array API's namespace `plugrad.fft`.

`norm` says which transform has the factor 1/n: the inverse one ("backward"), the forward one
("forward"), or both with the square root of the factor ("ortho"). float64 gives complex128, and
complex128 gives float64; smaller dtypes give complex64 and float32. An argument that does not
convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Literal

from plugrad.errors import ArgumentValueError, AxisError, DTypeError, short_repr
from plugrad.kernels import signal
from plugrad.ops.arguments import as_tensor, cast
from plugrad.ops.attributes import as_list, check_choice, check_finite, check_integer
from plugrad.ops.complex import as_complex, conj
from plugrad.ops.creation import arange
from plugrad.ops.movement import concat, moveaxis, pad
from plugrad.ops.rearrangement import roll
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import HALVES, float32
from plugrad.types.shapes import normalize_axes, normalize_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike

Norm = Literal["backward", "ortho", "forward"]
"""The direction of a Fourier transform whose result is divided by the length; "ortho" divides both by its root."""
NORM_NAMES = ("backward", "ortho", "forward")
"""The values of `Norm`."""


@explain_wrong_calls
def fft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The discrete Fourier transform ``sum_j x_j exp(-2 pi i j k / n)`` along an axis, as complex numbers.

    >>> plugrad.fft.fft([1.0, 0.0, 0.0, 0.0])
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

    The result has the shape of x, with size `n` along the axis. float64 gives complex128, smaller
    floating dtypes give complex64.

    Args:
        x: the elements, floating or complex.
        n: the length to which the axis is truncated or padded with zeros first; by default its
            size.
        axis: the axis.
        norm: "backward" leaves the result as it is, "forward" divides it by n, and "ortho" divides
            it by the square root of n.

    Raises:
        DTypeError: x is neither floating nor complex.
        AxisError: the axis is out of range.
        ArgumentError: `n` is not an integer.
        ArgumentValueError: `n` is not positive, or `norm` is unknown.
    """
    return _transform_axis(_as_complex_tensor(x, "fft"), n, axis, norm, "fft")


@explain_wrong_calls
def ifft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft` along an axis, as complex numbers.

    >>> plugrad.fft.ifft([4.0 + 0j, 0.0, 0.0, 0.0])
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

    Shape, dtype and arguments are as for `fft`, except that "backward" divides the result by n, and
    "forward" leaves it as it is.

    Raises:
        DTypeError, AxisError, ArgumentError, ArgumentValueError: as for `fft`.
    """
    return _transform_axis(_as_complex_tensor(x, "ifft"), n, axis, norm, "ifft", is_inverse=True)


@explain_wrong_calls
def fftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes, as complex numbers.

    >>> plugrad.fft.fftn([[1.0, 1.0], [1.0, 1.0]])
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)

    The result has the shape of x, with the sizes `s` along the axes, and the dtype that `fft`
    gives.

    Args:
        x: the elements, floating or complex.
        s: a length for each axis, as `n` in `fft`; by default the sizes of the axes.
        axes: the axes; by default all, or the last ``len(s)``.
        norm: as for `fft`.

    Raises:
        DTypeError: x is neither floating nor complex.
        AxisError: an axis is out of range or named twice, or there is no axis, or not one length
            for each axis.
        ArgumentError: `s` or `axes` is not a list of integers.
        ArgumentValueError: a length is not positive, or `norm` is unknown.
    """
    x = _as_complex_tensor(x, "fftn")
    for axis, n in _axis_lengths(x, s, axes, "fftn"):
        x = _transform_axis(x, n, axis, norm, "fftn")
    return x


@explain_wrong_calls
def ifftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `fftn`, as complex numbers.

    >>> plugrad.fft.ifftn([[4.0 + 0j, 0.0], [0.0, 0.0]])
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], dtype=complex64)

    Shape, dtype and arguments are as for `fftn`, and `norm` as for `ifft`.

    Raises:
        DTypeError, AxisError, ArgumentError, ArgumentValueError: as for `fftn`.
    """
    x = _as_complex_tensor(x, "ifftn")
    for axis, n in _axis_lengths(x, s, axes, "ifftn"):
        x = _transform_axis(x, n, axis, norm, "ifftn", is_inverse=True)
    return x


@explain_wrong_calls
def rfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The first ``n // 2 + 1`` elements of the transform of real numbers; the others are their mirror image.

    >>> plugrad.fft.rfft([1.0, 2.0, 3.0, 4.0])
    tensor([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)

    Element n - k of the whole transform is the conjugate of element k. Dtype and arguments are as
    for `fft`.

    Raises:
        DTypeError: x is not floating.
        AxisError, ArgumentError, ArgumentValueError: as for `fft`.
    """
    return _transform_axis(_as_floating_tensor(x, "rfft"), n, axis, norm, "rfft")


@explain_wrong_calls
def irfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft` along an axis: `n` real numbers, by default ``2 * (size - 1)``.

    >>> plugrad.fft.irfft([10.0 + 0j, -2 + 2j, -2.0])
    tensor([1., 2., 3., 4.], dtype=float32)

    complex128 and float64 give float64, smaller dtypes give float32. The arguments are as for
    `ifft`, except that `n` is the length of the result.

    Raises:
        DTypeError, AxisError, ArgumentError, ArgumentValueError: as for `fft`.
    """
    x = _as_complex_tensor(x, "irfft")
    axis = normalize_axis(axis, x.ndim, name="irfft: axis")
    n = _transform_length(2 * (x.shape[axis] - 1) if n is None else n, x, axis, "irfft")
    half = _move_axis_to_end(_truncate_or_pad(x, n // 2 + 1, axis), axis)
    y = _apply_norm(signal.irfft(half, length=n), n, norm, "irfft", is_inverse=True)
    return _move_axis_back(y, axis)


@explain_wrong_calls
def rfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The transform of real numbers along several axes: `rfft` along the last one, then `fft` along the others.

    >>> plugrad.fft.rfftn([[1.0, 1.0], [1.0, 1.0]])
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)

    Dtype and arguments are as for `fftn`.

    Raises:
        DTypeError: x is not floating.
        AxisError, ArgumentError, ArgumentValueError: as for `fftn`.
    """
    x = _as_floating_tensor(x, "rfftn")
    *others, (last, n) = _axis_lengths(x, s, axes, "rfftn")
    y = rfft(x, n=n, axis=last, norm=norm)
    for axis, m in others:
        y = _transform_axis(y, m, axis, norm, "rfftn")
    return y


@explain_wrong_calls
def irfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `rfftn`, as real numbers.

    >>> plugrad.fft.irfftn([[4.0 + 0j, 0.0], [0.0, 0.0]])
    tensor([[1., 1.],
            [1., 1.]], dtype=float32)

    Arguments are as for `ifftn`, except that `s` has the lengths of the result. By default the last
    of the axes gets the length ``2 * (size - 1)``. The dtype is as for `irfft`.

    Raises:
        DTypeError, AxisError, ArgumentError, ArgumentValueError: as for `fftn`.
    """
    x = _as_complex_tensor(x, "irfftn")
    *others, (last, n) = _axis_lengths(x, s, axes, "irfftn")
    for axis, m in others:
        x = _transform_axis(x, m, axis, norm, "irfftn", is_inverse=True)
    return irfft(x, n=None if s is None else n, axis=last, norm=norm)


@explain_wrong_calls
def hfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The transform, of real numbers, of a signal with Hermitian symmetry whose first half is x.

    >>> plugrad.fft.hfft([1.0 + 0j, 2.0, 3.0])
    tensor([ 8., -2.,  0., -2.], dtype=float32)

    The arguments are as for `fft`, except that `n` is the length of the result: by default
    ``2 * (size - 1)``. The dtype is as for `irfft`.

    Raises:
        DTypeError, AxisError, ArgumentError, ArgumentValueError: as for `fft`.
    """
    return irfft(conj(x), n=n, axis=axis, norm=_opposite_norm(norm, "hfft"))


@explain_wrong_calls
def ihfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first half of a signal with Hermitian symmetry.

    >>> plugrad.fft.ihfft([1.0, 2.0, 3.0, 4.0])
    tensor([ 2.5-0.j , -0.5-0.5j, -0.5-0.j ], dtype=complex64)

    The result has ``n // 2 + 1`` elements along the axis. The arguments are as for `ifft`, and the
    dtype as for `fft`.

    Raises:
        DTypeError: x is not floating.
        AxisError, ArgumentError, ArgumentValueError: as for `fft`.
    """
    return conj(rfft(x, n=n, axis=axis, norm=_opposite_norm(norm, "ihfft")))


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """The frequency of each element of `fft`, in cycles per unit of the sample spacing `d`.

    >>> plugrad.fft.fftfreq(4, d=0.5)
    tensor([ 0. ,  0.5, -1. , -0.5], dtype=float32)

    Args:
        n: the length of the transform, and of the result.
        d: the distance between samples.
        dtype: the dtype of the result; by default, and if it is an integer dtype, float32.
        device: where the result lives; by default on the active backend.

    Raises:
        ArgumentError: `n` is not an integer, or `d` is not a number.
        ArgumentValueError: `n` is not between 1 and 2**53, or `d` is 0 or not finite.
        DTypeError: `dtype` is not a dtype, or is bool or string.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    n, period = _frequency_arguments(n, d, "fftfreq")
    wanted = "float32" if dtype is None else dtype
    positive = arange(0, (n + 1) // 2, dtype=wanted, device=device)
    negative = arange(-(n // 2), 0, dtype=wanted, device=device)
    return concat([positive, negative]) / period


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """The frequency of each of the ``n // 2 + 1`` elements of `rfft`, in cycles per unit of `d`.

    >>> plugrad.fft.rfftfreq(4, d=0.5)
    tensor([0. , 0.5, 1. ], dtype=float32)

    Arguments and dtype are as for `fftfreq`.

    Raises:
        ArgumentError, ArgumentValueError, DTypeError, UnsupportedDtype: as for `fftfreq`.
        BackendNotFound, BackendUnavailable: as for `fftfreq`.
    """
    n, period = _frequency_arguments(n, d, "rfftfreq")
    wanted = "float32" if dtype is None else dtype
    return arange(0, n // 2 + 1, dtype=wanted, device=device) / period


@explain_wrong_calls
def fftshift(x: TensorLike, /, *, axes: AxisLike = None) -> Tensor:
    """The elements of x, rolled so that frequency 0 is in the middle of the axes, by default all.

    >>> plugrad.fft.fftshift([0.0, 1.0, -2.0, -1.0])
    tensor([-2., -1.,  0.,  1.], dtype=float32)

    The result has the shape and dtype of x.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = as_tensor(x, "fftshift")
    along = normalize_axes(axes, x.ndim, name="fftshift: axes")
    return roll(x, tuple(x.shape[a] // 2 for a in along), axis=along)


@explain_wrong_calls
def ifftshift(x: TensorLike, /, *, axes: AxisLike = None) -> Tensor:
    """The inverse of `fftshift`, in the shape and dtype of x.

    >>> plugrad.fft.ifftshift([-2.0, -1.0, 0.0, 1.0])
    tensor([ 0.,  1., -2., -1.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = as_tensor(x, "ifftshift")
    along = normalize_axes(axes, x.ndim, name="ifftshift: axes")
    return roll(x, tuple(-(x.shape[a] // 2) for a in along), axis=along)


# --- composition of the kernels -------------------------------------------------------------------


def _transform_axis(
    x: Tensor, n: int | None, axis: int, norm: str, op: str, *, is_inverse: bool = False
) -> Tensor:
    """Return the transform along one axis, truncated or padded to length `n`, with the factor of the norm.

    For real numbers, it is the first half of the transform.

    Raises:
        AxisError: the axis is out of range.
        ArgumentError: `n` is not an integer.
        ArgumentValueError: `n` is not positive, or the norm is unknown.
    """
    axis = normalize_axis(axis, x.ndim, name=f"{op}: axis")
    n = _transform_length(x.shape[axis] if n is None else n, x, axis, op)
    x = _move_axis_to_end(_truncate_or_pad(x, n, axis), axis)
    is_real = x.dtype.kind == "floating"
    y = signal.ifft(x) if is_inverse else signal.rfft(x) if is_real else signal.fft(x)
    return _move_axis_back(_apply_norm(y, n, norm, op, is_inverse=is_inverse), axis)


def _move_axis_to_end(x: Tensor, axis: int) -> Tensor:
    """Move an axis to the end, unless it is there: moving takes as long as a short transform."""
    return x if axis == x.ndim - 1 else moveaxis(x, axis, -1)


def _move_axis_back(x: Tensor, axis: int) -> Tensor:
    """Return x with the last axis moved back."""
    return x if axis == x.ndim - 1 else moveaxis(x, -1, axis)


def _apply_norm(y: Tensor, n: int, norm: str, op: str, *, is_inverse: bool) -> Tensor:
    """Rescale a transform of length `n` from the kernels' normalization to the requested one.

    Raises:
        ArgumentValueError: the norm is unknown.
    """
    check_choice(norm, NORM_NAMES, op, "norm")
    if norm == "backward":
        return y
    factor = float(n) if norm == "forward" else sqrt(n)
    return y * (factor if is_inverse else 1 / factor)


def _truncate_or_pad(x: Tensor, n: int, axis: int) -> Tensor:
    """Return x with `n` elements along an axis, truncated or padded with zeros."""
    size = x.shape[axis]
    if n == size:
        return x
    if n < size:
        return x[(slice(None),) * axis + (slice(n),)]
    return pad(x, [(0, n - size if a == axis else 0) for a in range(x.ndim)])


def _axis_lengths(
    x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, op: str
) -> list[tuple[int, int]]:
    """Return (axis, length) for each transformed axis.

    Raises:
        AxisError: an axis is out of range or named twice, or there is not one length for each.
        ArgumentError: the lengths or the axes are not a list of integers.
    """
    given = None if s is None else [check_integer(n, op, "s") for n in as_list(s, op, "s")]
    if axes is None:
        count = x.ndim if given is None else len(given)
        axes = range(x.ndim - count, x.ndim)
    along = [normalize_axis(a, x.ndim, name=f"{op}: axes") for a in as_list(axes, op, "axes")]
    lengths = [x.shape[a] for a in along] if given is None else given
    if len(lengths) != len(along) or not along or len(set(along)) != len(along):
        raise AxisError(
            f"{op}: axes={short_repr(axes)} must name different axes of shape {x.shape}, and s={short_repr(s)} one "
            "length for each"
        )
    return list(zip(along, lengths, strict=True))


def _as_complex_tensor(x: TensorLike, op: str) -> Tensor:
    """Return x as a complex tensor; see `as_complex`."""
    return as_complex(as_tensor(x, op), op)


def _as_floating_tensor(x: TensorLike, op: str) -> Tensor:
    """Convert x to a floating tensor for the op of a name; halves become float32.

    Raises:
        DTypeError: it is not floating.
    """
    x = as_tensor(x, op)
    if x.dtype.kind != "floating":
        raise DTypeError(
            f"{op} takes floating tensors, not {x.dtype}; use plugrad.fft.{op.removeprefix('r')} for complex numbers, "
            "or cast it with astype('float32')"
        )
    return cast(x, float32) if x.dtype in HALVES else x


def _transform_length(n: int, x: Tensor, axis: int, op: str) -> int:
    """Return the length of a transform.

    Raises:
        ArgumentError: it is not an integer.
        ArgumentValueError: it is not positive.
    """
    n = check_integer(n, op, "n")
    if n < 1:
        raise ArgumentValueError(
            f"{op}: n={short_repr(n)} must be positive (axis {axis} of shape {x.shape} is transformed)"
        )
    return n


def _frequency_arguments(n: int, d: float, op: str) -> tuple[int, float]:
    """Return the number of elements, and the reciprocal of the distance between two frequencies.

    Raises:
        ArgumentError: `n` is not an integer, or `d` is not a number.
        ArgumentValueError: one of them is out of range.
    """
    count = check_integer(n, op, "n", least=1, most=2**53)
    spacing = check_finite(d, op, "d")
    if spacing == 0:
        raise ArgumentValueError(f"{op}: d=0 must not be 0; it is the distance between samples")
    return count, count * spacing


def _opposite_norm(norm: str, op: str) -> Norm:
    """Return the norm of the opposite direction.

    Raises:
        ArgumentValueError: the norm is unknown.
    """
    ways: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
    return ways[check_choice(norm, NORM_NAMES, op, "norm")]
