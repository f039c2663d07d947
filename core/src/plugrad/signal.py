"""Functions of signals: windows, frames and the short-time Fourier transform."""

from plugrad.ops.signal import (
    cosine_window as cosine_window,
    frame as frame,
    hamming_window as hamming_window,
    hann_window as hann_window,
    stft as stft,
)
