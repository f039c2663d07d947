"""Batching rules of kernels that put complex numbers together from parts of one shape."""

from plugrad.kernels import complex
from plugrad.registry.batching import leading, register_batching

register_batching(complex.complex, leading)
