"""Test rows of the Fourier transforms."""

import numpy as np

import plugrad
from plugrad.kernels import signal
from plugrad.testing.rows import Row, arbitrary_numbers

LONG_TRANSFORM_LENGTH = 36
"""The number of points of a transform that pads its input."""
# Powers of two, other small factors, vectors with a rest, and large primes with and without company.
COMPLEX_INPUT_SHAPES = [
    (2, 64),
    (1000,),
    (2, 243),
    (3, 525),
    (2, 1001),
    (1024,),
    (2, 37),
    (202,),
    (1009,),
]
REAL_INPUT_SHAPES = [(3, 8), (2, 7), (1, 1), (2, 2), (0, 4), (2, 128), (1, 1000), (2, 243), (1, 74)]

TEST_ROWS = [
    *(
        Row(
            kernel,
            lambda x, f=reference: f(x),
            [arbitrary_numbers(*shape)],
            tolerance_factor=2,
            op=op,
            is_edge=0 in shape or shape[-1] > LONG_TRANSFORM_LENGTH,
        )
        for kernel, op, reference in [
            (signal.fft, plugrad.fft.fft, np.fft.fft),
            (signal.ifft, plugrad.fft.ifft, np.fft.ifft),
        ]
        for shape in [
            (8,),
            (7,),
            (3, 5),
            (2, 3, 4),
            (2, 2, 12),
            (1,),
            (31,),
            (0, 4),
            *COMPLEX_INPUT_SHAPES,
        ]
    ),
    *(
        Row(
            signal.rfft,
            np.fft.rfft,
            [arbitrary_numbers(rows, n)],
            tolerance_factor=2,
            op=plugrad.fft.rfft,
            is_edge=rows == 0 or n > LONG_TRANSFORM_LENGTH,
        )
        for rows, n in REAL_INPUT_SHAPES
    ),
    *(
        Row(
            signal.irfft,
            lambda x, n=n: np.fft.irfft(x, n),
            [arbitrary_numbers(rows, n // 2 + 1)],
            {"length": n},
            tolerance_factor=2,
            op=lambda x, length: plugrad.fft.irfft(x, n=length),
            is_edge=rows == 0 or n > LONG_TRANSFORM_LENGTH,
        )
        for rows, n in REAL_INPUT_SHAPES
    ),
]
