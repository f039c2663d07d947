"""Fourier transforms: the array API's namespace `plugrad.fft`.

``norm`` says where the factor 1/n goes: to the inverse transform ("backward"), to the forward one
("forward"), or its root to both ("ortho").
"""

from collections.abc import Sequence
from math import sqrt
from typing import Literal

from plugrad.discovery.selection import DeviceLike
from plugrad.errors import ArgumentValueError, AxisError, DTypeError
from plugrad.kernels import signal
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import chosen, finite, listed, whole
from plugrad.ops.complex import as_complex, conj, real
from plugrad.ops.creation import arange
from plugrad.ops.movement import concat, flip, moveaxis, pad
from plugrad.ops.rearrangement import roll
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import DTypeLike
from plugrad.types.shapes import axes_of, axis_of

Norm = Literal["backward", "ortho", "forward"]
NORMS = ("backward", "ortho", "forward")
Axes = Sequence[int] | None


def fft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The discrete Fourier transform along an axis, cut or filled with zeros to `n` elements first.

    >>> plugrad.fft.fft([1.0, 0.0, 0.0, 0.0])
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

    Raises:
        DTypeError: the tensor is neither floating nor complex.
        ArgumentValueError: `n` is not positive, or the norm is unknown.
    """
    return _transformed(_complex(x, "fft"), n, axis, norm, "fft")


def ifft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fft` along an axis.

    >>> plugrad.fft.ifft([4.0 + 0j, 0.0, 0.0, 0.0])
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)

    Raises:
        DTypeError, ArgumentValueError: see `fft`.
    """
    return _transformed(_complex(x, "ifft"), n, axis, norm, "ifft", is_inverse=True)


def fftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: Norm = "backward",
) -> Tensor:
    """The Fourier transform along several axes, by default all, or the last ``len(s)``.

    >>> plugrad.fft.fftn([[1.0, 1.0], [1.0, 1.0]])
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    x = _complex(x, "fftn")
    for axis, n in _sizes(x, s, axes, "fftn"):
        x = _transformed(x, n, axis, norm, "fftn")
    return x


def ifftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `fftn`.

    >>> plugrad.fft.ifftn([[4.0 + 0j, 0.0], [0.0, 0.0]])
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    x = _complex(x, "ifftn")
    for axis, n in _sizes(x, s, axes, "ifftn"):
        x = _transformed(x, n, axis, norm, "ifftn", is_inverse=True)
    return x


def rfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The first half, ``n // 2 + 1`` elements, of the transform of real numbers: the rest mirrors it.

    >>> plugrad.fft.rfft([1.0, 2.0, 3.0, 4.0])
    tensor([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)

    Raises:
        DTypeError: the tensor is not floating.
    """
    x = _floating(x, "rfft")
    whole = _transformed(as_complex(x, "rfft"), n, axis, norm, "rfft")
    return _resized(whole, whole.shape[axis] // 2 + 1, axis_of(axis, x.ndim, name="rfft: axis"))


def irfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfft`: `n` real numbers, by default ``2 * (size - 1)``.

    >>> plugrad.fft.irfft([10.0 + 0j, -2 + 2j, -2.0])
    tensor([1., 2., 3., 4.], dtype=float32)
    """
    x = _complex(x, "irfft")
    axis = axis_of(axis, x.ndim, name="irfft: axis")
    n = 2 * (x.shape[axis] - 1) if n is None else n
    whole = _mirrored(x, _checked_length(n, x, axis, "irfft"), axis)
    return real(_transformed(whole, n, axis, norm, "irfft", is_inverse=True))


def rfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: Norm = "backward",
) -> Tensor:
    """The transform of real numbers along several axes; the last of them keeps its first half.

    >>> plugrad.fft.rfftn([[1.0, 1.0], [1.0, 1.0]])
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    x = _floating(x, "rfftn")
    *others, (last, n) = _sizes(x, s, axes, "rfftn")
    y = rfft(x, n=n, axis=last, norm=norm)
    for axis, m in others:
        y = _transformed(y, m, axis, norm, "rfftn")
    return y


def irfftn(
    x: TensorLike,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of `rfftn`; the last axis gets ``2 * (size - 1)`` real numbers unless `s` says otherwise.

    >>> plugrad.fft.irfftn([[4.0 + 0j, 0.0], [0.0, 0.0]])
    tensor([[1., 1.],
            [1., 1.]], dtype=float32)
    """
    x = _complex(x, "irfftn")
    *others, (last, n) = _sizes(x, s, axes, "irfftn")
    for axis, m in others:
        x = _transformed(x, m, axis, norm, "irfftn", is_inverse=True)
    return irfft(x, n=None if s is None else n, axis=last, norm=norm)


def hfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The real transform of a signal with Hermitian symmetry, of which x is the first half.

    >>> plugrad.fft.hfft([1.0 + 0j, 2.0, 3.0])
    tensor([ 8., -2.,  0., -2.], dtype=float32)
    """
    return irfft(conj(x), n=n, axis=axis, norm=_other_way(norm, "hfft"))


def ihfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `hfft`: the first half of a signal with Hermitian symmetry.

    >>> plugrad.fft.ihfft([1.0, 2.0, 3.0, 4.0])
    tensor([ 2.5-0.j , -0.5-0.5j, -0.5-0.j ], dtype=complex64)
    """
    return conj(rfft(x, n=n, axis=axis, norm=_other_way(norm, "ihfft")))


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

    Raises:
        ArgumentValueError: `n` is not positive.
    """
    n, period = _frequencies(n, d, "fftfreq")
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
    """The frequency of each element of `rfft`; see `fftfreq`.

    >>> plugrad.fft.rfftfreq(4, d=0.5)
    tensor([0. , 0.5, 1. ], dtype=float32)
    """
    n, period = _frequencies(n, d, "rfftfreq")
    wanted = "float32" if dtype is None else dtype
    return arange(0, n // 2 + 1, dtype=wanted, device=device) / period


def fftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The elements with frequency 0 moved to the middle of the axes, by default all.

    >>> plugrad.fft.fftshift([0.0, 1.0, -2.0, -1.0])
    tensor([-2., -1.,  0.,  1.], dtype=float32)
    """
    x = as_tensor(x, "fftshift")
    along = axes_of(axes, x.ndim, name="fftshift: axes")
    return roll(x, tuple(x.shape[a] // 2 for a in along), axis=along)


def ifftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> plugrad.fft.ifftshift([-2.0, -1.0, 0.0, 1.0])
    tensor([ 0.,  1., -2., -1.], dtype=float32)
    """
    x = as_tensor(x, "ifftshift")
    along = axes_of(axes, x.ndim, name="ifftshift: axes")
    return roll(x, tuple(-(x.shape[a] // 2) for a in along), axis=along)


# --- how they are made of the two kernels ----------------------------------------------------------


def _transformed(
    x: Tensor, n: int | None, axis: int, norm: str, op: str, *, is_inverse: bool = False
) -> Tensor:
    """Return the transform along one axis, brought to length `n`, with the factor of the norm."""
    axis = axis_of(axis, x.ndim, name=f"{op}: axis")
    n = _checked_length(x.shape[axis] if n is None else n, x, axis, op)
    x = moveaxis(_resized(x, n, axis), axis, -1)
    y = signal.ifft(x) if is_inverse else signal.fft(x)
    chosen(norm, NORMS, op, "norm")
    if norm != "backward":  # the kernels have the factor of "backward"
        factor = float(n) if norm == "forward" else sqrt(n)
        y = y * (factor if is_inverse else 1 / factor)
    return moveaxis(y, -1, axis)


def _resized(x: Tensor, n: int, axis: int) -> Tensor:
    """Return x with `n` elements along an axis: cut, or filled with zeros."""
    size = x.shape[axis]
    if n == size:
        return x
    if n < size:
        return x[(slice(None),) * axis + (slice(n),)]
    return pad(x, [(0, n - size if a == axis else 0) for a in range(x.ndim)])


def _mirrored(x: Tensor, n: int, axis: int) -> Tensor:
    """Return the whole spectrum of `n` real numbers from its first half."""
    half = _resized(x, n // 2 + 1, axis)
    before = (slice(None),) * axis
    # element n - k is the conjugate of element k; an even length has its middle only once
    mirror = flip(conj(half[(*before, slice(1, (n + 1) // 2))]), axis=axis)
    return concat([half, mirror], axis=axis)


def _sizes(x: Tensor, s: Sequence[int] | None, axes: Axes, op: str) -> list[tuple[int, int]]:
    """Return (axis, length) for each transformed axis."""
    given = None if s is None else [whole(n, op, "s") for n in listed(s, op, "s")]
    if axes is None:
        count = x.ndim if given is None else len(given)
        axes = range(x.ndim - count, x.ndim)
    along = [axis_of(a, x.ndim, name=f"{op}: axes") for a in listed(axes, op, "axes")]
    lengths = [x.shape[a] for a in along] if given is None else given
    if len(lengths) != len(along) or not along or len(set(along)) != len(along):
        raise AxisError(
            f"{op}: s={s} and axes={axes} must name different axes of shape {x.shape}, and one length for each"
        )
    return list(zip(along, lengths, strict=True))


def _complex(x: TensorLike, op: str) -> Tensor:
    return as_complex(as_tensor(x, op), op)


def _floating(x: TensorLike, op: str) -> Tensor:
    x = as_tensor(x, op)
    if x.dtype.kind != "floating":
        raise DTypeError(
            f"{op} takes floating tensors, not {x.dtype}; take plugrad.fft.{op.removeprefix('r')} of complex numbers, "
            "or cast it with astype('float32')"
        )
    return x


def _checked_length(n: int, x: Tensor, axis: int, op: str) -> int:
    n = whole(n, op, "n")
    if n < 1:
        raise ArgumentValueError(
            f"{op}: n={n} must be positive (axis {axis} of shape {x.shape} is transformed)"
        )
    return n


def _frequencies(n: int, d: float, op: str) -> tuple[int, float]:
    """Return the number of elements, and the distance between two frequencies."""
    count, spacing = whole(n, op, "n", least=1, most=2**53), finite(d, op, "d")
    if spacing == 0:
        raise ArgumentValueError(f"{op}: d=0 is no distance between samples; it must not be 0")
    return count, count * spacing


def _other_way(norm: str, op: str) -> Norm:
    """Return the norm of the opposite direction."""
    ways: dict[str, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
    return ways[chosen(norm, NORMS, op, "norm")]
