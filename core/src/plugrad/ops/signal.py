"""Signals cut into frames, windows, and the short-time Fourier transform: the namespace `plugrad.signal`."""

from collections.abc import Callable
from math import pi

from plugrad.errors import ArgumentError, ShapeError
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import finite, flag, whole
from plugrad.ops.creation import arange, ones
from plugrad.ops.fft import rfft
from plugrad.ops.indexing import take
from plugrad.ops.movement import pad
from plugrad.ops.unary import cos
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import DTypeLike, Scalar


def hann_window(window_length: int, *, dtype: DTypeLike = "float32") -> Tensor:
    """The Hann window, ``0.5 - 0.5 * cos(2 pi i / n)``; periodic, as spectra want it.

    >>> plugrad.signal.hann_window(4)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)

    One element is 1. An odd length is symmetric.

    Raises:
        ArgumentValueError: the length is negative.
    """
    return _window("hann_window", window_length, 0.5, 0.5, dtype)


def hamming_window(window_length: int, *, dtype: DTypeLike = "float32") -> Tensor:
    """The Hamming window, ``0.54 - 0.46 * cos(2 pi i / n)``; see `hann_window`.

    >>> plugrad.signal.hamming_window(4, dtype="float64")
    tensor([0.08, 0.54, 1.  , 0.54], dtype=float64)
    """
    return _window("hamming_window", window_length, 0.54, 0.46, dtype)


def cosine_window(
    window_length: int, a: float, b: float, *, dtype: DTypeLike = "float32"
) -> Tensor:
    """The window ``a - b * cos(2 pi i / n)``, where n is the length, or one less if that is odd.

    >>> plugrad.signal.cosine_window(4, 0.5, 0.5)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)

    One element is 1: a window of one sample changes nothing.

    Raises:
        ArgumentValueError: the length is negative.
    """
    return _window("cosine_window", window_length, a, b, dtype)


def _window(op: str, window_length: int, a: float, b: float, dtype: DTypeLike) -> Tensor:
    length = whole(window_length, op, "window_length", least=0)
    a, b = finite(a, op, "a"), finite(b, op, "b")
    if length == 1:
        return ones(1, dtype=dtype)
    period = length - length % 2
    return a - b * cos(arange(length, dtype=dtype) * (2 * pi / max(period, 1)))


def frame(
    signal: TensorLike,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Scalar = 0,
) -> Tensor:
    """The frames of a signal: `frame_length` samples every `frame_step`, of shape (..., frames, frame_length).

    >>> plugrad.signal.frame([1.0, 2.0, 3.0, 4.0, 5.0], 3, 2)
    tensor([[1., 2., 3.],
            [3., 4., 5.]], dtype=float32)

    The last axis is cut. With `pad_end` a frame begins at every step, and the tail is filled with
    `pad_value`; else frames that reach beyond the signal are left out.

    Raises:
        ArgumentValueError: the length or the step is not positive.
        ShapeError: the signal is 0-d.
    """
    return _framed("frame", signal, frame_length, frame_step, pad_end, pad_value)


def _framed(
    op: str,
    signal: TensorLike,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Scalar = 0,
) -> Tensor:
    x = as_tensor(signal, op, "signal")
    frame_length = whole(frame_length, op, "frame_length", least=1)
    frame_step = whole(frame_step, op, "frame_step", least=1)
    if x.ndim == 0:
        raise ShapeError(f"{op}: the signal is 0-d; it needs an axis of samples")
    size = x.shape[-1]
    if flag(pad_end, op, "pad_end"):
        count = -(-size // frame_step)
        missing = max(0, (count - 1) * frame_step + frame_length - size)
        x = pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)], pad_value)
    else:
        count = max(0, (size - frame_length) // frame_step + 1)
    starts = arange(count, dtype="int32", device=x.backend) * frame_step
    places = starts.reshape(count, 1) + arange(frame_length, dtype="int32", device=x.backend)
    return take(x, places, axis=-1)


def stft(
    signal: TensorLike,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Callable[[int], Tensor] | None = hann_window,
) -> Tensor:
    """The short-time Fourier transform: `rfft` of each windowed frame, of shape (..., frames, fft_length // 2 + 1).

    >>> plugrad.signal.stft([1.0, 1.0, 1.0, 1.0], 2, 1, window_fn=None)
    tensor([[2.+0.j, 0.+0.j],
            [2.+0.j, 0.+0.j],
            [2.+0.j, 0.+0.j]], dtype=complex64)

    `fft_length` is by default the smallest power of two that is not below `frame_length`.
    `window_fn` makes the window from its length; None leaves the frames as they are.

    Raises:
        ArgumentValueError: a length or the step is not positive.
        DTypeError: the signal is not floating.
    """
    frames = _framed("stft", signal, frame_length, frame_step)
    if window_fn is not None:
        if not callable(window_fn):
            raise ArgumentError(
                f"stft: window_fn={window_fn!r} must be a function of the length, such as hann_window"
            )
        window = as_tensor(window_fn(frame_length), "stft", "window_fn's window")
        frames = frames * window.astype(frames.dtype).to(frames.backend)
    if fft_length is None:
        fft_length = 1 << (frame_length - 1).bit_length()
    return rfft(frames, n=fft_length)
