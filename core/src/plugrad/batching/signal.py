"""Batching rules of Fourier transforms of the last axis."""

from plugrad.kernels import signal
from plugrad.registry.batching import leading, register_batching

register_batching(signal.fft, leading)
register_batching(signal.ifft, leading)
register_batching(signal.rfft, leading)
register_batching(signal.irfft, leading)
