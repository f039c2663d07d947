"""Batching rules of kernels that combine tensors element by element, but do not broadcast them."""

from plugrad.kernels import binary
from plugrad.registry.batching import register_batching, run_with_leading_axis

register_batching(binary.add_n, run_with_leading_axis)
