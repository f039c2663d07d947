"""Gradients of the Fourier transforms. Their matrices are symmetric, so the transpose is the transform itself."""

from plugrad.kernels import signal
from plugrad.tape.rules import gradient

gradient(signal.fft, input=lambda dy: signal.fft(dy))
gradient(signal.ifft, input=lambda dy: signal.ifft(dy))
