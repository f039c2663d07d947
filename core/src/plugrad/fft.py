"""Discrete Fourier transforms, as the Python array API standard names them."""

from plugrad.ops.fft import (
    fft as fft,
    fftfreq as fftfreq,
    fftn as fftn,
    fftshift as fftshift,
    hfft as hfft,
    ifft as ifft,
    ifftn as ifftn,
    ifftshift as ifftshift,
    ihfft as ihfft,
    irfft as irfft,
    irfftn as irfftn,
    rfft as rfft,
    rfftfreq as rfftfreq,
    rfftn as rfftn,
)
