"""Gradients of the Fourier transforms, whose matrices are symmetric: the transpose is the transform itself."""

from plugrad.gradient import gradient
from plugrad.kernels import signal

gradient(signal.fft, input=lambda dy: signal.fft(dy))
gradient(signal.ifft, input=lambda dy: signal.ifft(dy))
