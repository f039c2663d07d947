"""Fourier transforms, and the filters of mel spectra."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import numpy_dtype
from plugrad_onnx.operators.common import single_element
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray


@operator("DFT")
def dft_by_attribute(
    x: Tensor,
    length: HostArray | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Return the Fourier transform along an axis; the last axis holds real and imaginary parts."""
    return _fourier_transform(x, length, axis, bool(inverse), bool(onesided))


@operator("DFT", since=20)
def dft(
    x: Tensor,
    dft_length: HostArray | None = None,
    axis: HostArray | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Return the Fourier transform along an axis; the last axis holds real and imaginary parts."""
    where = -2 if axis is None else int(single_element(axis))
    return _fourier_transform(x, dft_length, where, bool(inverse), bool(onesided))


@operator("STFT")
def stft(
    x: Tensor,
    frame_step: HostArray,
    window: Tensor | None = None,
    frame_length: HostArray | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Return the Fourier transforms of overlapping frames."""
    hop = int(single_element(frame_step))
    if frame_length is None and window is None:
        size = x.shape[1]
    else:
        size = int(single_element(frame_length)) if frame_length is not None else window.shape[0]  # type: ignore[union-attr]
    count = (x.shape[1] - size) // hop + 1
    frames = plugrad.stack([x[:, t * hop : t * hop + size] for t in range(count)], axis=1)
    frames = frames if frames.ndim == 4 else plugrad.expand_dims(frames, axis=-1)
    if window is not None:
        frames = frames * plugrad.reshape(window, (-1, 1))
    return _fourier_transform(frames, None, 2, False, bool(onesided))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: HostArray,
    dft_length: HostArray,
    sample_rate: HostArray,
    lower_edge_hertz: HostArray,
    upper_edge_hertz: HostArray,
    *,
    output_datatype: int = 1,
) -> Any:
    """Return the matrix of triangular filters that maps a spectrum to mel bins."""
    count, size = int(num_mel_bins.item()), int(dft_length.item()) // 2 + 1
    first, last = _hertz_to_mel(lower_edge_hertz.item()), _hertz_to_mel(upper_edge_hertz.item())
    edges = first + np.arange(count + 2) * ((last - first) / (count + 2))
    places = (
        700 * (10 ** (edges / 2595) - 1) * (int(dft_length.item()) + 1) // sample_rate.item()
    ).astype(int)
    matrix = np.zeros((size, count))
    for column in range(count):
        left, middle, right = map(int, places[column : column + 3])
        if left == middle:
            matrix[middle, column] = 1
        else:
            rising = np.arange(left, middle + 1)
            matrix[rising, column] = (rising - left) / (middle - left)
        if right > middle:
            falling = np.arange(middle, right)
            matrix[falling, column] = (right - falling) / (right - middle)
    return matrix.astype(numpy_dtype(output_datatype))


def _hertz_to_mel(hertz: float) -> float:
    """Return a frequency on the mel scale."""
    return 2595 * math.log10(1 + hertz / 700)


def _fourier_transform(
    x: Tensor, dft_length: HostArray | None, axis: int, is_inverse: bool, is_onesided: bool
) -> Tensor:
    """Return the Fourier transform of reals or pairs: pairs, or reals if it is inverse and one-sided."""
    axis = axis % x.ndim
    size = None if dft_length is None else int(single_element(dft_length))
    imaginary = x[..., 1] if x.shape[-1] == 2 else plugrad.zeros_like(x[..., 0])
    values = plugrad.complex(x[..., 0], imaginary)
    if is_inverse and is_onesided:
        whole = size or 2 * (x.shape[axis] - 1)
        return plugrad.expand_dims(plugrad.fft.irfft(values, n=whole, axis=axis), axis=-1)
    transform = plugrad.fft.ifft if is_inverse else plugrad.fft.fft
    result = transform(values, n=size, axis=axis)
    if is_onesided:
        half = result.shape[axis] // 2 + 1
        result = result[(slice(None),) * axis + (slice(0, half),)]
    return plugrad.stack([plugrad.real(result), plugrad.imag(result)], axis=-1)
