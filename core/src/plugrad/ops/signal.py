"""Functions of signals: windows, frames and the short-time Fourier transform. Their namespace is `plugrad.signal`."""

from __future__ import annotations

from math import gcd, pi
from typing import TYPE_CHECKING, Final

from plugrad.errors import ArgumentError, ShapeError, short_repr
from plugrad.kernels import movement
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import check_finite, check_flag, check_integer
from plugrad.ops.creation import arange, ones
from plugrad.ops.fft import rfft
from plugrad.ops.indexing import take
from plugrad.ops.movement import pad
from plugrad.ops.unary import cos

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike, Scalar


def hann_window(window_length: int, *, dtype: DTypeLike = "float32") -> Tensor:
    """The Hann window ``0.5 - 0.5 * cos(2 pi i / n)``, a vector of `window_length` elements (Harris, 1978).

    >>> plugrad.signal.hann_window(4)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)

    For an even length n is the length, which makes the window periodic, as spectral analysis needs
    it. For an odd length n is one less, which makes it symmetric. A window of length 1 is 1.

    Raises:
        ArgumentError: the length is not an integer.
        ArgumentValueError: the length is negative.
        DTypeError: the dtype is not numeric.
    """
    return _cosine_window("hann_window", window_length, 0.5, 0.5, dtype)


def hamming_window(window_length: int, *, dtype: DTypeLike = "float32") -> Tensor:
    """The Hamming window ``0.54 - 0.46 * cos(2 pi i / n)``, a vector of `window_length` elements (Harris, 1978).

    >>> plugrad.signal.hamming_window(4, dtype="float64")
    tensor([0.08, 0.54, 1.  , 0.54], dtype=float64)

    n is as for `hann_window`.

    Raises:
        ArgumentError: the length is not an integer.
        ArgumentValueError: the length is negative.
        DTypeError: the dtype is not numeric.
    """
    return _cosine_window("hamming_window", window_length, 0.54, 0.46, dtype)


def cosine_window(
    window_length: int, a: float, b: float, *, dtype: DTypeLike = "float32"
) -> Tensor:
    """The window ``a - b * cos(2 pi i / n)``, a vector of `window_length` elements.

    >>> plugrad.signal.cosine_window(4, 0.5, 0.5)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)

    n is as for `hann_window`. A window of length 1 is 1, whatever a and b are.

    Raises:
        ArgumentError: the length is not an integer, or a or b is not a number.
        ArgumentValueError: the length is negative, or a or b is not finite.
        DTypeError: the dtype is not numeric.
    """
    return _cosine_window("cosine_window", window_length, a, b, dtype)


def _cosine_window(op: str, window_length: int, a: float, b: float, dtype: DTypeLike) -> Tensor:
    """Return the window ``a - b * cos(2 pi i / n)``."""
    length = check_integer(window_length, op, "window_length", least=0)
    a = check_finite(a, op, "a")
    b = check_finite(b, op, "b")
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

    The dtype is that of the signal.

    Args:
        signal: samples along the last axis.
        frame_length: the number of samples in a frame.
        frame_step: the distance between the starts of neighbouring frames.
        pad_end: whether frames that reach beyond the signal are filled up; otherwise they are left
            out.
        pad_value: the value that fills up frames.

    Raises:
        ArgumentError: the length or the step is not an integer, or `pad_end` not a bool.
        ArgumentValueError: the length or the step is not positive.
        ShapeError: the signal is 0-d.
    """
    return _frame_signal("frame", signal, frame_length, frame_step, pad_end, pad_value)


def _frame_signal(
    op: str,
    signal: TensorLike,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Scalar = 0,
) -> Tensor:
    """Return the frames of a signal, after a check of the arguments."""
    x = as_tensor(signal, op, "signal")
    frame_length = check_integer(frame_length, op, "frame_length", least=1)
    frame_step = check_integer(frame_step, op, "frame_step", least=1)
    if x.ndim == 0:
        raise ShapeError(f"{op}: the signal is 0-d; it needs an axis of samples")
    size = x.shape[-1]
    if check_flag(pad_end, op, "pad_end"):
        count = -(-size // frame_step)
        missing = max(0, (count - 1) * frame_step + frame_length - size)
        x = pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)], pad_value)
    else:
        count = max(0, (size - frame_length) // frame_step + 1)
    width = gcd(frame_length, frame_step)
    if count and frame_length <= MAX_BLOCKS_PER_FRAME * width:
        return _frames_from_blocks(x, count, frame_length // width, frame_step // width, width)
    starts = arange(count, dtype="int32", device=x.backend) * frame_step
    places = starts.reshape(count, 1) + arange(frame_length, dtype="int32", device=x.backend)
    return take(x, places, axis=-1)


MAX_BLOCKS_PER_FRAME: Final = 16
"""The most blocks from which frames are joined; for more, elements are gathered one by one."""


def _frames_from_blocks(
    x: Tensor, frame_count: int, blocks_per_frame: int, block_step: int, block_size: int
) -> Tensor:
    """Return frames joined from blocks of `block_size` samples; a frame begins `block_step` blocks after the last."""
    lead = x.shape[:-1]
    whole = ((frame_count - 1) * block_step + blocks_per_frame) * block_size
    if whole != x.shape[-1]:
        x = movement.slice(x, begin=(0,) * x.ndim, size=(*lead, whole))
    rows = movement.reshape(x, shape=(*lead, whole // block_size, block_size))
    ones = (1,) * len(lead)
    parts = [
        movement.strided_slice(
            rows,
            begin=(*(0 for _ in lead), i, 0),
            end=(*lead, i + (frame_count - 1) * block_step + 1, block_size),
            strides=(*ones, block_step, 1),
        )
        for i in range(blocks_per_frame)
    ]
    return movement.concat(*parts, axis=x.ndim)


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

    The dtype is complex64, or complex128 for a float64 signal.

    Args:
        signal: floating samples along the last axis.
        frame_length: the number of samples in a frame.
        frame_step: the distance between the starts of neighbouring frames.
        fft_length: the length to which frames are filled up with zeros, or cut; by default the
            smallest power of two that is not less than `frame_length`.
        window_fn: a function that returns the window of a length; None leaves the frames unchanged.

    Raises:
        ArgumentError: a length or the step is not an integer, or `window_fn` not a function.
        ArgumentValueError: a length or the step is not positive.
        DTypeError: the signal is not floating.
        ShapeError: the signal is 0-d.
    """
    frame_length = check_integer(frame_length, "stft", "frame_length", least=1)
    frames = _frame_signal("stft", signal, frame_length, frame_step)
    if window_fn is not None:
        if not callable(window_fn):
            raise ArgumentError(
                f"stft: window_fn={short_repr(window_fn)} must be a function of the length, such as hann_window"
            )
        window = as_tensor(window_fn(frame_length), "stft", "window_fn's window")
        frames = frames * window.astype(frames.dtype).to(frames.backend)
    if fft_length is None:
        fft_length = 1 << (frame_length - 1).bit_length()
    return rfft(frames, n=fft_length)
