"""Fourier transforms in the precision of their input."""

import numpy as np

from plugrad.kernels import signal
from plugrad_cpu.declare import table

table.update({signal.fft: np.fft.fft, signal.ifft: np.fft.ifft})
