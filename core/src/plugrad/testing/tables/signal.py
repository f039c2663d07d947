"""Fourier transforms."""

import numpy as np

from plugrad.kernels import signal
from plugrad.testing.rows import Row, of_shape

ROWS = [
    Row(kernel, lambda x, f=reference: f(x), [of_shape(*shape)], factor=2)
    for kernel, reference in [(signal.fft, np.fft.fft), (signal.ifft, np.fft.ifft)]
    for shape in [(8,), (3, 5), (2, 2, 12), (1,), (31,)]
]
