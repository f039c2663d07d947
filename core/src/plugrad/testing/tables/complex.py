"""Test rows of the functions of complex numbers."""

import numpy as np

import plugrad
from plugrad.kernels import complex
from plugrad.testing.rows import Row, numbers

TEST_ROWS = [
    *(
        Row(
            complex.complex,
            lambda a, b: a + 1j * b,
            [numbers(shape=shape), numbers(shape=shape)],
            is_special=False,
            is_edge=0 in shape,
        )
        for shape in [(3, 5), (7, 1), (), (0, 2)]
    ),
    Row(complex.real, np.real, [numbers()]),
    Row(complex.imag, np.imag, [numbers()]),
    Row(complex.complex_abs, np.abs, [numbers(0.5, 3)], op=plugrad.abs),
    Row(complex.conj, np.conj, [numbers()]),
    Row(  # the squares are beyond the largest number
        complex.complex_abs,
        np.abs,
        [numbers(1e30, 2e30)],
        is_smooth=False,
        is_edge=True,
        dtypes=("complex64", "complex128"),
    ),
]
