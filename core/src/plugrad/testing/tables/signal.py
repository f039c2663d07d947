"""Fourier transforms."""

import numpy as np

import plugrad
from plugrad.kernels import signal
from plugrad.testing.rows import Row, of_shape

ROWS = [
    Row(
        kernel,
        lambda x, f=reference: f(x),
        [of_shape(*shape)],
        factor=2,
        op=op,
        is_edge=0 in shape,
    )
    for kernel, op, reference in [
        (signal.fft, plugrad.fft.fft, np.fft.fft),
        (signal.ifft, plugrad.fft.ifft, np.fft.ifft),
    ]
    for shape in [(8,), (7,), (3, 5), (2, 3, 4), (2, 2, 12), (1,), (31,), (0, 4)]
]
