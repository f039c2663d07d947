"""Batching rules of kernels that put complex numbers together from parts of one shape."""

from plugrad.kernels import complex
from plugrad.registry.batching import register_batching, run_with_leading_axis

register_batching(complex.complex, run_with_leading_axis)
