"""Fourier transforms."""

import torch

from plugrad.kernels import signal
from plugrad_torch.declare import update

update(
    {
        signal.fft: torch.fft.fft,
        signal.ifft: torch.fft.ifft,
        signal.rfft: torch.fft.rfft,
        signal.irfft: lambda input, *, length: torch.fft.irfft(input, length),
    }
)
