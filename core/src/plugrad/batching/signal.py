"""Batching rules of Fourier transforms of the last axis."""

from plugrad.kernels import signal
from plugrad.registry.batching import register_batching, run_with_leading_axis

register_batching(signal.fft, run_with_leading_axis)
register_batching(signal.ifft, run_with_leading_axis)
register_batching(signal.rfft, run_with_leading_axis)
register_batching(signal.irfft, run_with_leading_axis)
